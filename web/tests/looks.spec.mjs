import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./lab.mjs";

const looks = [["light", 1440], ["dark", 1440], ["light", 360], ["dark", 360]];

for (const [colorScheme, width] of looks) {
  test.describe(`${colorScheme}, ${width} wide`, () => {
    test.use({ colorScheme, viewport: { width, height: 900 } });

    test("axe finds nothing, and the page is not wider than the window", async ({ lab }) => {
      const check = async (name) => {
        await lab.page.screenshot({ path: `artefacts/screens/${name}-${colorScheme}-${width}.png` });
        const found = await new AxeBuilder({ page: lab.page }).analyze();
        expect(found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`)).toEqual([]);
        expect(await lab.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      };
      await check("ready");
      await lab.speed(55);
      await lab.run();
      await lab.reaches("operations", 8);
      await lab.button("Pause").click();
      await expect(lab.state).toHaveText(/^Paused/);
      await lab.page.getByText("The last events in words").click();
      await check("lab");
      await lab.stop();
      await lab.button("Explore").click();
      await expect(lab.page.locator(".inspector")).toContainText("root directory");
      await check("explore");
    });
  });
}

test("all of it can be reached and worked by keyboard", async ({ lab }) => {
  const reached = new Set();
  for (let tab = 0; tab < 40; tab++) {
    await lab.page.keyboard.press("Tab");
    reached.add(await lab.page.evaluate(() => document.activeElement?.closest("label")?.innerText.split("\n")[0]
      ?? document.activeElement?.ariaLabel ?? document.activeElement?.textContent));
  }
  for (const control of ["Explore", "Open image…", "Design", "CPUs", "Clock", "Speed", "Run"]) expect([...reached]).toContain(control);
  await lab.button("Run").focus();
  await lab.page.keyboard.press("Enter");
  await expect(lab.state).toHaveText(/^Running/);
  await lab.stop();
});
