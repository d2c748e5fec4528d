// The page against the real server: pictures, inputs that come back as pixels, lost connections, refusals, the headset.

import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { after, before, test } from "node:test";
import {
  SMALL, canvas, emulateHeadset, eyes, live, openBrowser, openPage, picture, screenshot, shown, startServer, until, untilEyesTurn, untilPictureChanges, untilSays,
} from "./helper.mjs";

const TOKEN = "a-token-for-the-page-tests";

let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), startServer({ token: TOKEN, more: SMALL })]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function openLive(link = server.url, prepare = async () => undefined) {
  const opened = await openPage(browser);
  await prepare(opened.page);
  await opened.page.goto(link);
  await until(opened.page, live, "the page goes live");
  return opened;
}

test("frames are decoded, displayed, and their markers read", async () => {
  const { context, page, errors } = await openLive();
  await until(page, shown(60), "60 frames are displayed");
  await until(page, () => window.nearlight.lastMarker?.frame > 30 && window.nearlight.lastMarker.input > 0, "the markers name frames and inputs");
  const { statistics, stream } = await page.evaluate(() => ({ ...window.nearlight }));
  assert.ok(statistics.decoded >= 60, `${statistics.decoded} frames decoded`);
  assert.ok(statistics.unreadableMarkers <= statistics.displayed / 100, `${statistics.unreadableMarkers} unreadable markers`);
  assert.equal(stream.views, 1);
  assert.deepEqual([stream.width, stream.height], [640, 360]);
  assert.deepEqual(errors, []);
  await screenshot(page, "landing-live");
  await context.close();
});

test("a browser that claims H.264 and refuses all of it asks for VP8, says so, and remembers it", async () => {
  // A worker whose script a test has changed has no address, and such workers may not reach this machine otherwise.
  const permissive = await openBrowser("--disable-features=LocalNetworkAccessChecks");
  const { page } = await openPage(permissive);
  const hellos = [];
  // WebKit with one of GStreamer's plugins and without another claims the codec and reports an error for each key frame.
  const refuses = `
    const Real = self.VideoDecoder;
    self.VideoDecoder = class {
      static isConfigSupported = (config) => Real.isConfigSupported(config.codec === "vp8" ? config : { codec: "vp8" });
      constructor(out) {
        this.out = out;
        this.state = "unconfigured";
      }
      configure(config) {
        if (!config.codec.startsWith("avc1")) this.real = new Real(this.out);
        this.real?.configure(config);
        this.state = "configured";
      }
      decode(chunk) {
        if (this.real) this.real.decode(chunk);
        else setTimeout(() => this.state !== "closed" && this.out.error(new DOMException("Decoding error", "EncodingError")), 5);
      }
      close() {
        this.real?.close();
        this.state = "closed";
      }
    };`;
  await page.route("**/worker.js", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: `${refuses}\n${await answer.text()}` });
  });
  await page.goto(server.url.replace("#", "?transport=websocket#"));
  page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => /"type":"hello"/.test(String(payload)) && hellos.push(String(payload))));
  await until(page, shown(20), "VP8 is displayed");
  assert.equal(await page.evaluate(() => window.nearlight.stream.codec), "vp8");
  await page.locator("#toggle-hud").click();
  await untilSays(page, "facts", /vp8 · this browser's WebCodecs claims H\.264, and decoded no picture of it/);
  // A new session asks for what decodes, without trying again.
  await page.evaluate(() => {
    const transport = document.getElementById("transport");
    transport.value = "websocket";
    transport.dispatchEvent(new Event("change"));
  });
  await until(page, () => window.nearlight.state !== "live", "a new session begins");
  await until(page, shown(20), "VP8 is displayed again");
  assert.match(hellos.at(-1), /"codecs":\["vp8"\]/);
  await permissive.close();
});

test("every painter shows the picture alone and reads the marker below it", async () => {
  for (const painter of ["2d", "video", "webgl2"]) {
    const { context, page, errors } = await openLive(server.url.replace("#", `?painter=${painter}#`));
    await page.locator("#enter").click();
    await until(page, () => (window.nearlight.statistics?.displayed ?? 0) >= 10, `frames are displayed with ${painter}`);
    assert.equal(await page.evaluate(() => window.nearlight.statistics.unreadableMarkers), 0, painter);
    const { size, pure } = await canvas(page);
    assert.deepEqual(size, [640, 360], painter);
    assert.ok(pure < 0.5, `${painter}: ${pure} of the lowest rows are as black or white as a marker`);
    await screenshot(page, `painter-${painter}`);
    assert.deepEqual(errors, []);
    await context.close();
  }
});

test("a browser without WebGL2 shows pictures in a video element, and the panel says so", async () => {
  const own = await openBrowser("--disable-software-rasterizer");
  const { page, errors } = await openPage(own);
  await page.goto(server.url);
  await until(page, shown(10), "frames are displayed");
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  await untilSays(page, "facts", /video element · this browser has no WebGL2/);
  assert.deepEqual(errors, []);
  await own.close();
});

