import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect, image, run, test } from "./lab.mjs";

/** Lets debugfs change an image. */
function change(file, ...requests) {
  for (const request of requests) run("debugfs", "-w", "-R", request, file);
}

const number = (file, name) => Number(run("debugfs", "-R", `stat ${name}`, file).match(/^Inode: (\d+)/)[1]);

test.describe("the explorer", () => {
  test.beforeEach(async ({ lab }) => {
    await lab.button("Explore").click();
  });

  test("the tree opens by keyboard down to a file, and the file is what was put in", async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-b", "1024");
    await lab.open(file);
    const tree = lab.page.getByRole("tree");
    await expect(tree).toContainText("lost+found");
    await tree.focus();
    // dir, hello, lost+found
    await lab.page.keyboard.press("Home");
    await lab.page.keyboard.press("ArrowRight");
    await expect(tree).toContainText("file-7");
    const names = run("debugfs", "-R", "ls -p /dir", file).match(/file-\d+/g).sort();
    await expect(tree.getByRole("treeitem", { name: "file-" }).first()).toContainText(names[0]);
    for (let at = 0; at <= names.indexOf("file-7"); at++) await lab.page.keyboard.press("ArrowDown");
    await lab.page.keyboard.press("Enter");
    await expect(lab.page.getByRole("heading", { name: "/dir/file-7" })).toBeVisible();
    await expect(lab.page.locator("pre.content")).toHaveText("x".repeat(700));
    await expect(lab.page.locator(".inspector h2").first()).toHaveText(`Inode ${number(file, "/dir/file-7")}`);
    await tree.focus();
    await lab.page.keyboard.press("ArrowLeft");
    await lab.page.keyboard.press("ArrowLeft");
    await expect(tree).not.toContainText("file-7");
  });

  test("path, inode and block lead to each other, and Back leads back", async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-b", "1024");
    await lab.open(file);
    await expect(lab.page.locator(".reading")).toContainText("Nothing wrong");
    await lab.find("/dir/file-39");
    const inspector = lab.page.locator(".inspector");
    const inode = number(file, "/dir/file-39");
    await expect(inspector.locator("h2").first()).toHaveText(`Inode ${inode}`);
    await expect(inspector.locator(".path")).toHaveText("/dir/file-39");
    const block = run("debugfs", "-R", "bmap /dir/file-39 1", file).trim();
    await lab.find(`block ${block}`);
    await expect(inspector.locator("h2").first()).toHaveText(`Block ${block}`);
    await expect(inspector).toContainText(`Block 1 of the data of inode ${inode}`);
    await expect(inspector).toContainText("/dir/file-39");
    const asked = run("debugfs", "-R", `icheck ${block}`, file);
    expect(asked).toContain(String(inode));
    await inspector.getByRole("button", { name: `inode ${inode}`, exact: true }).click();
    await expect(inspector.locator("h2").first()).toHaveText(`Inode ${inode}`);
    await lab.button("Back").click();
    await expect(inspector.locator("h2").first()).toHaveText(`Block ${block}`);
    await lab.find("/no/such");
    await expect(lab.page.getByRole("search")).toContainText("there is no “no”");
    await lab.find("block 99999999");
    await expect(lab.page.getByRole("search")).toContainText("There is no block 99999999");
  });

  test("bytes and fields light each other up", async ({ lab }) => {
    await lab.find("block 1");
    const inspector = lab.page.locator(".inspector");
    await expect(inspector.locator("h2").first()).toHaveText("Block 1");
    const row = inspector.locator(".fields tbody tr").nth(2);
    await row.hover();
    await expect(inspector.locator("pre .lit").first()).toBeVisible();
    await inspector.locator("pre .piece").nth(1).hover();
    await expect(inspector.locator(".fields tr.lit")).toHaveCount(1);
  });

  test("a directory with an index is a tree of hashes, and its attributes are told", async ({ lab, folder }) => {
    const tree = path.join(folder, "many");
    fs.mkdirSync(path.join(tree, "d"), { recursive: true });
    for (let n = 0; n < 400; n++) fs.writeFileSync(path.join(tree, "d", `a-long-name-for-a-file-${n}`), "");
    const file = path.join(folder, "many.img");
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-d", tree, file, "16M");
    try {
      run("e2fsck", "-fyD", file);
    } catch {
      // It says by its status that it has changed something.
    }
    change(file, "ea_set /d user.comment well-kept");
    await lab.open(file);
    await lab.find("/d");
    const inspector = lab.page.locator(".inspector");
    await expect(inspector).toContainText("user.comment");
    await expect(inspector).toContainText("well-kept");
    await inspector.getByText(/^Index by half MD4 hash/).click();
    const leaves = run("debugfs", "-R", "htree /d", file).match(/^Entry #\d+: Hash 0x([0-9a-f]+)/gm).slice(1);
    for (const leaf of leaves.slice(0, 5)) {
      await expect(inspector.locator(".hash-tree")).toContainText(leaf.match(/0x([0-9a-f]+)/)[1]);
    }
  });

  test("a damaged directory is told with the place, and what is before it is shown", async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-b", "1024", "-O", "^metadata_csum");
    const block = Number(run("debugfs", "-R", "bmap /dir 0", file));
    const bytes = fs.readFileSync(file);
    bytes.writeUInt16LE(4088, block * 1024 + 24 + 4);
    fs.writeFileSync(file, bytes);
    await lab.open(file);
    await lab.look("Findings");
    const inode = number(file, "/dir");
    const finding = lab.page.locator(".findings .error", { hasText: `inode ${inode}: directory block ${block}` }).first();
    await expect(finding).toContainText("past the end of the block");
    await finding.getByRole("button", { name: /^byte/ }).click();
    await expect(lab.page.locator(".inspector h2").first()).toHaveText(`Block ${block}`);
    expect(() => run("e2fsck", "-fn", file)).toThrow();
  });

  test("an image with a full journal is shown as it lies there and as after a replay", async ({ lab, folder }) => {
    const file = image(folder, "dirty.img", "-b", "1024", "-J", "size=1");
    const inode = number(file, "/dir/file-20");
    const block = run("debugfs", "-R", "bmap /dir/file-20 0", file).trim();
    const news = path.join(folder, "news");
    fs.writeFileSync(news, "journalled ".padEnd(1024, "."));
    execFileSync("debugfs", ["-w", file], { input: `jo\njw -b ${block} ${news}\njc\n`, stdio: ["pipe", "ignore", "ignore"] });
    await lab.open(file);
    await lab.find(`inode ${inode}`);
    await expect(lab.page.locator("pre.content")).toContainText("xxxx");
    await lab.look("Journal");
    await expect(lab.page.locator(".work")).toContainText("1 transaction that a replay carries out");
    await expect(lab.page.locator(".work .blocks").last()).toContainText(block);
    await lab.page.locator(".side").getByLabel("Shown").selectOption("replayed");
    await expect(lab.page.locator(".work")).toContainText("There is no transaction to replay", { timeout: 15_000 });
    await lab.find(`inode ${inode}`);
    await expect(lab.page.locator("pre.content")).toContainText("journalled ....");
  });

  test("a packed image opens, and so does a disk, partition by partition", async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-b", "1024");
    execFileSync("gzip", ["-k", file]);
    await lab.open(`${file}.gz`);
    await expect(lab.page.locator(".side")).toContainText("Inside a gzip file");
    await expect(lab.page.getByRole("tree")).toContainText("hello");
    const raw = fs.readFileSync(file);
    const sector = Buffer.alloc(2048 * 512);
    const entry = (at, kind, start, sectors) => {
      sector[446 + at * 16 + 4] = kind;
      sector.writeUInt32LE(start, 446 + at * 16 + 8);
      sector.writeUInt32LE(sectors, 446 + at * 16 + 12);
    };
    entry(0, 0x0c, 64, 64);
    entry(1, 0x83, 2048, raw.length / 512);
    sector.writeUInt16LE(0xaa55, 510);
    const disk = path.join(folder, "disk.img");
    fs.writeFileSync(disk, Buffer.concat([sector, raw]));
    await lab.open(disk);
    await expect(lab.page.getByLabel("Partition").locator("option:checked")).toContainText("2: Linux");
    await expect(lab.page.getByRole("tree")).toContainText("hello");
    // The lab runs over it too.
    await lab.button("Lab").click();
    await lab.speed(60);
    await lab.run();
    await lab.reaches("operations", 4);
    await lab.stop();
  });

  test("a map shows whose each block is, and arrow keys move over it", async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-b", "1024");
    await lab.open(file);
    await expect(lab.page.locator(".reading")).toContainText("Nothing wrong");
    const map = lab.page.getByRole("application", { name: /^Blocks of group 0/ });
    await map.focus();
    await lab.page.keyboard.press("Home");
    await expect(lab.page.locator("#block-now")).toHaveText("Block 1: superblock");
    await lab.page.keyboard.press("ArrowRight");
    await expect(lab.page.locator("#block-now")).toHaveText("Block 2: group descriptors");
    const block = Number(run("debugfs", "-R", "bmap /dir 0", file));
    await lab.find(`block ${block}`);
    await expect(lab.page.locator("#block-now")).toHaveText(`Block ${block}: directory`);
    await map.focus();
    await lab.page.keyboard.press("End");
    await expect(lab.page.locator("#block-now")).toHaveText("Block 8192: free");
  });

  test("orphans are listed in the order of recovery", async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-O", "^has_journal");
    const [one, two] = [number(file, "/hello"), number(file, "/dir/file-3")];
    change(file, "unlink /hello", "unlink /dir/file-3", `ssv last_orphan ${one}`,
      `sif <${one}> links_count 0`, `sif <${one}> dtime ${two}`, `sif <${two}> links_count 0`, `sif <${two}> dtime 0`);
    await lab.open(file);
    await lab.look("Orphans");
    await expect(lab.page.locator(".work tbody tr td:first-child")).toHaveText([String(one), String(two)]);
  });
});
