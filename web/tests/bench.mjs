// Motion-to-photon and losses in headless Chromium against the built server:
// node tests/bench.mjs SECONDS [--transport webrtc|webtransport] [OPTIONS OF nearlight serve]
// 1280x720 at 30 frames a second unless options are given; the user looks around and walks, as the headless client's does.

import { inbound, keepConnections, lookAround, openBrowser, openPage, startServer, until } from "./helper.mjs";

const seconds = Number(process.argv[2] ?? 20);
const options = process.argv.slice(3);
const at = options.indexOf("--transport");
const [, transport = "auto"] = at < 0 ? [] : options.splice(at, 2);
const server = await startServer({ more: options.length > 0 ? options : ["--size", "1280x720", "--fps", "30"] });
const browser = await openBrowser();
try {
  const { page } = await openPage(browser);
  await keepConnections(page);
  await page.goto(server.url.replace("#", `?transport=${transport}#`));
  await until(page, () => window.nearlight?.statistics?.displayed > 30, "frames are displayed");
  await lookAround(page, seconds);
  const summary = await page.evaluate(() => window.nearlight.summary());
  const { frames, fps, pause_ms_max: pause, motion_to_photon_ms: motion, input_to_photon_ms: inputs, stages_ms: stages, codec, loss, recovery } = summary;
  console.log(`${codec} over ${summary.transport}: ${frames.displayed} displayed of ${frames.sent}, ${fps} /s, ${frames.lost} lost, ${frames.decoded} decoded`);
  const shown = ((100 * frames.displayed) / frames.sent).toFixed(2);
  console.log(`${shown} % displayed; ${loss.packets} packets lost, ${loss.key_frames} key frames after the first; ${JSON.stringify(recovery)}`);
  console.log(`motion to photon  median ${motion.p50} ms, 95 % ${motion.p95} ms (${motion.n} frames)`);
  console.log(`input to photon   median ${inputs.p50} ms, 95 % ${inputs.p95} ms (${inputs.n} inputs)`);
  const counted = await inbound(page);
  if (counted) {
    const { packetsReceived: packets, nackCount: requests, retransmittedPacketsReceived: again, fecPacketsReceived: repairs } = counted;
    console.log(`the browser       ${packets} packets came, ${requests} requests, ${again} packets came again, ${repairs} repairs`);
  }
  const events = (await page.evaluate(() => window.nearlight.events())).trimEnd().split("\n").map((line) => JSON.parse(line));
  const ways = events.filter(({ event }) => event === "frame_displayed").map(({ timeline }) => timeline.boundaries.map((at) => at / 1e6));
  // The last packet of a frame has left at boundary 6, its picture is there at boundary 9, on the display at boundary 10.
  console.log(`sent to decoded   ${spread(ways.map((boundaries) => boundaries[9] - boundaries[6]))}`);
  console.log(`longest time between pictures ${pause} ms; frames without a timeline ${Math.max(0, frames.displayed - ways.length)}`);
  for (const [stage, { p50, p95 }] of Object.entries(stages)) console.log(`${stage.padEnd(12)} ${p50} ms, 95 % ${p95} ms`);
} finally {
  await browser.close();
  await server.stop();
}

function spread(lengths) {
  const sorted = [...lengths].sort((one, other) => one - other);
  const percentile = (percent) => (sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? Number.NaN).toFixed(2);
  return `median ${percentile(50)} ms, 95 % ${percentile(95)} ms, 99 % ${percentile(99)} ms (${sorted.length} frames)`;
}
