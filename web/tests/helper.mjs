// Starts what the page's tests need: the real server, a browser, and a plain file server for the page alone.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = path.dirname(fileURLToPath(import.meta.url));
const dist = path.join(here, "../dist");

/** The binary under test; `make test` names it. */
export const binary = process.env.NEARLIGHT_BIN ?? path.join(here, "../../target/release/nearlight");

/** What the server sends with the page: the tests of the page alone must not be laxer. */
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' https: wss:; base-uri 'none'";

export async function openBrowser(...more) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
      ...more,
    ],
  });
}

/** A page that collects what went wrong in it in `errors`. Options are those of the browser's context. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, ...options });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  return { context, page, errors };
}

/** Gives the page an emulated headset at `window.emulated`, with these features beside its own; call before the page is loaded. */
export async function emulateHeadset(page, ...features) {
  await page.addInitScript(await readFile(path.join(here, "../node_modules/iwer/build/iwer.min.js"), "utf8"));
  await page.addInitScript((features) => {
    const { metaQuest3, XRDevice } = window.IWER;
    const device = new XRDevice({ ...metaQuest3, supportedFeatures: [...metaQuest3.supportedFeatures, ...features] });
    // Chromium brings a WebXR without devices, which the emulator must replace.
    device.installRuntime({ forceInstall: true });
    device.stereoEnabled = true;
    window.emulated = device;
  }, features);
}

/** Keeps the page's connections for `inbound`; call before the page is loaded. */
export async function keepConnections(page) {
  await page.addInitScript(() => {
    window.connections = [];
    window.RTCPeerConnection = class extends RTCPeerConnection {
      constructor(...how) {
        super(...how);
        window.connections.push(this);
      }
    };
  });
}

/** What the browser has counted of the picture that comes in over WebRTC; none without one. */
export function inbound(page) {
  return page.evaluate(async () => {
    const report = await window.connections.at(-1)?.getStats();
    return [...(report?.values() ?? [])].find(({ type, kind }) => type === "inbound-rtp" && kind === "video");
  });
}

/** Saves a picture of the page where NEARLIGHT_SCREENSHOTS names a folder. */
export async function screenshot(page, name) {
  const folder = process.env.NEARLIGHT_SCREENSHOTS;
  if (!folder) return;
  await mkdir(folder, { recursive: true });
  await page.screenshot({ path: path.join(folder, `${name}.png`) });
}

