// From a key's event to the changed pixel in the page's own canvas, and new pictures a second: ours beside TigerVNC with noVNC, Xpra's HTML5
// client and Selkies, where they are installed. Four scenes: in `still` the window changes its colour with each key, in `motion` its whole
// content moves besides, 60 times a second, in `fast` 120 times, and in `large` 60 times in a window of 1920x1080. All with the same program,
// the same size of display, the same browser and the same watcher:
// node tests/program-bench.mjs [KEYS_EACH] [SCENE [WAY]]
// BESIDES names further binaries of ours, each with options of the page: BESIDES="/tmp/before ?display=newest". Without a name it is the one under test.
//
// The watcher draws a line of pixels of the canvas into one of its own, once a millisecond, and knows nothing of whose canvas it is. Every way is
// first checked to have a watched pixel that changes with each key: one that does not is left out as failed, and the exit status is 1.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { binary, eventually, live, openBrowser, openPage, startServer, until } from "./helper.mjs";
import { compileSquare, installed, printCircumstances, processorTime, version } from "./measure.mjs";

const keys = Number(process.argv[2] ?? 60);
if (!Number.isInteger(keys) || keys < 1) throw new Error(`how many keys each? ${process.argv[2]} is not a number`);
/** The scenes: how many pictures a second the program draws in each beside those that answer keys, and the size of its window. */
const SCENES = {
  still: { drawn: 0, width: 1280, height: 720 },
  motion: { drawn: 60, width: 1280, height: 720 },
  fast: { drawn: 120, width: 1280, height: 720 },
  large: { drawn: 60, width: 1920, height: 1080 },
};
const scenes = process.argv[3] ? [process.argv[3]] : Object.keys(SCENES);
if (!(scenes[0] in SCENES)) throw new Error(`the scene ${scenes[0]} does not exist: ${Object.keys(SCENES).join(", ")}`);
/** Rounds of measurements. The candidates take turns, so that other work on the machine affects all of them. */
const ROUNDS = 2;
/** Refresh rate of headless Chromium's display. */
const REFRESHES = 60;
/** Maximum share of keys without an effect. With more, the figures would describe only the others. */
const MAX_MISSED_SHARE = 0.1;
/** How long the idle program is watched: a hundredth of a core is 50 ms then, five of the kernel's ticks. */
const REST_MS = 5_000;
/** Timeout of a start and its measurement. */
const TIMEOUT_MS = 60_000 + keys * 400 + REST_MS;
const folder = await mkdtemp(path.join(tmpdir(), "nearlight-bench-"));
const square = compileSquare(folder);

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

/** Installed by `pip install selkies`; another one than that on the path is named by SELKIES. */
const selkies = process.env.SELKIES ?? "selkies";

/** Our own way: a binary, and options before the link's fragment. */
function ours(name, program, options) {
  return {
    name,
    async open({ words, most, width, height }) {
      const server = await startServer({ program, more: ["--size", `${width}x${height}`, "--fps", String(most), "--program-sandbox", "off", "--", square, ...words] });
      return {
        url: server.url.replace("#", `${options}#`),
        canvas: "canvas#picture, video#picture",
        processes: [server.pid],
        async enter(page) {
          await until(page, live, "the page goes live");
          await page.locator("#enter").click();
        },
        stages,
        close: () => server.stop(),
      };
    },
  };
}

/** What is measured: `open` starts it with the program's arguments, the most pictures a second and the display's size. It returns the page's
 *  address, the canvas, the processes whose time counts, and `close`. */
