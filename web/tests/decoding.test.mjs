// Browsers that claim a codec and decode nothing of it: in virtual time, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";
import { VirtualTime, fakePage } from "./virtual.mjs";

const time = new VirtualTime();
fakePage();
const { Decoder, CodecChoice, claimedCodecs, rtpFormats } = await load("decoder.ts", "codecs.ts");

/** What the browser's decoder does with a chunk: refuses it by an error, keeps it, or puts a picture out. */
let behaviour = "decode";
globalThis.EncodedVideoChunk = class {
  constructor(init) {
    Object.assign(this, init);
  }
};
globalThis.VideoDecoder = class {
  static isConfigSupported = async () => ({ supported: true });
  state = "unconfigured";
  constructor(out) {
    this.out = out;
  }
  configure() {
    if (behaviour === "throw") throw new DOMException("not supported", "NotSupportedError");
    this.state = "configured";
  }
  decode({ timestamp }) {
    if (behaviour === "refuse") setTimeout(() => this.state !== "closed" && this.out.error(new Error("Decoding error")), 5);
    if (behaviour === "decode") setTimeout(() => this.state !== "closed" && this.out.output({ timestamp, close: () => undefined }), 5);
  }
  close() {
    this.state = "closed";
  }
};

/** Frames at 30 a second for at most so many milliseconds, of which the server makes the next a key frame when one failed. Returns after how many
 *  milliseconds the decoder counts as dead; null where it does not. */
async function watch(decoder, milliseconds, failures, { every = 33, busy = 0 } = {}) {
  const begun = time.now;
  let needsKey = failures.length === 0;
  let seen = failures.length;
  for (let frame = 0; time.now - begun < milliseconds; frame += 1) {
    needsKey ||= failures.length > seen;
    seen = failures.length;
    if ((frame * 33) % every < 33) {
      decoder.decode(frame, needsKey, new Uint8Array());
      needsKey = false;
    }
    await time.advance(33);
    if (frame % 6 !== 5) continue;
    time.now += busy;
    if (decoder.isDead(time.now)) return time.now - begun;
  }
  return null;
}

function open() {
  const failures = [];
  return { failures, decoder: new Decoder("avc1.42E01F", { onPicture: () => undefined, onFailure: (frame, why) => failures.push(why) }) };
}

test("a decoder that refuses every key frame is given up after a second, one that keeps silent after two", async () => {
  for (const [does, earliest, latest] of [["refuse", 900, 1_500], ["throw", 900, 1_500], ["keep", 1_900, 2_500]]) {
    behaviour = does;
    const { decoder, failures } = open();
    const after = await watch(decoder, 5_000, failures);
    assert.ok(after >= earliest && after <= latest, `${does}: ${after} ms`);
    decoder.close();
  }
});

test("a decoder that works is never given up: not without frames, not on a page that was busy or suspended, not for frames it refuses now and then", async () => {
  behaviour = "decode";
  const { decoder, failures } = open();
  assert.equal(await watch(decoder, 3_000, failures), null);
  await time.advance(60_000);
  assert.equal(decoder.isDead(time.now), false, "a program that draws nothing");
  assert.equal(await watch(decoder, 3_000, failures, { busy: 900 }), null, "a busy page");
  behaviour = "refuse";
  assert.equal(await watch(decoder, 3_000, failures), null, "damaged frames");
  behaviour = "decode";
  assert.equal(await watch(decoder, 3_000, failures), null);
});

test("a decoder that stops after it has worked is given up after six seconds", async () => {
  behaviour = "decode";
  const { decoder, failures } = open();
  await watch(decoder, 1_000, failures);
  behaviour = "keep";
  const after = await watch(decoder, 20_000, failures);
  assert.ok(after >= 5_500 && after <= 7_000, `${after} ms`);
});

test("every frame that a decoder cannot take is reported, also by one that cannot be configured", () => {
  behaviour = "throw";
  const { decoder, failures } = open();
  decoder.decode(1, true, new Uint8Array());
  decoder.decode(2, false, new Uint8Array());
  assert.equal(failures.length, 2);
});

test("the page asks for the other codec, remembers which failed, and says so; where all fail a retry offers all again", async () => {
  const choice = new CodecChoice(await claimedCodecs());
  assert.deepEqual([choice.offered("webcodecs"), choice.failures("webcodecs")], [["h264", "vp8"], ""]);
  assert.equal(choice.onFailed("webcodecs", "h264"), true);
  assert.deepEqual(choice.offered("webcodecs"), ["vp8"]);
  assert.equal(choice.failures("webcodecs"), "this browser's WebCodecs claims H.264, and decoded no picture of it");
  assert.deepEqual(choice.offered("webrtc"), ["h264", "vp8"], "WebRTC has decoders of its own");
  choice.retry();
  assert.deepEqual(choice.offered("webcodecs"), ["vp8"], "what failed stays so while there is another");
  assert.equal(choice.onFailed("webcodecs", "vp8"), false);
  assert.match(choice.failures("webcodecs"), /H\.264 and VP8/);
  choice.retry();
  assert.deepEqual(choice.offered("webcodecs"), ["h264", "vp8"]);
});

test("over WebRTC the formats of a codec that failed are not offered", () => {
  const known = [{ mimeType: "video/VP8" }, { mimeType: "video/H264", sdpFmtpLine: "packetization-mode=1;profile-level-id=42e01f" }];
  const offered = (codecs) => rtpFormats(codecs).flatMap((fits) => known.filter(fits)).map(({ mimeType }) => mimeType);
  assert.deepEqual([...new Set(offered(["vp8", "h264"]))], ["video/H264", "video/VP8"], "best first");
  assert.deepEqual(offered(["vp8"]), ["video/VP8"]);
});
