import { expect, test } from "../tests/lab.mjs";

const read = /^(Nothing wrong|\d+ errors?, \d+ warnings?, \d+ notes?)$/;

for (const [name, file, wanted] of [
  ["4 GiB with 240,000 files", process.env.EXT4LAB_BENCH_MANY, "wanted: read through within 1.0 s"],
  ["2 TiB, sparse", process.env.EXT4LAB_BENCH_LARGE, "wanted: map within 2 s"],
]) {
  test(`an image of ${name} is opened and read through`, async ({ lab }) => {
    test.setTimeout(120_000);
    await lab.button("Explore").click();
    const times = [];
    for (let round = 0; round < 3; round++) {
      const begun = Date.now();
      await lab.open(file);
      await lab.page.getByRole("application", { name: /^Blocks of group 0/ }).waitFor();
      const mapped = Date.now() - begun;
      await expect(lab.page.locator(".reading [role=status]")).toHaveText(read, { timeout: 60_000 });
      times.push([Date.now() - begun, mapped]);
    }
    const [whole, mapped] = times.sort((a, b) => a[0] - b[0])[1];
    console.log(`${name}: map after ${mapped} ms, read through after ${whole} ms, from the choice of the file (${wanted})`);
  });
}