test("a browser that cannot convert pictures shows them all the same", async () => {
  for (const [painter, refusal] of [["2d", "allocationSize"], ["2d", "copyTo"], ["video", "copyTo"]]) {
    const { context, page, errors } = await openPage(browser);
    await context.route("**/worker.js", async (route) => {
      const response = await route.fetch();
      const refuse = `VideoFrame.prototype.${refusal} = () => { throw new DOMException("not here", "NotSupportedError"); };`;
      await route.fulfill({ response, body: refuse + (await response.text()) });
    });
    // Chromium refuses WebTransport to a page whose files a test has changed on their way.
    await page.goto(server.url.replace("#", `?transport=webrtc&painter=${painter}#`));
    await until(page, () => (window.nearlight?.statistics?.displayed ?? 0) >= 10, `frames are displayed by ${painter} without ${refusal}`);
    assert.equal(await page.evaluate(() => window.nearlight.statistics.unreadableMarkers), 0, `${painter}, ${refusal}`);
    assert.deepEqual(errors, []);
    await context.close();
  }
});

test("an input's mark appears in the pixels, and an action changes the picture", async () => {
  const { context, page } = await openLive();
  await page.locator("#enter").click();
  await until(page, () => window.nearlight.lastMarker?.input > 10, "inputs come back in pixels");
  const before = await picture(page);
  await page.evaluate(() => window.nearlight.device({ device: "key", code: "KeyF", pressed: true }));
  await untilPictureChanges(page, before, "a thrown ball is seen");
  await page.evaluate(() => window.nearlight.setPose({ position: [3, 1.6, 5], yaw: 0.4 }));
  await until(page, shown(61), "more frames follow");
  await until(page, async () => (await window.nearlight.summary()).motion_to_photon_ms.n > 0, "motion-to-photon is known");
  const summary = await page.evaluate(() => window.nearlight.summary());
  assert.ok(summary.motion_to_photon_ms.p50 > 1, "no frame shows an input before it happened");
  assert.equal(summary.stage_sum_error_us_max, 0);
  assert.equal(summary.transport, "webtransport");
  const events = (await page.evaluate(() => window.nearlight.events())).trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.ok(events.every(({ origin, at }) => origin === "client" && at > 0));
  const displayed = events.filter(({ event }) => event === "frame_displayed");
  assert.ok(displayed.length > 0 && displayed.every(({ timeline }) => timeline.boundaries.length === 11), JSON.stringify(displayed[0]));
  // A browser that stalls drops datagrams before the page sees them; that a clean path loses nothing is asserted in virtual time.
  assert.ok(summary.frames.lost * 2 <= summary.frames.sent, JSON.stringify(summary.frames));
  await context.close();
});

test("the panel shows the stages of real frames", async () => {
  const { context, page } = await openLive();
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  for (const [id, wanted] of [["mtp", /\d/], ["rates", /\d/], ["legend", /render\s+\d+\.\d ms/], ["facts", /WebTransport/]]) {
    await untilSays(page, id, wanted);
  }
  await screenshot(page, "panel-live");
  await context.close();
});

test("the ladder changes the picture's size in mid-stream and no frame is lost", async () => {
  const more = ["--size", "640x360", "--fps", "30", "--controller", "nebula", "--fec", "nebula", "--pacing", "burst", "--max-rate", "6mbit"];
  const own = await startServer({ more: [...more, "--impair", "rate=8mbit/3mbit@6s,delay=10ms,queue=200ms"] });
  const { context, page, errors } = await openLive(own.url);
  await page.evaluate(() => {
    window.sizes = [];
  });
  await until(
    page,
    () => {
      const size = `${window.nearlight.stream.width}x${window.nearlight.stream.height}`;
      if (window.sizes.at(-1) !== size) window.sizes.push(size);
      return window.sizes.length >= 3;
    },
    "the size changes twice",
    { timeout: 40_000 },
  );
  const before = await page.evaluate(() => window.nearlight.statistics.displayed);
  await until(page, shown(before + 31), "30 frames more are displayed");
  const { statistics } = await page.evaluate(() => ({ statistics: window.nearlight.statistics }));
  assert.equal(statistics.lost, 0, JSON.stringify(statistics));
  assert.ok(statistics.completed - statistics.decoded <= 3, JSON.stringify(statistics));
  const { pause_ms_max: pause } = await page.evaluate(() => window.nearlight.summary());
  assert.ok(pause < 1_500, `the picture stood still for ${pause} ms`);
  assert.deepEqual(errors, []);
  await context.close();
  await own.stop();
});

