import { defineConfig } from "@playwright/test";

export const chromium = {
  executablePath: process.env.EXT4LAB_CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
  ],
};

export default defineConfig({
  testDir: "tests",
  outputDir: "artefacts/results",
  workers: 1,
  timeout: 45_000,
  expect: { timeout: 15_000 },
  reporter: "list",
  use: { baseURL: "http://127.0.0.1:8765/", launchOptions: chromium, viewport: { width: 1440, height: 900 } },
  webServer: { command: "node tests/server.mjs", url: "http://127.0.0.1:8765/", reuseExistingServer: false },
});
