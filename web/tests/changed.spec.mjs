import { join } from "node:path";
import { expect, image, run, test } from "./lab.mjs";

for (const clock of ["virtual time", "workers, flat out", "workers, slow motion"]) {
  test(`the image as a run in ${clock} has changed it is kept, and e2fsck is content with it`, async ({ lab, folder }) => {
    const own = image(folder, "own.img", "-b", "4096", "-I", "256", "-O", "metadata_csum,orphan_file");
    await lab.open(own);
    await lab.choose("Clock", clock);
    await lab.fill("CPUs", 2);
    if (clock === "virtual time") await lab.fill("Operations", 20);
    await lab.run();
    if (clock === "virtual time") {
      await expect(lab.state).toHaveText(/^Finished/, { timeout: 60_000 });
    } else {
      await lab.reaches("operations", 10);
      await lab.stop();
    }
    await expect(lab.page.locator("#changed")).toContainText("blocks of the image differ");
    const table = lab.page.locator(".changes details", { hasText: "i_size_lo" }).first();
    await table.locator("summary").click();
    await expect(table.getByRole("row", { name: /i_size_lo/ }).first()).toBeVisible();
    const coming = lab.page.waitForEvent("download");
    await lab.button("Download changed image").click();
    const download = await coming;
    expect(download.suggestedFilename()).toBe("changed-own.img");
    const kept = join(folder, "kept.img");
    await download.saveAs(kept);
    // Throws where it ends with an error; a question would be one too.
    expect(run("e2fsck", "-fn", "-E", "no_optimize_extents", kept)).not.toContain("?");
    expect(run("debugfs", "-R", "ls /ext4lab", kept)).toContain("job-0");
    // The user's file is as it was.
    expect(run("debugfs", "-R", "ls /", own)).not.toContain("ext4lab");
  });
}

test("a file system that is read but not written says so by the feature's name", async ({ lab, folder }) => {
  await lab.open(image(folder, "big.img", "-b", "4096", "-O", "bigalloc"));
  await lab.button("Run").click();
  await expect(lab.page.locator("body")).toContainText('has the feature "bigalloc", which is read here but not written');
});