test("after a crash and a restart of the server the picture resumes by itself", async () => {
  const first = await startServer({ token: TOKEN, more: SMALL });
  const { context, page } = await openLive(first.url);
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  await first.stop("SIGKILL");
  await until(page, () => ["stalled", "reconnecting"].includes(window.nearlight.state), "the page says that it lost the server");
  await until(page, () => window.nearlight.state === "reconnecting", "the page tries again");
  await screenshot(page, "reconnecting");
  const second = await startServer({ port: first.port, token: TOKEN, more: SMALL });
  await until(page, live, "the picture resumes");
  assert.ok(await page.evaluate(() => window.sameDocument), "the page was not loaded again");
  await context.close();
  await second.stop();
});

test("a server that ends in good order and comes back with another token is refused plainly", async () => {
  const first = await startServer({ token: TOKEN, more: SMALL });
  const { context, page } = await openLive(first.url);
  await first.stop("SIGTERM");
  const second = await startServer({ port: first.port, token: "quite-another-token-than-before", more: SMALL });
  await until(page, () => window.nearlight.state === "refused", "the page is refused");
  assert.match(await page.locator("#notice").innerText(), /link/);
  await context.close();
  await second.stop();
});

test("nothing is shown without the right token", async () => {
  const wrong = await openPage(browser);
  await wrong.page.goto(server.url.replace(/token=.*/, "token=wrong"));
  await until(wrong.page, () => window.nearlight?.state === "refused", "a wrong token is refused");
  assert.match(await wrong.page.locator("#notice").innerText(), /not valid/);
  await screenshot(wrong.page, "refused");
  assert.equal(await wrong.page.evaluate(() => document.body.dataset.shown), undefined, "no picture came");
  await wrong.context.close();

  const none = await openPage(browser);
  await none.page.goto(server.url.replace(/#.*/, ""));
  await until(none.page, () => window.nearlight?.state === "unpaired", "a missing token is named");
  await none.context.close();
});

test("a link that names another certificate opens no session", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(`${server.url}&certificate=${"00".repeat(32)}`);
  await until(page, () => window.nearlight?.state === "refused", "the page is refused");
  assert.match(await page.locator("#notice").innerText(), /not the server of this link/);
  await context.close();

  const cut = await openPage(browser);
  await cut.page.goto(`${server.url}&certificate=${"00".repeat(31)}`);
  await until(cut.page, () => window.nearlight?.state === "unpaired", "half of a hash is named");
  await cut.context.close();
});

test("a session without a hello gets no media", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(server.url.replace(/#.*/, ""));
  const heard = await page.evaluate(async () => {
    const { certificate_sha256: hash } = await (await fetch("session.json")).json();
    const value = Uint8Array.from(hash.match(/../g), (pair) => Number.parseInt(pair, 16));
    const transport = new WebTransport(`https://127.0.0.1:${location.port}/nearlight`, { serverCertificateHashes: [{ algorithm: "sha-256", value }] });
    await transport.ready;
    let datagrams = 0;
    const reader = transport.datagrams.readable.getReader();
    const read = async () => {
      for (;;) {
        const { done } = await reader.read();
        if (done) return;
        datagrams += 1;
      }
    };
    await Promise.race([read().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, 1_500))]);
    return datagrams;
  });
  assert.equal(heard, 0);
  await context.close();
});

test("datagrams of a stranger do no harm", async () => {
  const socket = createSocket("udp4");
  for (let size = 0; size < 200; size += 1) {
    socket.send(Buffer.alloc(size * 7, size), server.port, "127.0.0.1");
  }
  const { context, page } = await openLive();
  await until(page, () => (window.nearlight.statistics?.displayed ?? 0) >= 30, "frames are displayed");
  socket.close();
  await context.close();
});

test("an emulated headset sees two eyes that follow its pose", async () => {
  const { context, page, errors } = await openLive(server.url, emulateHeadset);
  await page.locator("#landing-vr").click();
  await until(page, () => window.nearlight.stream?.views === 2, "the server sends stereo");
  await until(page, () => document.querySelector("canvas.headset"), "the headset's canvas is there");
  const marked = await page.evaluate(() => window.nearlight.lastMarker?.frame ?? 0);
  await until(page, (frame) => window.nearlight.lastMarker?.frame > frame + 30, "stereo frames are displayed", { argument: marked });
  const ahead = await eyes(page);
  await screenshot(page, "headset");
  assert.ok(ahead.difference > 1, `the eyes differ by ${ahead.difference} of 255 on average`);
  await page.evaluate(() => {
    const { quaternion } = window.emulated;
    quaternion.set(0, Math.sin(0.4), 0, Math.cos(0.4));
  });
  await untilEyesTurn(page, ahead);
  await screenshot(page, "headset-turned");
  const known = async () => (await window.nearlight.summary()).motion_to_photon_ms.n > 0;
  await until(page, known, "poses come back in the headset's pixels");
  await page.evaluate(() => document.getElementById("enter-vr").click());
  await until(page, () => window.nearlight.stream.views === 1, "the screen comes back");
  assert.deepEqual(errors, []);
  await context.close();
});
