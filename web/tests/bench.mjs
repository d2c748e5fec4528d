// Motion-to-photon in headless Chromium against the built server: node tests/bench.mjs SECONDS
// 1280x720 at 30 frames a second; the user looks around and walks, as the headless client's does.

import { openBrowser, openPage, startServer, until } from "./helper.mjs";

const seconds = Number(process.argv[2] ?? 20);
const server = await startServer({ more: ["--size", "1280x720", "--fps", "30"] });
const browser = await openBrowser();
try {
  const { page } = await openPage(browser);
  await page.goto(server.url);
  await until(page, () => window.nearlight?.statistics?.displayed > 30, "frames are displayed");
  const end = Date.now() + seconds * 1000;
  for (let step = 0; Date.now() < end; step += 1) {
    await page.evaluate((phase) => {
      window.nearlight.setPose({ position: [Math.sin(phase / 90), 1.6, Math.cos(phase / 70) - 1], yaw: Math.sin(phase / 40) * 0.6 });
    }, step);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { frames, fps, motion_to_photon_ms: motion, stages_ms: stages, codec } = await page.evaluate(() => window.nearlight.summary());
  console.log(`${codec}: ${frames.displayed} displayed of ${frames.sent}, ${fps} /s, ${frames.lost} lost`);
  console.log(`motion to photon  median ${motion.p50} ms, 95 % ${motion.p95} ms (${motion.n} inputs)`);
  for (const [stage, { p50, p95 }] of Object.entries(stages)) console.log(`${stage.padEnd(12)} ${p50} ms, 95 % ${p95} ms`);
} finally {
  await browser.close();
  await server.stop();
}
