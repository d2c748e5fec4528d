// From a key's event to the changed pixel in the page's own canvas, for a program that changes its window's colour with each key: ours
// beside TigerVNC with noVNC and beside Xpra's HTML5 client, where they are installed. All with the same program, the same size of
// display, the same browser and the same watcher: node tests/program-bench.mjs [KEYS_EACH]
//
// The watcher draws one pixel of the canvas into one of its own, once a millisecond, and knows nothing of whose canvas it is. Every way is
// first checked to have a watched pixel that changes with each key: one that does not is left out as failed, and the exit status is 1.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { binary, eventually, live, openBrowser, openPage, startServer, until } from "./helper.mjs";

const keys = Number(process.argv[2] ?? 60);
if (!Number.isInteger(keys) || keys < 1) throw new Error(`how many keys each? ${process.argv[2]} is no number of them`);
/** Each way is measured so many times, in turn: what the machine does beside it concerns all. */
const ROUNDS = 2;
/** Processes that wait for a processor, on average over the minute before: from here on, the figures are of the others' work as well. */
const BUSY = 0.3;
/** Keys that change nothing, at most: more, and the figures are those of the rest. */
const MOST_MISSED = 0.1;
/** How long the program is watched while nothing happens: a hundredth of a core is 50 ms, five of the kernel's ticks. */
const REST_MS = 5_000;
/** A start and its measurement. */
const LIMIT_MS = 60_000 + keys * 400 + REST_MS;
const [WIDTH, HEIGHT] = [1280, 720];
const here = path.dirname(fileURLToPath(import.meta.url));
const folder = await mkdtemp(path.join(tmpdir(), "nearlight-bench-"));
const square = path.join(folder, "square");
const built = spawnSync("cc", ["-O1", "-o", square, path.join(here, "programs/square.c"), "-ldl"], { encoding: "utf8" });
if (built.status !== 0) throw new Error(built.stderr);

const installed = (name) => spawnSync("sh", ["-c", `command -v ${name}`]).status === 0;
const children = [];
function start(command, words, env = {}) {
  const child = spawn(command, words, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ...env } });
  child.said = "";
  child.stderr.on("data", (chunk) => (child.said = (child.said + chunk).slice(-2_000)));
  children.push(child);
  return child;
}

async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await Promise.race([once(child, "exit"), new Promise((resolve) => setTimeout(resolve, 3_000))]);
  child.kill("SIGKILL");
}

/** Fetches the address until something answers. */
async function untilAnswers(url, child) {
  const answers = await eventually(() => fetch(url).then((response) => response.ok, () => false), Boolean, 20_000);
  if (!answers) throw new Error(`${url} does not answer: ${child.said}`);
}

/** What is measured: `open` starts it and returns its page's address, the canvas, the processes whose time counts, and `close`. */
const ways = [
  {
    name: "nearlight serve",
    async open() {
      const server = await startServer({ more: ["--size", `${WIDTH}x${HEIGHT}`, "--program-sandbox", "off", "--", square, String(WIDTH), String(HEIGHT)] });
      return {
        url: server.url,
        canvas: "#picture",
        processes: [server.pid],
        async enter(page) {
          await until(page, live, "the page goes live");
          await page.locator("#enter").click();
        },
        close: () => server.stop(),
      };
    },
  },
  {
    name: "TigerVNC, noVNC",
    lacks: () => ["Xvnc", "websockify"].find((name) => !installed(name)),
    async open() {
      const display = `:${60 + (process.pid % 30)}`;
      const port = 6_080 + (process.pid % 800);
      const socket = path.join(folder, "vnc");
      // A Unix socket, so that the bytes that cross the loopback interface are those to the browser.
      const vnc = start("Xvnc", [display, "-geometry", `${WIDTH}x${HEIGHT}`, "-depth", "24", "-SecurityTypes", "None", "-rfbport", "-1", "-rfbunixpath", socket]);
      const proxy = start("websockify", ["--web", "/usr/share/novnc", `127.0.0.1:${port}`, "--unix-target", socket]);
      await untilAnswers(`http://127.0.0.1:${port}/vnc_lite.html`, proxy);
      const program = start(square, [String(WIDTH), String(HEIGHT)], { DISPLAY: display });
      return {
        url: `http://127.0.0.1:${port}/vnc_lite.html?path=websockify&scale=false`,
        canvas: "#screen canvas",
        processes: [vnc.pid, proxy.pid, program.pid],
        enter: (page) => page.locator("#screen canvas").click({ position: { x: 400, y: 400 } }),
        close: () => Promise.all([program, proxy, vnc].map(end)),
      };
    },
  },
  {
    name: "Xpra, HTML5",
    lacks: () => {
      if (!installed("xpra")) return "xpra";
      const found = spawnSync("sh", ["-c", "ls /usr/share/xpra/www/index.html /usr/share/xpra/html5/index.html"], { encoding: "utf8" });
      return found.stdout.trim() ? undefined : "xpra's HTML5 client";
    },
    async open() {
      const port = 7_080 + (process.pid % 800);
      const display = `:${100 + (process.pid % 30)}`;
      const words = ["start", display, `--bind-tcp=127.0.0.1:${port}`, "--html=on", "--daemon=no", "--mdns=no", "--pulseaudio=no", "--notifications=no", "--systemd-run=no"];
      const xpra = start("xpra", [...words, `--start=${square} ${WIDTH} ${HEIGHT}`], { XDG_RUNTIME_DIR: folder });
      await untilAnswers(`http://127.0.0.1:${port}/`, xpra);
      return {
        url: `http://127.0.0.1:${port}/?sound=false&floating_menu=false`,
        canvas: "canvas:not([id*=menu])",
        processes: [xpra.pid],
        async enter(page) {
          // Its page has smaller canvases of its own, and puts other elements over that of the window.
          const window_ = (width) => [...document.querySelectorAll("canvas")].some((canvas) => canvas.width >= width);
          await until(page, window_, "the window is there", { argument: WIDTH, knowledge: () => document.querySelectorAll("canvas").length });
          await page.mouse.click(400, 400);
        },
        close: () => end(xpra),
      };
    },
  },
];

