import { test } from "../tests/lab.mjs";

const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];

test("flat out on 2 workers: rcu over spin, median of 5", async ({ lab }) => {
  test.setTimeout(180_000);
  await lab.choose("Clock", "workers, flat out");
  await lab.choose("Last CPU", "writes like the others");
  await lab.fill("CPUs", 2);
  const rates = { spin: [], rcu: [] };
  for (let round = 0; round < 5; round++) {
    for (const design of ["spin", "rcu"]) {
      await lab.choose("Design", design);
      await lab.run();
      await lab.page.waitForTimeout(2_000);
      const elapsed = await lab.state.textContent();
      const operations = await lab.number("operations");
      rates[design].push(operations / Number(elapsed.match(/([\d.]+) s/)?.[1] ?? 2));
      await lab.stop();
    }
  }
  const [spin, rcu] = [median(rates.spin), median(rates.rcu)];
  console.log(`spin ${Math.round(spin)} op/s, rcu ${Math.round(rcu)} op/s, ratio ${(rcu / spin).toFixed(2)} (wanted: at least 0.95)`);
});
