// Motion-to-photon and losses in headless Chromium against the built server: node tests/bench.mjs SECONDS [OPTIONS OF nearlight serve]
// 1280x720 at 30 frames a second unless options are given; the user looks around and walks, as the headless client's does.

import { openBrowser, openPage, startServer, until } from "./helper.mjs";

const seconds = Number(process.argv[2] ?? 20);
const options = process.argv.slice(3);
const server = await startServer({ more: options.length > 0 ? options : ["--size", "1280x720", "--fps", "30"] });
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
  const summary = await page.evaluate(() => window.nearlight.summary());
  const { frames, fps, motion_to_photon_ms: motion, stages_ms: stages, codec, loss, recovery } = summary;
  console.log(`${codec}: ${frames.displayed} displayed of ${frames.sent}, ${fps} /s, ${frames.lost} lost`);
  const shown = ((100 * frames.displayed) / frames.sent).toFixed(2);
  console.log(`${shown} % displayed; ${loss.packets} packets lost, ${loss.key_frames} key frames after the first; ${JSON.stringify(recovery)}`);
  console.log(`motion to photon  median ${motion.p50} ms, 95 % ${motion.p95} ms (${motion.n} inputs)`);
  for (const [stage, { p50, p95 }] of Object.entries(stages)) console.log(`${stage.padEnd(12)} ${p50} ms, 95 % ${p95} ms`);
} finally {
  await browser.close();
  await server.stop();
}
