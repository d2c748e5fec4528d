// Our own stream under the study's instrument: the streams of its Table 3 are there, and its rhythm is found.

import assert from "node:assert/strict";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { openBrowser } from "./helper.mjs";
import { makeNoise, study, whyNoCapture } from "./capture.mjs";

const why = whyNoCapture();

test("a capture of a session shows the study's streams and frames in groups", { skip: why === "" ? false : why }, async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "nearlight-noise-"));
  // A server that root starts decodes films as the user nobody.
  await chmod(folder, 0o755);
  const browser = await openBrowser();
  try {
    const film = path.join(folder, "noise.avi");
    makeNoise(film, "320x240", 30);
    const source = ["--video", film, "--size", "320x240", "--fps", "30", "--address", "127.0.0.1", "--sound", "off"];
    const sending = ["--controller", "fixed", "--rate", "6mbit", "--max-rate", "6mbit", "--pacing", "interval:5.56ms"];
    const { study: found } = await study(browser, 8, [...source, ...sending]);
    const kinds = (downlink) => found.streams.filter((row) => row.downlink === downlink).map((row) => row.kind);
    for (const kind of ["rtp-video", "rtcp", "dtls"]) assert.ok(kinds(true).includes(kind), `down: ${kinds(true)} lack ${kind}`);
    for (const kind of ["rtcp", "dtls"]) assert.ok(kinds(false).includes(kind), `up: ${kinds(false)} lack ${kind}`);
    const video = found.streams.find((row) => row.kind === "rtp-video");
    assert.ok(video.share > 0.8, `video is ${video.share} of what goes down`);
    assert.equal(found.capture.damage, null);
    const { frames } = found.video;
    assert.equal(frames.found_by, "timestamps");
    assert.ok(frames.count > 60, `${frames.count} frames`);
    assert.ok(frames.packets.p50 > 8, `${frames.packets.p50} packets in a frame`);
    // Groups are told apart by silences, which a busy machine fills; that they are found is asserted on captures with known truth.
    assert.ok(frames.assembly_ms.p50 > 4, `${frames.assembly_ms.p50} ms from first to last packet`);
  } finally {
    await browser.close();
    await rm(folder, { recursive: true, force: true });
  }
});
