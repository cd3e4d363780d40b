import { expect, image, test } from "./lab.mjs";

const designs = ["spin", "trylock-skip", "static-trylock", "trylock-break", "rcu", "bucket-lock"];

for (const design of designs) {
  test(`eight workers run ${design} in slow motion, pause, go on and stop`, async ({ lab }) => {
    await lab.choose("Design", design);
    await lab.speed(60);
    await lab.run();
    await lab.reaches("operations", 20);
    await lab.reaches("written-along", 1);
    await lab.button("Pause").click();
    await expect(lab.state).toHaveText(/^Paused/);
    await lab.page.waitForTimeout(500);
    const held = await lab.page.locator(".cpus").textContent();
    const lookups = await lab.number("lookups");
    await lab.page.waitForTimeout(700);
    expect(await lab.page.locator(".cpus").textContent()).toBe(held);
    expect(await lab.number("lookups")).toBe(lookups);
    await lab.button("Resume").click();
    await lab.reaches("lookups", lookups + 20);
    await lab.stop();
    expect(await lab.page.locator(".cpus tbody").textContent()).not.toContain("working");
    expect(lab.page.workers().length).toBe(1);
  });
}

test("the design is changed while nothing runs, and flat out every one of them gets on", async ({ lab }) => {
  await lab.choose("Clock", "workers, flat out");
  await lab.fill("CPUs", 2);
  for (const design of designs) {
    await lab.choose("Design", design);
    await lab.run();
    await expect(lab.control("Design")).toBeDisabled();
    await lab.reaches("operations", 1_000);
    await lab.stop();
    expect(await lab.number("lookups")).toBeGreaterThan(1_000);
  }
});

for (const [inode, wanted] of [[256, 15], [512, 7], [128, 31]]) {
  test(`with ${inode}-byte inodes spin takes the hash lock ${wanted} times for each inode write`, async ({ lab, folder }) => {
    await lab.open(image(folder, "own.img", "-b", "4096", "-I", String(inode)));
    await lab.choose("Clock", "workers, flat out");
    await lab.fill("CPUs", 2);
    await lab.run();
    await lab.reaches("operations", 500);
    await lab.stop();
    await expect(lab.page.locator("#per-write")).toHaveText(`${wanted}.00`);
  });
}

test("without lazytime nobody looks for neighbours", async ({ lab }) => {
  await lab.choose("Lazytime", "off");
  await lab.choose("Clock", "workers, flat out");
  await lab.fill("CPUs", 2);
  await lab.run();
  await lab.reaches("operations", 500);
  await lab.stop();
  expect(await lab.number("lookups")).toBe(0);
  expect(await lab.number("per-write")).toBe(0);
});

for (const cpus of [32, 64]) {
  test(`${cpus} workers come up, leave the page responsive, and end`, async ({ lab }) => {
    await lab.fill("CPUs", cpus);
    await lab.choose("Files", "each in a group of its own");
    await lab.speed(65);
    await lab.run();
    await lab.reaches("operations", 2 * cpus);
    expect(lab.page.workers().length).toBe(cpus + 2);
    const begun = Date.now();
    await lab.button("Pause").click();
    await expect(lab.state).toHaveText(/^Paused/);
    expect(Date.now() - begun).toBeLessThan(2_000);
    await lab.button("Resume").click();
    await lab.stop();
    await expect.poll(() => lab.page.workers().length).toBe(1);
  });
}

test("in virtual time the same seed gives the same events, and another seed others", async ({ lab }) => {
  await lab.choose("Clock", "virtual time");
  const summary = lab.page.getByText("The last events in words");
  const newest = lab.page.locator(".recent li").first();
  const events = [];
  for (const seed of [11, 11, 12]) {
    await lab.fill("Seed", seed);
    await lab.speed(30);
    await lab.run();
    await lab.button("Pause").click();
    if (await newest.isHidden()) await summary.click();
    const number = async () => Number((await newest.getAttribute("value").catch(() => "0")) ?? 0);
    for (let now = await number(); now < 60; now++) {
      await lab.button("Next event").click();
      await expect.poll(number).toBe(now + 1);
    }
    events.push(await lab.page.locator(".recent").textContent());
    await lab.button("Stop").click();
    await expect(lab.state).toHaveText(/^Stopped after/);
  }
  expect(events[1]).toBe(events[0]);
  expect(events[2]).not.toBe(events[0]);
});

test("an engine that hangs is ended, and the page goes on", async ({ lab }) => {
  await lab.page.workers()[0].evaluate(() => void setTimeout(() => { for (;;); }));
  await lab.button("Explore").click();
  await lab.look("Inode tables");
  await lab.page.getByRole("button", { name: /^Group 1/ }).click();
  await expect(lab.page.getByRole("alert")).toContainText("it has not answered for 15 seconds", { timeout: 30_000 });
  await lab.button("Start a fresh engine").click();
  await expect(lab.page.getByRole("heading", { name: "Inode table of group 0" })).toBeVisible();
});

test("a killed worker leaves the page alive, and Run starts afresh", async ({ lab, expected }) => {
  expected.push(/killed/);
  await lab.speed(60);
  await lab.run();
  await lab.reaches("operations", 4);
  const lead = lab.page.workers().at(1);
  await lead.evaluate(() => void setTimeout(() => { throw new Error("killed"); }));
  await expect(lab.page.getByRole("alert")).toContainText("killed");
  await lab.button("Dismiss").click();
  await lab.run();
  await lab.reaches("operations", 4);
  await lab.stop();
});

test("a killed explorer leaves the page alive with a way on", async ({ lab, expected }) => {
  expected.push(/killed/);
  await lab.page.workers()[0].evaluate(() => void setTimeout(() => { throw new Error("killed"); }));
  await expect(lab.page.getByRole("alert")).toContainText("The engine ended unexpectedly");
  await lab.button("Start a fresh engine").click();
  await expect(lab.page.getByText("everyday.img", { exact: true })).toBeVisible();
  await lab.button("Explore").click();
  await lab.look("Inode tables");
  await expect(lab.page.getByRole("heading", { name: "Inode table of group 0" })).toBeVisible();
});

test.describe("where workers may not share memory", () => {
  test.use({ baseURL: "http://127.0.0.1:8766/" });

  test("the live modes are off, with the reason, and virtual time runs", async ({ lab }) => {
    await expect(lab.page.getByText("The live modes are off")).toContainText("Cross-Origin-Opener-Policy");
    await lab.speed(70);
    await lab.run();
    await lab.reaches("lookups", 100);
    await lab.button("Stop").click();
    await expect(lab.state).toHaveText(/^Stopped after/);
  });
});
