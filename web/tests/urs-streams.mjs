// Table 3 and sections 6 and 7.3 of the Unity Render Streaming study for our own stream, captured on loopback:
// node tests/urs-streams.mjs SECONDS [FPS,FPS,...] [OPTIONS OF nearlight serve]
// A film of noise at 640x360 and a constant 20 Mb/s, which two cores without a GPU can code, unless options are given; in groups every
// 5.56 ms.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { openBrowser } from "./helper.mjs";
import { makeNoise, study, whyNoCapture } from "./capture.mjs";

const seconds = Number(process.argv[2] ?? 20);
const rates = (process.argv[3] ?? "30,60,90").split(",");
const given = process.argv.slice(4);
const usual = ["--address", "127.0.0.1", "--size", "640x360", "--controller", "fixed", "--rate", "20mbit", "--max-rate", "20mbit"];

/** The study's own figures at each frame rate: its Table 3 is at 90, of the game Alteration Hunting. */
const PUBLISHED = {
  30: { "frame bytes": 201_000, "batches of a frame": 4.56, "idle instants": 0.25, "assembly ms": 21 },
  60: { "frame bytes": 99_000, "batches of a frame": 2.54, "idle instants": 0.2, "assembly ms": 9 },
  90: { "frame bytes": 77_000, "batches of a frame": 2.1, "idle instants": 0.15, "assembly ms": 6 },
};

const why = whyNoCapture();
if (why !== "") {
  console.error(`nothing can be captured: ${why}`);
  process.exit(1);
}
const folder = await mkdtemp(path.join(tmpdir(), "nearlight-noise-"));
const browser = await openBrowser();
try {
  for (const fps of rates) {
    const film = path.join(folder, `${fps}.avi`);
    makeNoise(film, "640x360", fps);
    const options = [...(given.length > 0 ? given : ["--video", film, ...usual]), "--pacing", "interval:5.56ms"];
    const { study: found, summary } = await study(browser, seconds, [...options, "--fps", fps]);
    console.log(`\n${fps} frames a second asked for, ${summary?.fps ?? "none"} displayed, ${summary?.frames.lost ?? "all"} lost; ${found.duration_s.toFixed(1)} s captured`);
    for (const row of found.streams) {
      const words = [row.downlink ? "down" : "up", row.kind, `${row.packets} packets`, `${row.mean_size.toFixed(2)} B`];
      const gap = row.mean_gap_ms === null ? "-" : `${row.mean_gap_ms.toFixed(2)} ms`;
      console.log([...words, gap, `${row.load_mbps.toFixed(4)} Mb/s`].join("\t"));
    }
    const { frames, batches } = found.video;
    const ours = {
      fps: frames.fps,
      "fps of the media clock": frames.source_fps,
      "frame bytes": frames.size_bytes.mean,
      "interval ms": batches.interval_ms,
      "on the grid": batches.on_grid,
      "batches of a frame": batches.per_frame?.mean,
      "idle instants": batches.idle_ratio,
      "assembly ms": frames.assembly_ms.mean,
      "longest assembly ms": frames.assembly_ms.max,
    };
    for (const [name, value] of Object.entries(ours)) {
      const published = PUBLISHED[fps]?.[name];
      console.log(`${name.padEnd(24)}${value?.toFixed(3) ?? "-"}${published === undefined ? "" : `\tpublished ${published}`}`);
    }
  }
} finally {
  await browser.close();
  await rm(folder, { recursive: true, force: true });
}