/** In the page: presses are noted when their event comes, changes of the pixel when the watcher sees them. */
function watch({ canvas: selector, at }) {
  const reader = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const watcher = { pressed: null, delays: [], level: null, missed: 0 };
  window.benchWatcher = watcher;
  window.addEventListener("keydown", () => (watcher.pressed = performance.now()), true);
  const look = () => {
    // The window's is the largest: pages have smaller ones of their own.
    const canvas = [...document.querySelectorAll(selector)].filter(({ width }) => width >= at[0]).sort((one, other) => other.height - one.height)[0];
    if (canvas) {
      reader.clearRect(0, 0, 1, 1);
      reader.drawImage(canvas, at[0], at[1], 1, 1, 0, 0, 1, 1);
      const [red, , , alpha] = reader.getImageData(0, 0, 1, 1).data;
      // A canvas whose buffer was handed to the display has no pixels.
      const level = alpha === 0 ? watcher.level : red > 170 ? 1 : red < 85 ? 0 : watcher.level;
      if (level !== watcher.level) {
        if (watcher.pressed !== null && watcher.level !== null) watcher.delays.push(performance.now() - watcher.pressed);
        watcher.pressed = null;
        watcher.level = level;
      }
    }
    void scheduler.postTask(look, { delay: 1 });
  };
  look();
}

/** The processor time that these processes and all below them have had, in seconds. */
async function processorTime(roots) {
  const table = new Map();
  for (const name of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const text = await readFile(`/proc/${name}/stat`, "utf8").catch(() => "");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    if (fields.length > 20) table.set(Number(name), { parent: Number(fields[1]), ticks: fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) });
  }
  const below = (process) => roots.includes(process) || (table.has(process) && below(table.get(process).parent));
  return [...table].filter(([process]) => below(process)).reduce((sum, [, { ticks }]) => sum + ticks, 0) / 100;
}

/** Bytes over the loopback interface so far; others' as well, unless this runs in a network namespace of its own. */
async function loopbackBytes() {
  const line = (await readFile("/proc/net/dev", "utf8")).split("\n").find((line) => line.trim().startsWith("lo:"));
  return Number(line.trim().split(/[:\s]+/)[9]);
}

/** Pauses between keys: a linear congruential generator's, the same for all (Numerical Recipes' constants). */
function* pauses() {
  for (let state = 1; ; state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32) yield 120 + (state / 2 ** 32) * 160;
}

