// What the tests share: a page that may not complain, images made by mke2fs, and the page's controls by their labels.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test as base, expect } from "@playwright/test";

export { expect };

const env = { ...process.env, PATH: `/usr/sbin:/sbin:${process.env.PATH}` };

/** Runs a tool of e2fsprogs; returns what it prints. */
export function run(tool, ...args) {
  return execFileSync(tool, args, { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

export const test = base.extend({
  /** A folder of this test's own. */
  folder: async ({}, use) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ext4lab-"));
    await use(folder);
    fs.rmSync(folder, { recursive: true });
  },
  /** Complaints that the test expects; any other fails it. */
  expected: async ({}, use) => use([]),
  /** The page, with the sample open. */
  lab: async ({ page, expected, baseURL }, use) => {
    const complaints = [];
    const complain = (text) => expected.some((known) => known.test(text)) || complaints.push(text);
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && complain(message.text()));
    page.on("pageerror", (error) => complain(error.message));
    page.on("requestfailed", (request) => complain(`${request.url()}: ${request.failure()?.errorText}`));
    page.on("request", (request) => {
      if (!/^(http:\/\/127\.0\.0\.1:876[56]\/|data:|blob:)/.test(request.url())) complaints.push(`asked for ${request.url()}`);
    });
    await page.goto(baseURL);
    await expect(page.getByText("everyday.img", { exact: true })).toBeVisible();
    await use(new Lab(page));
    expect(complaints).toEqual([]);
  },
});

class Lab {
  constructor(page) {
    this.page = page;
    this.state = page.locator("#run-state");
  }

  button(name) {
    return this.page.getByRole("button", { name, exact: true });
  }

  /** The choice or number behind this label. */
  control(label) {
    const field = this.page.locator("label.field").filter({ has: this.page.getByText(label, { exact: true }) });
    return field.locator("select, input");
  }

  /** Shows one of the explorer's views. */
  async look(name) {
    await this.page.getByRole("navigation", { name: "What to look at" }).getByRole("button", { name }).click();
  }

  /** Goes to a path, an inode or a block. */
  async find(query) {
    await this.page.getByRole("searchbox").fill(query);
    await this.page.getByRole("searchbox").press("Enter");
  }

  async choose(label, option) {
    await this.control(label).selectOption({ label: option });
  }

  async fill(label, value) {
    await this.control(label).fill(String(value));
    await this.control(label).blur();
  }

  /** From 30 (slow) to 70 (fast). */
  async speed(value) {
    await this.page.getByLabel("Speed").fill(String(value));
  }

  async open(file) {
    await this.page.getByLabel("Open an ext4 image").setInputFiles(file);
    await expect(this.page.getByText(path.basename(file), { exact: true })).toBeVisible();
  }

  async number(id) {
    return Number((await this.page.locator(`#${id}`).textContent()).replaceAll("\u202f", ""));
  }

  async run() {
    await this.button("Run").click();
    await expect(this.state).toHaveText(/^Running/);
  }

  async stop() {
    await this.button("Stop").click();
    await expect(this.state).toHaveText(/^Stopped after .* every operation was completed/);
    await expect(this.button("Run")).toBeVisible();
  }

  /** Waits until a counter is at least this. */
  async reaches(id, least) {
    await expect.poll(() => this.number(id), { timeout: 30_000 }).toBeGreaterThanOrEqual(least);
  }
}

/** An image with a few files, made by mke2fs. */
export function image(folder, name, ...options) {
  const tree = path.join(folder, "tree");
  fs.mkdirSync(path.join(tree, "dir"), { recursive: true });
  fs.writeFileSync(path.join(tree, "hello"), "hello\n");
  for (let n = 0; n < 40; n++) fs.writeFileSync(path.join(tree, "dir", `file-${n}`), "x".repeat(n * 100));
  const file = path.join(folder, name);
  run("mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1", "-d", tree, ...options, file, "64M");
  return file;
}