const ways = [
  ours("nearlight serve", binary, ""),
  ...(process.env.BESIDES ?? "").split(" ").filter(Boolean).map((other) => {
    const [program, options] = other.split("?");
    return ours(`nearlight, ${other}`, program || binary, options ? `?${options}` : "");
  }),
  {
    name: "TigerVNC, noVNC",
    lacks: () => ["Xvnc", "websockify"].find((name) => !installed(name)),
    async open({ words, most, width, height }) {
      const display = `:${60 + (process.pid % 30)}`;
      const port = 6_080 + (process.pid % 800);
      const socket = path.join(folder, "vnc");
      // A Unix socket, so that the bytes that cross the loopback interface are those to the browser.
      const vnc = start("Xvnc", [display, "-geometry", `${width}x${height}`, "-depth", "24", "-SecurityTypes", "None", "-FrameRate", String(most), "-rfbport", "-1", "-rfbunixpath", socket]);
      const proxy = start("websockify", ["--web", "/usr/share/novnc", `127.0.0.1:${port}`, "--unix-target", socket]);
      await untilAnswers(`http://127.0.0.1:${port}/vnc_lite.html`, proxy);
      const program = start(square, words, { DISPLAY: display });
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
    async open({ words, width }) {
      const port = 7_080 + (process.pid % 800);
      const display = `:${100 + (process.pid % 30)}`;
      const options = ["start", display, `--bind-tcp=127.0.0.1:${port}`, "--html=on", "--daemon=no", "--mdns=no", "--pulseaudio=no", "--notifications=no", "--systemd-run=no"];
      const xpra = start("xpra", [...options, `--start=${[square, ...words].join(" ")}`], { XDG_RUNTIME_DIR: folder });
      await untilAnswers(`http://127.0.0.1:${port}/`, xpra);
      return {
        url: `http://127.0.0.1:${port}/?sound=false&floating_menu=false`,
        canvas: "canvas:not([id*=menu])",
        processes: [xpra.pid],
        async enter(page) {
          // Its page has smaller canvases of its own, and puts other elements over that of the window.
          const window_ = (width) => [...document.querySelectorAll("canvas")].some((canvas) => canvas.width >= width);
          await until(page, window_, "the window is there", { argument: width, knowledge: () => document.querySelectorAll("canvas").length });
          await page.mouse.click(400, 400);
        },
        close: () => end(xpra),
      };
    },
  },
  {
    // Its default transport; its WebRTC finds no address in a namespace that has the loopback interface alone.
    name: "Selkies",
    lacks: () => [selkies, "Xvfb"].find((name) => !installed(name)),
    async open({ words, most, width, height }) {
      const port = 8_080 + (process.pid % 800);
      const display = `:${130 + (process.pid % 30)}`;
      const screen = start("Xvfb", [display, "-screen", "0", `${width}x${height}x24`, "-nolisten", "tcp"]);
      if (!(await eventually(() => existsSync(`/tmp/.X11-unix/X${display.slice(1)}`), Boolean, 5_000))) throw new Error(`Xvfb does not start: ${screen.said}`);
      const program = start(square, words, { DISPLAY: display });
      const options = [...(most > 60 ? ["--framerate", String(most)] : []), "--addr", "127.0.0.1", "--port", String(port), "--enable-basic-auth", "false", "--enable-https", "false", "--audio-enabled", "false"];
      const server = start(selkies, options, { DISPLAY: display, XDG_RUNTIME_DIR: folder });
      await untilAnswers(`http://127.0.0.1:${port}/`, server);
      return {
        url: `http://127.0.0.1:${port}/`,
        canvas: "#videoCanvas, video",
        processes: [screen.pid, server.pid, program.pid],
        async enter(page) {
          const shows = (width) => [...document.querySelectorAll("video, #videoCanvas")].some((seen) => (seen.videoWidth ?? seen.width) === width);
          await until(page, shows, "the picture is there", { argument: width });
          await page.mouse.click(width / 2, height / 2 + 40);
        },
        close: () => Promise.all([server, program, screen].map(end)),
      };
    },
  },
];

/** The stages of a frame that answers an input, in the order of its times. */
const STAGES = ["input", "wait", "render", "convert", "encode", "pace", "network", "reassemble", "decode", "present"];
/** A picture that was captured later than this after the newest input did not follow from it: it came while nothing else had changed. */
const PROGRAM_ANSWER_MS = 12;

/** The medians of our own stages, in milliseconds: of the frames that are the first to show an input, and were captured soon after it. */
async function stages(page) {
  const events = (await page.evaluate(() => window.nearlight.events())).trim().split("\n").map((line) => JSON.parse(line));
  const first = new Set(events.filter(({ event }) => event === "motion_to_photon").map(({ frame }) => frame));
  const rows = events
    .filter(({ event, timeline }) => event === "frame_displayed" && first.has(timeline.frame))
    .map(({ timeline: { boundaries } }) => STAGES.map((_, index) => (boundaries[index + 1] - boundaries[index]) / 1e6))
    .filter(([, wait]) => wait < PROGRAM_ANSWER_MS);
  const median = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? Number.NaN;
  const each = STAGES.map((name, index) => `${name} ${median(rows.map((row) => row[index])).toFixed(2)}`);
  return `${rows.length} frames, medians in ms: ${each.join(", ")}; in all ${median(rows.map((row) => row.reduce((sum, part) => sum + part, 0))).toFixed(2)}`;
}

/** In the page: presses are noted when their event comes, changes of the pixel `at` when the watcher sees them, and pictures by the grey left of it;
 *  also how many pictures further than at the display's refresh before each one is. */
function watch({ canvas: selector, at, greyAt }) {
  // Both at once: where reading is expensive, it is taking the picture off the canvas.
  const columns = at[0] - greyAt + 1;
  const reader = new OffscreenCanvas(columns, 1).getContext("2d", { willReadFrequently: true });
  const watcher = { pressed: null, delays: [], level: null, grey: null, pictures: 0, steps: [] };
  window.benchWatcher = watcher;
  window.addEventListener("keydown", () => (watcher.pressed = performance.now()), true);
  const look = () => {
    // The window's is the largest: pages have smaller ones of their own.
    const size = (element) => [element.videoWidth ?? element.width, element.videoHeight ?? element.height];
    const large = [...document.querySelectorAll(selector)].filter((element) => size(element)[0] >= at[0]);
    // Where there are both, the video has the picture.
    const canvas = large.sort((one, other) => (other.videoWidth ?? 0) - (one.videoWidth ?? 0) || size(other)[1] - size(one)[1])[0];
    if (canvas) {
      reader.clearRect(0, 0, columns, 1);
      reader.drawImage(canvas, greyAt, at[1], columns, 1, 0, 0, columns, 1);
      const { data } = reader.getImageData(0, 0, columns, 1);
      const [red, , , alpha] = data.subarray(data.length - 4);
      const grey = Math.round(data[0] / (255 / 7));
      if (alpha !== 0 && grey !== watcher.grey) {
        watcher.pictures += 1;
        watcher.grey = grey;
      }
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
  let before = null;
  const refresh = () => {
    if (before !== null && watcher.grey !== null) watcher.steps.push((watcher.grey - before + 8) % 8);
    before = watcher.grey;
    requestAnimationFrame(refresh);
  };
  requestAnimationFrame(refresh);
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

async function measure(way, scene) {
  const { drawn, width, height } = SCENES[scene];
  const words = [width, height, ...(drawn > 0 ? [drawn] : [])].map(String);
  const opened = await way.open({ words, most: Math.max(drawn, 60), width, height });
  const browser = await openBrowser();
  try {
    const { page } = await openPage(browser, { viewport: { width, height: height + 80 } });
    await page.goto(opened.url);
    await page.locator(opened.canvas).last().waitFor({ state: "attached", timeout: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await opened.enter(page);
    await page.evaluate(watch, { canvas: opened.canvas, at: [width / 2 - 70, height / 2 - 30], greyAt: width / 2 - 192 });
    const pause = pauses();
    const press = async () => {
      await page.keyboard.press("KeyA");
      await new Promise((resolve) => setTimeout(resolve, pause.next().value));
    };
    for (let warm = 0; warm < 6; warm += 1) await press();
    const seen = await page.evaluate(() => window.benchWatcher.delays.length);
    if (seen < 3) throw new Error(`the watched pixel changed with ${seen} of 6 keys`);
    await page.evaluate(() => Object.assign(window.benchWatcher, { delays: [], pictures: 0, steps: [] }));
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
    const kilobytes = ((await loopbackBytes()) - before.bytes) / 1_000;
    const { delays, pictures, steps } = await page.evaluate(() => window.benchWatcher);
    const result = {
      delays,
      stages: await opened.stages?.(page),
      pictures: pictures / seconds,
      even: (100 * steps.filter((step) => step === Math.max(1, drawn / REFRESHES)).length) / steps.length,
      shown: steps.filter((step) => step > 0).length / seconds,
      missed: keys - delays.length,
      server: ((await processorTime(opened.processes)) - before.server) / seconds,
      browser: ((await processorTime(chromium)) - before.browser) / seconds,
      kilobytesAKey: kilobytes / keys,
      kilobytesASecond: kilobytes / seconds,
    };
    if (scene !== "still") return result;
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

function withinLimit(work) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`not done within ${TIMEOUT_MS / 1_000} s`)), TIMEOUT_MS)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

const versions = [version(binary, "--version"), version(process.env.CHROMIUM ?? "/usr/bin/chromium", "--version")];
if (installed("Xvnc")) versions.push(version("Xvnc", "-version"));
if (installed("xpra")) versions.push(version("xpra", "--version"));
if (installed(selkies)) versions.push(version(selkies, "--version"));
printCircumstances(`${keys} keys in each of ${ROUNDS} rounds`, versions);

const percentile = (sorted, percent) => (sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? Number.NaN).toFixed(1);
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

/** A line for each way; what failed makes the exit status 1. */
function table(scene, results) {
  const still = scene === "still";
  console.log(`\n${scene.padEnd(18)} p50 ms  p95 ms    n  missed  server cores  ${still ? "at rest" : "pictures a second  at refreshes  even %"}  browser cores  KB a ${still ? "key" : "second"}`);
  for (const [name, rounds] of results) {
    for (const { error } of rounds.filter(({ error }) => error)) {
      console.log(`${name.padEnd(18)} failed: ${error.message.split("\n")[0]}`);
      process.exitCode = 1;
    }
    const good = rounds.filter(({ error }) => !error);
    if (good.length === 0) continue;
    const sorted = good.flatMap(({ delays }) => delays).sort((one, other) => one - other);
    const missed = good.reduce((sum, { missed }) => sum + missed, 0);
    const column = (value, width) => String(value).padStart(width);
    const average = (key, digits, width) => column(mean(good.map((result) => result[key])).toFixed(digits), width);
    console.log(
      name.padEnd(18) + column(percentile(sorted, 50), 7) + column(percentile(sorted, 95), 8) + column(sorted.length, 5) + column(missed, 8) + average("server", 2, 14) +
        (still ? average("rest", 3, 9) : average("pictures", 1, 19) + average("shown", 1, 14) + average("even", 0, 8)) + average("browser", 2, 15) + average(still ? "kilobytesAKey" : "kilobytesASecond", 1, still ? 10 : 13),
    );
    for (const { stages } of good.filter(({ stages }) => stages)) console.log(`  by its own clock: ${stages}`);
    if (missed > keys * good.length * MAX_MISSED_SHARE) {
      console.log(`${name.padEnd(18)} is not comparable: ${missed} of ${keys * good.length} keys changed nothing`);
      process.exitCode = 1;
    }
  }
}

try {
  for (const scene of scenes) {
    const results = new Map();
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const way of ways.filter(({ name }) => name.includes(process.argv[4] ?? ""))) {
        const lacking = way.lacks?.();
        if (lacking) {
          if (round === 0 && scene === scenes[0]) console.log(`${way.name}: left out, ${lacking} is not installed`);
          continue;
        }
        const result = await withinLimit(measure(way, scene)).catch((error) => ({ error }));
        results.set(way.name, [...(results.get(way.name) ?? []), result]);
      }
    }
    table(scene, results);
  }
} finally {
  await Promise.all(children.map(end));
  await rm(folder, { recursive: true, force: true });
}
// A way that came to nothing in time may still hold something open.
process.exit();