/** A page's file server without any session behind it. */
export async function servePage() {
  const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".wasm": "application/wasm" };
  const server = createServer(async (request, response) => {
    const name = new URL(request.url ?? "/", "http://localhost").pathname.slice(1) || "index.html";
    if (name === "session.json") {
      response.writeHead(200, { "content-type": "application/json" }).end('{"certificate_sha256":null,"role":"host"}');
      return;
    }
    try {
      const bytes = await readFile(path.join(dist, path.basename(name)));
      response.writeHead(200, { "content-type": types[path.extname(name)] ?? "text/plain", "content-security-policy": POLICY });
      response.end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}

/** Runs `nearlight serve`, or `front`; `port` 0 picks a free one. */
export async function startServer({ program = binary, command = "serve", port = 0, token, more = [] } = {}) {
  const kept = command === "serve" && !more.includes("--state") ? ["--ephemeral"] : [];
  const words = [command, "--json", "--port", String(port), ...kept, ...(token ? ["--token", token] : []), ...more];
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"] });
  const log = [];
  child.stderr.on("data", (chunk) => {
    log.push(String(chunk));
    if (log.length > 400) log.shift();
  });
  const exited = once(child, "exit");
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([
    once(lines, "line").then(([line]) => line),
    exited.then(([code]) => {
      throw new Error(`nearlight ${command} ended with ${code}: ${log.join("")}`);
    }),
  ]);
  const { url, links, spectators, port: listening, rtc_port: rtcPort } = JSON.parse(first);
  // A test that fails leaves its server behind, which must not keep the tests from ending.
  const hold = [child, child.stdout, child.stderr];
  for (const handle of hold) handle.unref();
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  return {
    url,
    /** This machine's link and those for others. */
    links,
    /** The link of those who only watch. */
    spectatorUrl: spectators[0],
    pid: child.pid,
    port: listening,
    rtcPort,
    log: () => log.join(""),
    /** Ends it at once, as a crash would, or in good order. */
    async stop(signal = "SIGTERM") {
      for (const handle of hold) handle.ref();
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      await exited;
      process.off("exit", kill);
    },
  };
}

/** A virtual screen, and its name for `DISPLAY`. */
export async function startScreen() {
  const child = spawn("Xvfb", ["-displayfd", "3", "-screen", "0", "1400x1000x24", "-nolisten", "tcp"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  const [number] = await Promise.race([
    once(createInterface({ input: child.stdio[3] }), "line"),
    exited.then(([code]) => {
      throw new Error(`Xvfb ended with ${code}`);
    }),
  ]);
  return {
    name: `:${number}`,
    async stop() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

/** Whether coturn is installed. The set-up leaves it out: its package starts a service. */
export const hasTurn = spawnSync("turnserver", ["--version"]).error === undefined;

/** A TURN server for the one user `me` with the password `secret`, who may reach this machine. */
export async function startTurn() {
  const folder = await mkdtemp(path.join(tmpdir(), "nearlight-turn-"));
  const port = await freePort();
  const words = [
    "-n", "--no-cli", "--no-tls", "--no-dtls", "--lt-cred-mech", "--user", "me:secret", "--realm", "nearlight", "--allow-loopback-peers",
    "--listening-ip", "127.0.0.1", "--relay-ip", "127.0.0.1", "--listening-port", String(port), "--log-file", "stdout",
    "--pidfile", path.join(folder, "pid"), "--userdb", path.join(folder, "users"),
  ];
  const stop = await startListener("turnserver", words, { port, folder, tries: 100 });
  return { url: `turn:me:secret@127.0.0.1:${port}`, stop };
}

/** A NATS server, which must have been built, as for the tests of the command: by scripts/go-program.sh. */
export async function startNats() {
  const folder = await mkdtemp(path.join(tmpdir(), "nearlight-nats-"));
  const built = spawnSync(path.join(here, "../../scripts/go-program.sh"), ["nats-server"], { encoding: "utf8" });
  if (built.status !== 0) throw new Error(`there is no NATS server to test with: ${built.stderr}`);
  const port = await freePort();
  const stop = await startListener(built.stdout.trim(), ["-js", "-a", "127.0.0.1", "-p", String(port), "-sd", folder], { port, folder, tries: 200 });
  return { url: `nats://127.0.0.1:${port}`, stop };
}

/** Starts a server that listens at the TCP port `port` within so many twentieths of a second. Returns what ends it and removes its folder. */
export async function startListener(command, words, { port, folder, tries, env = process.env }) {
  const child = spawn(command, words, { stdio: "ignore", env });
  const exited = once(child, "exit");
  child.unref();
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  for (let tried = 0; !(await answers(port)); tried += 1) {
    if (tried === tries || child.exitCode !== null) throw new Error(`${command} does not listen`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return async () => {
    child.kill("SIGTERM");
    await exited;
    process.off("exit", kill);
    await rm(folder, { recursive: true });
  };
}

export async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  await once(listener, "close");
  return port;
}

/** Whether something listens there. */
async function answers(port) {
  const socket = connect(port, "127.0.0.1");
  const open = await Promise.race([once(socket, "connect").then(() => true), once(socket, "close").then(() => false)]).catch(() => false);
  socket.destroy();
  return open;
}

function whatThePageKnows() {
  const { state, lastMarker, statistics, stream } = window.nearlight ?? {};
  return JSON.stringify({ state, lastMarker, statistics, stream, status: document.getElementById("status")?.innerText });
}

/** Asks until the answer is `wanted`, which is what it returns, or until the time is over: then it returns the last one. */
export async function eventually(ask, wanted, timeout = 30_000) {
  const limit = performance.now() + timeout;
  for (;;) {
    const answer = await ask();
    if (wanted(answer) || performance.now() > limit) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Waits until `probe`, evaluated in the page with `argument`, answers something that counts as true; says what `knowledge` finds in
 *  the page when it never did. */
export async function until(page, probe, what, { timeout = 30_000, knowledge = whatThePageKnows, argument } = {}) {
  let failure = "";
  // A page that is being loaded has nothing to ask.
  const ask = () => page.evaluate(probe, argument).catch((error) => void (failure = ` The probe: ${error.message}.`));
  if (await eventually(ask, Boolean, timeout)) return;
  const seen = await page.evaluate(knowledge).catch(() => "no page");
  throw new Error(`never happened in ${timeout} ms: ${what}. The page: ${seen}.${failure}`);
}

/** Waits until an element's text, as the user reads it, is as wanted. */
export async function untilSays(page, id, wanted) {
  const says = ({ id, source }) => new RegExp(source).test(document.getElementById(id).innerText);
  await until(page, says, `#${id} says ${wanted}`, { argument: { id, source: wanted.source } });
}

/** The user looks around and walks for so many seconds, as the headless client's does. */
export async function lookAround(page, seconds) {
  // Within the page: a call from here for each step would take a tenth of a processor from what is measured.
  await page.evaluate(async (milliseconds) => {
    const end = performance.now() + milliseconds;
    for (let step = 0; performance.now() < end; step += 1) {
      window.nearlight.setPose({ position: [Math.sin(step / 90), 1.6, Math.cos(step / 70) - 1], yaw: Math.sin(step / 40) * 0.6 });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }, seconds * 1000);
}

/** Options of a server with small pictures: two cores render, encode, decode and draw them at the same time. */
export const SMALL = ["--size", "640x360", "--fps", "30"];

/** A probe for `until`. */
export const live = () => window.nearlight?.state === "live";

/** What the page shows of the world. */
export function picture(page) {
  return page.screenshot({ clip: { x: 0, y: 120, width: 800, height: 600 } });
}

/** The page's pictures: their size, and the share of their lowest eight rows that is as black or as white as a marker's cells. */
export function canvas(page) {
  return page.evaluate(async () => {
    const bitmap = await createImageBitmap(document.getElementById("picture"));
    const { width, height } = bitmap;
    const context = new OffscreenCanvas(width, 8).getContext("2d");
    context.drawImage(bitmap, 0, height - 8, width, 8, 0, 0, width, 8);
    const { data } = context.getImageData(0, 0, width, 8);
    const pure = Array.from({ length: width * 8 }, (_, index) => data[index * 4 + 1]).filter((level) => level < 24 || level > 231);
    return { size: [width, height], pure: pure.length / (width * 8) };
  });
}

/** Standard deviation of the brightness in a screenshot, 0 to 127; the page computes it. */
export function contrast(page, png) {
  return page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    const levels = Array.from({ length: data.length / 4 }, (_, index) => data[index * 4 + 1]);
    const mean = levels.reduce((sum, level) => sum + level, 0) / levels.length;
    return Math.sqrt(levels.reduce((sum, level) => sum + (level - mean) ** 2, 0) / levels.length);
  }, Buffer.from(png).toString("base64"));
}

/** Waits until the page shows another picture of the world than `before`; `look` takes it. */
export async function untilPictureChanges(page, before, what, look = picture) {
  const differs = (later) => Buffer.compare(later, before) !== 0;
  if (!differs(await eventually(() => look(page), differs))) throw new Error(`the picture stays the same: ${what}`);
}

/** Waits until both eyes of the headset's canvas see something else than they did `before`. */
export async function untilEyesTurn(page, before) {
  const turned = (now) => Math.min(distance(before.left, now.left), distance(before.right, now.right)) > 4;
  const now = await eventually(() => eyes(page), turned);
  const moved = ["left", "right"].map((eye) => distance(before[eye], now[eye]));
  if (!turned(now)) throw new Error(`the eyes' pictures do not follow the head: they differ by ${moved} of 255 on average`);
}

/** Both halves of the headset's canvas as small grey pictures, and how much they differ. */
export async function eyes(page) {
  const { left, right } = await page.evaluate(async () => {
    const canvas = document.querySelector("canvas.headset");
    // The drawing buffer is only there within the frame that drew it.
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const bitmap = await createImageBitmap(canvas);
    const half = (from) => {
      const small = new OffscreenCanvas(64, 64).getContext("2d");
      small.drawImage(bitmap, from, 0, bitmap.width / 2, bitmap.height, 0, 0, 64, 64);
      const { data } = small.getImageData(0, 0, 64, 64);
      return Array.from({ length: 64 * 64 }, (_, index) => (data[index * 4] + data[index * 4 + 1] + data[index * 4 + 2]) / 3);
    };
    return { left: half(0), right: half(bitmap.width / 2) };
  });
  return { left, right, difference: distance(left, right) };
}

export function distance(one, other) {
  return one.reduce((sum, value, index) => sum + Math.abs(value - other[index]), 0) / one.length;
}

/** A probe for `until`, made of source text, for it takes no arguments. */
export function shown(frames) {
  return new Function(`return window.nearlight?.statistics?.displayed >= ${frames}`);
}
