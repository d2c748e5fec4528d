// Parts of serving a program, each measured alone and without a browser: from a capture to its planes, from a key to its decoded picture, the delay
// of sound, and the encodes that several viewers cost:
// node tests/program-parts.mjs [SECONDS_EACH]
// Keys need libnearlight: LIBNEARLIGHT is the folder that it was installed in, PREFIX of `make install-library`.
//
// Figures are medians over rounds. A part of which nothing could be measured is reported, and the exit status is 1.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { binary, startServer } from "./helper.mjs";
import { compileSquare, installed, printCircumstances, version } from "./measure.mjs";

const seconds = Number(process.argv[2] ?? 10);
if (!(seconds >= 1)) throw new Error(`how many seconds each? ${process.argv[2]} is not a number`);
const ROUNDS = 3;
const VIEWERS = 10;
const folder = await mkdtemp(path.join(tmpdir(), "nearlight-parts-"));
// Root's programs run as another user.
await chmod(folder, 0o755);
const square = compileSquare(folder);

/** Watches for so many seconds, and returns the summary. */
async function view(url, forSeconds) {
  const child = spawn(binary, ["view", url, "--headless", "--seconds", String(forSeconds), "--json"], { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, NEARLIGHT_LOG: "warn" } });
  let json = "";
  child.stdout.on("data", (chunk) => (json += chunk));
  const [status] = await once(child, "exit");
  if (status !== 0) throw new Error(`nearlight view ended with ${status}`);
  return JSON.parse(json);
}

/** What `measure` returns of a served program, once for each round. */
async function rounds(more, measure) {
  const results = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const server = await startServer({ more: ["--program-sandbox", "off", ...more] });
    try {
      results.push(await measure(server));
    } finally {
      await server.stop();
    }
  }
  return results;
}

const median = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];

async function capture(width, height) {
  const size = `${width}x${height}`;
  const stages = await rounds(["--size", size, "--fps", "60", "--sound", "off", "--", square, String(width), String(height), "60"], async ({ url }) => {
    const { stages_ms: stages, fps } = await view(url, seconds);
    return { ...stages, fps };
  });
  const of = (stage, percentile) => median(stages.map((all) => all[stage][percentile])).toFixed(2);
  console.log(`capture to planes, ${size}: p50 ${of("convert", "p50")} ms, p95 ${of("convert", "p95")} ms; encoding p50 ${of("encode", "p50")} ms; ${median(stages.map(({ fps }) => fps)).toFixed(1)} pictures a second`);
}

/** From a key at a client in C to the decoded picture that shows it, the program's drawing included. */
async function keys() {
  const library = process.env.LIBNEARLIGHT;
  if (!library) {
    console.log("left out: from a key to its picture, LIBNEARLIGHT names no folder");
    return;
  }
  const client = path.join(folder, "keys");
  const source = fileURLToPath(new URL("programs/keys.c", import.meta.url));
  const lib = path.join(library, "lib");
  const built = spawnSync("cc", ["-O2", "-o", client, source, `-I${path.join(library, "include")}`, `-L${lib}`, "-lnearlight", `-Wl,-rpath,${lib}`], { encoding: "utf8" });
  if (built.status !== 0) throw new Error(built.stderr);
  const pressed = Math.ceil(seconds * 5);
  const delays = await rounds(["--size", "1280x720", "--sound", "off", "--", square, "1280", "720"], async ({ url }) => {
    const child = spawn(client, [url, String(pressed)], { stdio: ["ignore", "pipe", "inherit"] });
    let lines = "";
    child.stdout.on("data", (chunk) => (lines += chunk));
    await once(child, "exit");
    return lines.trim().split("\n").map(Number);
  });
  const sorted = delays.flat().toSorted((one, other) => one - other);
  if (sorted.length < ROUNDS * pressed * 0.9) throw new Error(`${sorted.length} of ${ROUNDS * pressed} keys changed the picture`);
  const of = (share) => sorted[Math.floor(sorted.length * share)].toFixed(1);
  console.log(`from a key to its decoded picture, 1280x720: p50 ${of(0.5)} ms, p95 ${of(0.95)} ms, ${sorted.length} keys`);
}

/** From the program's write to the client's output. */
async function sound(what, latency) {
  const file = path.join(folder, "tone");
  await writeFile(file, Buffer.from({ length: 48_000 * 4 * (seconds * 2 + 10) }, (_, index) => (index * 7) & 0x3f));
  const delays = await rounds(["--size", "320x240", "--fps", "10", "--", "paplay", "--raw", "--format=s16le", "--rate=48000", "--channels=2", ...latency, file], async ({ url }) => {
    const { sound: heard } = await view(url, seconds);
    return heard?.delay_ms ?? Number.NaN;
  });
  console.log(`sound from the program's write to the client's output, ${what}: ${median(delays).toFixed(1)} ms (${delays.map((delay) => delay.toFixed(1)).join(", ")})`);
  if (delays.some(Number.isNaN)) throw new Error("nothing was heard");
}

async function encodes() {
  const server = await startServer({ more: ["--size", "640x360", "--fps", "30", "--sound", "off", "--program-sandbox", "off", "--max-clients", String(VIEWERS), "--", square, "640", "360", "30"] });
  try {
    await Promise.all(Array.from({ length: VIEWERS }, () => view(server.url, seconds)));
    const text = await fetch(`http://127.0.0.1:${server.port}/metrics`).then((response) => response.text());
    const figure = (name) => Number(new RegExp(`^nearlight_${name} (\\S+)$`, "m").exec(text)?.[1]);
    const [coded, pictures, own] = ["shared_encodes_total", "shared_pictures_total", "own_encodes_total"].map(figure);
    console.log(`${VIEWERS} viewers: ${(coded / pictures).toFixed(2)} encodes of each of ${pictures} pictures, and ${own} for a viewer alone, at the beginning and the end`);
    if (!(coded > 0)) throw new Error("they shared nothing");
  } finally {
    await server.stop();
  }
}

printCircumstances(`${seconds} s in each of ${ROUNDS} rounds`, [version(binary, "--version")]);
const parts = [
  ["Xvfb", () => capture(1280, 720)],
  ["Xvfb", () => capture(1920, 1080)],
  ["Xvfb", keys],
  ["paplay", () => sound("buffer chosen by the server", [])],
  ["paplay", () => sound("a buffer of 20 ms", ["--latency-msec=20"])],
  ["Xvfb", encodes],
];
try {
  for (const [needs, measure] of parts) {
    if (!installed(needs)) {
      console.log(`left out: ${needs} is not installed`);
      continue;
    }
    await measure().catch((error) => {
      console.log(`failed: ${error.message}`);
      process.exitCode = 1;
    });
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
process.exit();
