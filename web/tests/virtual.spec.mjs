import path from "node:path";
import { expect, image, run, test } from "./lab.mjs";

const program = path.resolve(import.meta.dirname, "../../target/debug/ext4lab");

// The same seed and image: what happens in the browser is, event by event, what happens on the command line.
for (const [machine, name] of [
  ["2 × Xeon E5-2680, ramdisk", "xeon-e5-2680"],
  ["EC2 c5.2xlarge, 8 vCPUs", "c5.2xlarge"],
]) {
  test(`a run in virtual time on ${name} has the same trace here and natively`, async ({ lab, folder }) => {
    const file = image(folder, "own.img", "-b", "4096", "-I", "256");
    await lab.open(file);
    await lab.choose("Clock", "virtual time");
    await lab.choose("Machine", machine);
    await lab.choose("Design", "trylock-break");
    await lab.fill("CPUs", 12);
    await lab.fill("Seed", 99);
    await lab.fill("Operations", 15);
    await lab.speed(70);
    await lab.run();
    await expect(lab.state).toHaveText(/^Finished/, { timeout: 60_000 });
    const options = ["--strategy", "trylock-break", "--cpus", "12", "--seed", "99", "--ops", "15", "--reader", "--json"];
    const native = JSON.parse(run(program, "run", file, ...options, "--profile", name));
    expect(native.events).toBeGreaterThan(10_000);
    await expect(lab.page.locator("#fingerprint")).toHaveText(native.fingerprint);
  });
}