async function measure(way) {
  const opened = await way.open();
  const browser = await openBrowser();
  try {
    const { page } = await openPage(browser, { viewport: { width: WIDTH, height: HEIGHT + 80 } });
    await page.goto(opened.url);
    await page.locator(opened.canvas).last().waitFor({ state: "attached", timeout: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await opened.enter(page);
    await page.evaluate(watch, { canvas: opened.canvas, at: [WIDTH / 2 - 70, HEIGHT / 2 - 30] });
    const pause = pauses();
    const press = async () => {
      await page.keyboard.press("KeyA");
      await new Promise((resolve) => setTimeout(resolve, pause.next().value));
    };
    for (let warm = 0; warm < 6; warm += 1) await press();
    const seen = await page.evaluate(() => window.benchWatcher.delays.length);
    if (seen < 3) throw new Error(`the watched pixel changed with ${seen} of 6 keys`);
    await page.evaluate(() => (window.benchWatcher.delays = []));
    const browserProcesses = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
    const chromium = [];
    for (const process_ of browserProcesses) {
      const text = await readFile(`/proc/${process_}/stat`, "utf8").catch(() => "");
      const parent = Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[1]);
      if (parent === process.pid && /chrom/.test(text)) chromium.push(process_);
    }
    const before = { server: await processorTime(opened.processes), browser: await processorTime(chromium), bytes: await loopbackBytes(), at: performance.now() };
    for (let key = 0; key < keys; key += 1) await press();
    const seconds = (performance.now() - before.at) / 1_000;
    const delays = await page.evaluate(() => window.benchWatcher.delays);
    const result = {
      delays,
      missed: keys - delays.length,
      server: ((await processorTime(opened.processes)) - before.server) / seconds,
      browser: ((await processorTime(chromium)) - before.browser) / seconds,
      bytes: ((await loopbackBytes()) - before.bytes) / keys,
    };
    // What follows the last change is over by then.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const resting = { server: await processorTime(opened.processes), at: performance.now() };
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    const rest = ((await processorTime(opened.processes)) - resting.server) / ((performance.now() - resting.at) / 1_000);
    return { ...result, rest };
  } finally {
    await browser.close();
    await opened.close();
  }
}

/** The first line that a command says of its version. */
function version(command, ...words) {
  const { stdout, stderr } = spawnSync(command, words, { encoding: "utf8" });
  return `${stdout}${stderr}`.split("\n").find((line) => /\d\.\d/.test(line))?.trim();
}

function withinLimit(work) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`not done within ${LIMIT_MS / 1_000} s`)), LIMIT_MS)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

const commit = spawnSync("git", ["-C", here, "describe", "--always", "--dirty"], { encoding: "utf8" }).stdout?.trim();
console.log(`${new Date().toISOString()}, commit ${commit || "unknown"}, ${availableParallelism()} x ${cpus()[0]?.model}, ${keys} keys in each of ${ROUNDS} rounds`);
const versions = [version(binary, "--version"), version(process.env.CHROMIUM ?? "/usr/bin/chromium", "--version")];
if (installed("Xvnc")) versions.push(version("Xvnc", "-version"));
if (installed("xpra")) versions.push(version("xpra", "--version"));
console.log(versions.filter(Boolean).join("; "));
const load = loadavg()[0] / availableParallelism();
if (load > BUSY) console.log(`WARNING: ${load.toFixed(1)} processes wait for each processor. Figures from a busy machine are not to be published.`);

const results = new Map();
try {
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const way of ways) {
      const lacking = way.lacks?.();
      if (lacking) {
        if (round === 0) console.log(`${way.name}: left out, ${lacking} is not installed`);
        continue;
      }
      const result = await withinLimit(measure(way)).catch((error) => ({ error }));
      results.set(way.name, [...(results.get(way.name) ?? []), result]);
    }
  }
} finally {
  await Promise.all(children.map(end));
  await rm(folder, { recursive: true, force: true });
}
const percentile = (sorted, percent) => (sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? Number.NaN).toFixed(1);
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
console.log(`${"".padEnd(18)} p50 ms  p95 ms    n  missed  server cores  at rest  browser cores  KB a key`);
for (const [name, rounds] of results) {
  for (const { error } of rounds.filter(({ error }) => error)) {
    console.log(`${name.padEnd(18)} failed: ${error.message.split("\n")[0]}`);
    process.exitCode = 1;
  }
  const good = rounds.filter(({ error }) => !error);
  if (good.length === 0) continue;
  const sorted = good.flatMap(({ delays }) => delays).sort((one, other) => one - other);
  const column = (value, width) => String(value).padStart(width);
  console.log(
    name.padEnd(18) + column(percentile(sorted, 50), 7) + column(percentile(sorted, 95), 8) + column(sorted.length, 5) + column(good.reduce((sum, { missed }) => sum + missed, 0), 8) +
      column(mean(good.map(({ server }) => server)).toFixed(2), 14) + column(mean(good.map(({ rest }) => rest)).toFixed(3), 9) + column(mean(good.map(({ browser }) => browser)).toFixed(2), 15) + column((mean(good.map(({ bytes }) => bytes)) / 1_000).toFixed(1), 10),
  );
  const missed = good.reduce((sum, { missed }) => sum + missed, 0);
  if (missed > keys * good.length * MOST_MISSED) {
    console.log(`${name.padEnd(18)} is not comparable: ${missed} of ${keys * good.length} keys changed nothing`);
    process.exitCode = 1;
  }
}
// A way that came to nothing in time may still hold something open.
process.exit();
