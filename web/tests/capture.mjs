// A packet capture of a session in headless Chromium, studied by `nearlight analyze`. Capturing needs tcpdump and the right to use it.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { binary, lookAround, openPage, shown, startServer, until } from "./helper.mjs";

/** Why nothing can be captured here; empty where it can. */
export function whyNoCapture() {
  try {
    execFileSync("tcpdump", ["-i", "lo", "-c", "1", "-w", "/dev/null"], { stdio: "pipe", timeout: 500 });
    return "";
  } catch (error) {
    // Nothing may have passed for a while: that it waited until it was stopped means that it may capture.
    if (error.code === "ETIMEDOUT") return "";
    return error.code === "ENOENT" ? "there is no tcpdump" : String(error.stderr).trim();
  }
}

/** A film of moving noise, four seconds of it, so that any rate is needed in full; the file's name ends in .avi. */
export function makeNoise(file, size, fps) {
  const source = `testsrc2=size=${size}:rate=${fps}:duration=4,noise=alls=60:allf=t,format=yuv420p`;
  execFileSync("ffmpeg", ["-v", "error", "-y", "-f", "lavfi", "-i", source, "-c:v", "rawvideo", file]);
}

/**
 * Plays a session over WebRTC for so many seconds, with a user who looks around, and studies what crossed the wire.
 * `options` are those of `nearlight serve`.
 */
export async function study(browser, seconds, options) {
  const folder = await mkdtemp(path.join(tmpdir(), "nearlight-capture-"));
  const server = await startServer({ more: options });
  const { context, page } = await openPage(browser);
  try {
    await page.goto(server.url.replace("#", "?transport=webrtc#"));
    await until(page, shown(30), "30 frames are displayed");
    const file = path.join(folder, "capture.pcap");
    // Headers only; a buffer of 16 MiB, so that a busy machine drops nothing.
    const words = ["-i", "lo", "-s", "96", "-B", "16384", "-n", "-w", file, `udp port ${server.rtcPort}`];
    const capture = spawn("tcpdump", words, { stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(capture, "exit");
    await once(capture.stderr, "data");
    await lookAround(page, seconds);
    capture.kill("SIGINT");
    await ended;
    const summary = await page.evaluate(() => window.nearlight.summary());
    const text = execFileSync(binary, ["analyze", file, "--json"], { encoding: "utf8", maxBuffer: 64 << 20 });
    return { study: JSON.parse(text).study, summary };
  } finally {
    await context.close();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
