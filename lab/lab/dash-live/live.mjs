// Compares lab/dash with the real thing: dash.js in headless Chromium, behind `nearlight link`, on segments that nginx serves.
//
//   sudo node lab/lab/dash-live/live.mjs [--seconds N] [--pictures FOLDER] [TRACE...]
//
// Needs root (for the link), nginx, ffmpeg, Chromium, `npm ci` in this folder and in web/, and a built target/release/nearlight. The
// traces are files that `nearlight link` reads; without any, three are made. The model has the congestion control that nginx has here.
// Takes as long as the video, for each trace. Ends with 1 where a bit rate is more than 10 % from the model's, or the number of stalls
// more than 1; with 77 where something is missing.

import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, "../../..");
const nearlight = process.env.NEARLIGHT_BIN ?? path.join(root, "target/release/nearlight");
const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** In kb/s; the ladder of plans/hera-qoe.toml. */
const LADDER = [45, 90, 180, 350, 600, 1000, 1500, 2000, 3000, 4000];
const SEGMENT = 4;
const FRAMES = 24;
/** What nginx' connections have: nginx cannot choose. */
const LAW = readFileSync("/proc/sys/net/ipv4/tcp_congestion_control", "utf8").trim();
const LAWS = ["reno", "cubic", "bbr", "vegas", "hera"];
/** The path besides its capacity, each way. */
const DOWN = "queue=150ms,delay=10ms";
const UP = "delay=10ms";

const [mode] = process.argv.slice(2);
if (mode === "--play") await play(process.argv[3], process.argv[4], process.argv[5]);
else process.exitCode = await main();

/** Inside the link: the browser. */
async function play(port, seconds, picture) {
  const { chromium: browsers } = createRequire(path.join(root, "web/package.json"))("playwright-core");
  const browser = await browsers.launch({
    executablePath: chromium,
    args: ["--headless=new", "--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required", "--disable-background-networking"],
  });
  const page = await browser.newPage({ viewport: { width: 640, height: 420 } });
  page.on("pageerror", (error) => console.error(String(error)));
  await page.goto(`http://${process.env.NEARLIGHT_LINK_HOST}:${port}/page.html`);
  const startedAt = await page.evaluate("start()");
  const end = Date.now() + (Number(seconds) * 1.5 + 60) * 1000;
  let pictures = 0;
  while (Date.now() < end && !(await page.evaluate("log.ended"))) {
    await page.waitForTimeout(500);
    if (picture && Date.now() - startedAt > 1000 * (15 + 45 * pictures)) {
      await page.screenshot({ path: `${picture}-${pictures}.png` });
      pictures += 1;
    }
  }
  const log = await page.evaluate("log");
  await browser.close();
  console.log(JSON.stringify({ ...log, startedAt }));
}

