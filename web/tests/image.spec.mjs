import fs from "node:fs";
import path from "node:path";
import { expect, image, run, test } from "./lab.mjs";

test("a sample is open and a scenario is ready soon after the page", async ({ page }) => {
  const begun = Date.now();
  await page.goto("/");
  await expect(page.getByText("everyday.img", { exact: true })).toBeVisible();
  await expect(page.getByRole("button", { name: "Run", exact: true })).toBeEnabled();
  // Two seconds are wanted; a busy host gets three times that.
  expect(Date.now() - begun).toBeLessThan(3 * 2_000);
});

for (const [block, inode] of [[4096, 256], [4096, 512], [4096, 128], [1024, 128]]) {
  test(`an image with ${block}-byte blocks and ${inode}-byte inodes is shown as dumpe2fs and debugfs see it`, async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-b", String(block), "-I", String(inode));
    await lab.open(file);
    await lab.button("Explore").click();
    const head = run("dumpe2fs", "-h", file);
    const value = (name) => head.match(new RegExp(`^${name}: +(.*)$`, "m"))[1];
    await expect(lab.page.getByText(value("Filesystem UUID")).first()).toBeVisible();
    await expect(lab.page.locator(".features")).toHaveText(value("Filesystem features").replaceAll(" ", ", "));
    await expect(lab.page.getByText(`${block / inode} inodes each`)).toBeVisible();
    await lab.look("Superblock");
    const field = (name) => lab.page.locator(".work .fields tr", { hasText: name }).first().locator("td");
    await expect(field("s_inodes_count")).toHaveText(value("Inode count"));
    await expect(field("s_free_inodes_count")).toHaveText(value("Free inodes"));
    await expect(field("s_blocks_count_lo")).toHaveText(value("Block count"));

    const stat = run("debugfs", "-R", "stat /hello", file);
    const number = Number(stat.match(/^Inode: (\d+)/)[1]);
    await lab.look("Inode tables");
    const table = lab.page.locator("canvas.table");
    await table.focus();
    await lab.page.keyboard.press("Home");
    for (let at = 1; at < number; at++) await lab.page.keyboard.press("ArrowRight");
    await expect(lab.page.locator("#slot-now")).toContainText(`Inode ${number}: file`);
    const inspector = lab.page.locator(".inspector");
    await expect(inspector.locator("h2")).toHaveText(`Inode ${number}`);
    await expect(inspector).toContainText("6 bytes");
    await expect(inspector.locator("dl")).toContainText("-rw-r--r--");
    const block_of = run("debugfs", "-R", "imap /hello", file).match(/block (\d+)/)[1];
    await expect(lab.page.locator("#slot-now")).toContainText(`block ${block_of},`);
  });
}

test("a group that was never used shows slots that were never initialised", async ({ lab }) => {
  await lab.button("Explore").click();
  await lab.look("Inode tables");
  await lab.page.getByRole("button", { name: /^Group 3/ }).click();
  await lab.page.locator("canvas.table").press("Home");
  await expect(lab.page.getByRole("heading", { name: "Inode table of group 3" })).toBeVisible();
  await expect(lab.page.locator("#slot-now")).toContainText("never initialised");
  await expect(lab.page.locator(".inspector")).toContainText("nothing has been written here");
});

test("files that are not ext4 get a clear word, and the page goes on", async ({ lab, folder }) => {
  const good = fs.readFileSync(image(folder, "good.img", "-b", "1024"));
  const spoilt = Buffer.from(good);
  spoilt.fill(0xff, 1024 + 0x18, 1024 + 0x1c);
  const hostile = [
    ["picture.png", Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(9000, 7)]), "a PNG picture"],
    ["empty.img", Buffer.alloc(0), "an empty file"],
    ["noise.img", Buffer.from(Array.from({ length: 70_000 }, (_, n) => (n * 7919 + (n >> 3)) & 0xff)), "something unknown"],
  ];
  for (const [name, bytes, words] of hostile) {
    const file = path.join(folder, name);
    fs.writeFileSync(file, bytes);
    await lab.page.getByLabel("Open an ext4 image").setInputFiles(file);
    await expect(lab.page.getByRole("alert")).toContainText(words);
    await expect(lab.page.getByRole("alert")).toContainText(name);
  }
  const short = path.join(folder, "short.img");
  fs.writeFileSync(short, good.subarray(0, 300_000));
  await lab.open(short);
  await lab.button("Explore").click();
  await lab.look("Findings");
  await expect(lab.page.locator(".findings").first()).toContainText("the image ends after 300000 bytes");
  const lost = path.join(folder, "spoilt.img");
  fs.writeFileSync(lost, spoilt);
  await lab.open(lost);
  await expect(lab.page.locator(".findings").first()).toContainText("s_log_block_size is 4294967295");
  await expect(lab.page.locator(".findings").first()).toContainText("the copy in group 1");
  await lab.page.getByLabel("Sample images").selectOption({ index: 2 });
  await expect(lab.page.getByText("classic.img", { exact: true })).toBeVisible();
});