async function main() {
  const options = { seconds: 180, pictures: null, traces: [] };
  const words = process.argv.slice(2);
  while (words.length > 0) {
    const word = words.shift();
    if (word === "--seconds") options.seconds = Number(words.shift());
    else if (word === "--pictures") options.pictures = words.shift();
    else options.traces.push(word);
  }
  const missing = whatIsMissing();
  if (missing) {
    console.error(`this comparison cannot run: ${missing}`);
    return 77;
  }
  const folder = mkdtempSync(path.join(tmpdir(), "nearlight-dash-"));
  let server;
  try {
    // nginx' workers are another user's.
    spawnSync("chmod", ["755", folder]);
    const traces = options.traces.length > 0 ? options.traces : makeTraces(folder);
    makeContent(folder, options.seconds);
    const port = await freePort();
    server = serve(folder, port);
    let worst = 0;
    console.log(`congestion control: ${LAW}`);
    console.log("trace, bit rate in Mb/s (model), stalls (model), startup in s (model), switches (model)");
    for (const trace of traces) {
      const name = path.basename(trace).replace(/\.[a-z]+$/, "");
      const seen = await watch(trace, port, options, name);
      const model = simulate(folder, trace, seen.begin, options.seconds);
      const time = Object.values(seen.played).reduce((sum, span) => sum + span, 0);
      const rate = Object.entries(seen.played).reduce((sum, [rung, span]) => sum + LADDER[rung] * span, 0) / time / 1000;
      const wrong = Math.abs(rate / model.playback_mbps.mean - 1) > 0.1 || Math.abs(seen.stalls - model.playback_stalls.mean) > 1;
      worst = Math.max(worst, wrong ? 1 : 0);
      const pair = (ours, figure, digits) => `${ours.toFixed(digits)} (${figure.mean.toFixed(digits)})`;
      console.log(
        [
          name,
          pair(rate, model.playback_mbps, 2),
          pair(seen.stalls, model.playback_stalls, 0),
          pair(seen.startup / 1000, model.playback_startup_s, 2),
          pair(seen.switches, model.playback_switches, 0),
          `${seen.abandoned} given up`,
          wrong ? "DIFFERS" : "agrees",
        ].join(", "),
      );
    }
    return worst;
  } finally {
    server?.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

function whatIsMissing() {
  const has = (program) => spawnSync("sh", ["-c", `command -v ${program}`]).status === 0;
  if (!LAWS.includes(LAW)) return `the model has no congestion control ${LAW}; sysctl net.ipv4.tcp_congestion_control=cubic`;
  if (process.getuid() !== 0) return "the link needs root here; run it with sudo";
  if (!existsSync(nearlight)) return `there is no ${nearlight}; build it with make build`;
  if (!has("nginx")) return "nginx is not installed; apt-get install nginx-light";
  if (!has("ffmpeg")) return "ffmpeg is not installed; apt-get install ffmpeg";
  if (!existsSync(chromium)) return `there is no ${chromium}; apt-get install chromium, or name it with CHROMIUM=`;
  if (!existsSync(path.join(root, "web/node_modules/playwright-core"))) return "run npm ci in web/";
  if (!existsSync(path.join(here, "node_modules/dashjs"))) return "run npm ci in lab/lab/dash-live/";
  return null;
}

/** Three capacities: one that swings slowly, one that falls for a time, one that jumps. */
function makeTraces(folder) {
  let state = 7;
  const draw = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const shapes = {
    swings: (second) => 2.4 + 1.6 * Math.sin(second / 11) + 0.4 * draw(),
    falls: (second) => (second % 120 > 50 && second % 120 < 80 ? 0.5 : 5) + 0.3 * draw(),
    jumps: (second) => [1.2, 6, 0.7, 3][Math.floor(second / 9) % 4] * (0.8 + 0.4 * draw()),
  };
  return Object.entries(shapes).map(([name, shape]) => {
    const lines = Array.from({ length: 600 }, (_, second) => `${second},${shape(second).toFixed(3)}`);
    const file = path.join(folder, `${name}.csv`);
    writeFileSync(file, ["t_s,mbps", ...lines, ""].join("\n"));
    return file;
  });
}

/** Segments of equal length and size in each rate, with the manifest and the page beside them. */
function makeContent(folder, seconds) {
  const args = ["-v", "error", "-f", "lavfi", "-i", `testsrc2=size=640x360:rate=${FRAMES}:duration=${seconds}`];
  LADDER.forEach((rate, rung) => {
    const [width, height] = rate < 300 ? [160, 90] : rate < 1200 ? [320, 180] : [640, 360];
    args.push("-map", "0:v", `-s:v:${rung}`, `${width}x${height}`, `-b:v:${rung}`, `${rate}k`);
    args.push(`-minrate:v:${rung}`, `${rate}k`, `-maxrate:v:${rung}`, `${rate}k`, `-bufsize:v:${rung}`, `${rate}k`);
  });
  args.push("-c:v", "libx264", "-preset", "ultrafast", "-x264-params", "nal-hrd=cbr:force-cfr=1", "-pix_fmt", "yuv420p");
  args.push("-g", `${SEGMENT * FRAMES}`, "-keyint_min", `${SEGMENT * FRAMES}`, "-sc_threshold", "0", "-bf", "0");
  args.push("-f", "dash", "-seg_duration", `${SEGMENT}`, "-use_template", "1", "-use_timeline", "0", "-adaptation_sets", "id=0,streams=v");
  args.push(path.join(folder, "manifest.mpd"));
  const made = spawnSync("ffmpeg", args, { encoding: "utf8" });
  if (made.status !== 0) throw new Error(`ffmpeg made no segments: ${made.stderr}`);
  cpSync(path.join(here, "page.html"), path.join(folder, "page.html"));
  cpSync(path.join(here, "node_modules/dashjs/dist/modern/umd/dash.all.min.js"), path.join(folder, "dash.js"));
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function serve(folder, port) {
  const file = path.join(folder, "nginx.conf");
  writeFileSync(
    file,
    `pid ${folder}/nginx.pid; error_log ${folder}/nginx.log; events {}
http {
  types { text/html html; text/javascript js; application/dash+xml mpd; video/iso.segment m4s; }
  access_log off; sendfile on; keepalive_timeout 600; keepalive_requests 100000;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  server { listen 0.0.0.0:${port}; root ${folder}; add_header Cache-Control no-store; }
}
`,
  );
  return spawn("nginx", ["-p", folder, "-c", file, "-g", "daemon off;"], { stdio: "inherit" });
}

/** What the browser saw, and how long after the link's start it began. */
function watch(trace, port, { seconds, pictures }, name) {
  if (pictures) mkdirSync(pictures, { recursive: true });
  const picture = pictures ? path.join(path.resolve(pictures), name) : "";
  const self = fileURLToPath(import.meta.url);
  const link = ["link", "--means", "root", "--down", `trace=${trace},offset=0s,${DOWN}`, "--up", UP];
  const command = [...link, "--", process.execPath, self, "--play", `${port}`, `${seconds}`, picture];
  return new Promise((resolve, reject) => {
    const child = spawn(nearlight, command, { stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let words = "";
    let linkAt = null;
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => {
      linkAt ??= Date.now();
      words += data;
    });
    child.on("exit", () => {
      const line = out.split("\n").find((text) => text.startsWith('{"'));
      if (!line) return reject(new Error(`the browser behind the link reported nothing:\n${words}${out}`));
      const log = JSON.parse(line);
      if (process.env.DEBUG) console.log(line);
      resolve({ ...log, begin: (log.startedAt - linkAt) / 1000 });
    });
  });
}

/** The model over the same path, from the same moment on. */
function simulate(folder, trace, begin, seconds) {
  const file = path.join(folder, "model.toml");
  const duration = Math.ceil(begin + seconds * 1.5 + 60);
  writeFileSync(
    file,
    `question = "Does the model do as dash.js does?"
seeds = 1
[all]
duration = "${duration}s"
media = []
[[all.flow]]
kind = "dash"
law = "${LAW}"
start = "${begin.toFixed(3)}s"
segment = "${SEGMENT}s"
length = "${seconds}s"
ladder = [${LADDER.map((rate) => `"${rate}kbit"`).join(", ")}]
[[all.path]]
name = "link"
forward = "trace=${path.resolve(trace)},offset=0s,${DOWN}"
feedback = "${UP}"
`,
  );
  const ran = spawnSync(nearlight, ["lab", "run", file, "--json", "--out", path.join(folder, "model")], { encoding: "utf8" });
  if (ran.status !== 0) throw new Error(ran.stderr);
  return JSON.parse(ran.stdout).cells[0].metrics;
}
