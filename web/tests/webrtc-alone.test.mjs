// The page over WebRTC without a server: a peer connection of the page itself stands in for it.

import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { canvas, openBrowser, openPage, screenshot, servePage, shown, until, untilSays } from "./helper.mjs";

const fakeWhep = path.join(path.dirname(fileURLToPath(import.meta.url)), "fake-whep.js");
let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), servePage()]);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

async function open({ options = "?transport=webrtc", prepare = () => undefined } = {}) {
  const opened = await openPage(browser);
  await opened.page.addInitScript({ path: fakeWhep });
  await opened.page.addInitScript(prepare);
  await opened.page.goto(`${server.url}${options}#token=made-up`);
  return opened;
}

test("what lies below the picture is never shown, whether it is there and noted or not", async () => {
  const { context, page, errors } = await open();
  await until(page, shown(10), "frames are displayed");
  assert.equal(await page.evaluate(() => window.fakeWhep.search), "?marker=strip");
  const seen = new Set();
  const changes = [{}, { notes: false }, { marked: false }, { notes: true }, { notes: false, marked: true }, { marked: false }];
  for (const change of changes) {
    const before = await page.evaluate((change) => {
      Object.assign(window.fakeWhep, change);
      return window.nearlight.statistics.displayed;
    }, change);
    let displayed = before;
    while (displayed < before + 20) {
      seen.add(JSON.stringify((await canvas(page)).size));
      displayed = await page.evaluate(() => window.nearlight.statistics.displayed);
    }
  }
  assert.deepEqual([...seen], ["[640,360]"]);
  assert.deepEqual(errors, []);
  await context.close();
});

test("pictures and notes are joined, timed and counted", async () => {
  const { context, page, errors } = await open();
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  await until(page, shown(60), "60 frames are displayed");
  await until(page, () => window.nearlight.lastMarker?.input > 0, "inputs come back in pixels");
  await until(page, () => window.nearlight.statistics.receivedBps > 0, "what comes in is counted");
  await until(page, () => window.nearlight.statistics.clockErrorUs !== null, "the clocks are kept in step");
  await until(page, async () => (await window.nearlight.summary()).motion_to_photon_ms.n > 0, "motion-to-photon is known");
  const { statistics, summary, fake } = await page.evaluate(async () => ({
    statistics: window.nearlight.statistics,
    summary: await window.nearlight.summary(),
    fake: window.fakeWhep,
  }));
  assert.equal(statistics.transport, "webrtc");
  assert.equal(statistics.unreadableMarkers, 0);
  assert.equal(summary.transport, "webrtc");
  assert.equal(summary.stage_sum_error_us_max, 0);
  assert.ok(summary.motion_to_photon_ms.p50 > 1, JSON.stringify(summary));
  assert.equal(summary.frames.lost, 0, JSON.stringify(summary.frames));
  assert.equal(fake.token, "made-up");
  assert.match(fake.offer, /m=video[^]*a=recvonly/);
  assert.doesNotMatch(fake.offer, /a=candidate/, "gathering waits for the server's helpers");
  const [first] = /m=video \S+ \S+ (\d+)/.exec(fake.offer).slice(1);
  assert.match(fake.offer, new RegExp(`a=rtpmap:${first} H264/90000`), "H.264 is wanted first");
  assert.match(fake.offer, new RegExp(`a=fmtp:${first} .*packetization-mode=1;profile-level-id=42e0`));
  await untilSays(page, "facts", /WebRTC · as asked/);
  const events = (await page.evaluate(() => window.nearlight.events())).trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.ok(events.some(({ event, timeline }) => event === "frame_displayed" && timeline.boundaries.length === 11));
  assert.deepEqual(errors, []);
  await screenshot(page, "webrtc-alone");
  await context.close();
});

test("a browser without a track processor takes pictures off a video element", async () => {
  const { context, page, errors } = await open({
    prepare: () => {
      delete window.MediaStreamTrackProcessor;
    },
  });
  await until(page, shown(30), "30 frames are displayed");
  const { statistics, summary } = await page.evaluate(async () => ({ statistics: window.nearlight.statistics, summary: await window.nearlight.summary() }));
  assert.equal(statistics.unreadableMarkers, 0);
  assert.equal(summary.stage_sum_error_us_max, 0);
  assert.deepEqual(errors, []);
  await context.close();
});

test("frames whose notes are lost are shown all the same", async () => {
  const { context, page } = await open();
  await until(page, shown(20), "frames are displayed");
  await page.evaluate(() => {
    window.fakeWhep.notes = false;
  });
  const { displayed } = await page.evaluate(() => window.nearlight.statistics);
  await until(page, shown(displayed + 30), "frames without notes are displayed");
  assert.equal(await page.evaluate(() => window.nearlight.statistics.lost), 0);
  await context.close();
});

test("where WebTransport does not get through the page turns to WebRTC and says why", async () => {
  const { context, page } = await openPage(browser);
  // A server that describes itself, with a port on which nothing answers datagrams.
  await page.route("**/session.json", (route) => route.fulfill({ json: { certificate_sha256: "00".repeat(32) } }));
  await page.addInitScript({ path: fakeWhep });
  await page.goto(`${server.url}#token=made-up`);
  await until(page, shown(10), "frames are displayed");
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  await untilSays(page, "facts", /WebRTC · WebTransport does not get through/);
  await screenshot(page, "webrtc-fallback");
  await context.close();
});

for (const [status, words] of [
  [401, /not valid/],
  [429, /Too many/],
  [503, /taken/],
]) {
  test(`an offer that is answered with ${status} is refused plainly`, async () => {
    const { context, page } = await openPage(browser);
    await page.addInitScript({ path: fakeWhep });
    await page.addInitScript((status) => {
      window.fakeWhep.status = status;
    }, status);
    await page.goto(`${server.url}?transport=webrtc#token=made-up`);
    await until(page, () => window.nearlight?.state === "refused", "the page is refused");
    assert.match(await page.locator("#notice").innerText(), words);
    assert.match(await page.locator("#notice").innerText(), /the fake will not/);
    await context.close();
  });
}

test("a connection that ends is dialled again, and a page that leaves says so", async () => {
  const { context, page } = await open();
  await until(page, () => window.nearlight?.state === "live", "the page goes live");
  await page.evaluate(() => window.fakeWhep.peers.at(-1).close());
  await until(page, () => window.nearlight.state === "reconnecting", "the page sees that the server is gone");
  await until(page, () => window.nearlight.state === "live" && window.fakeWhep.answers === 2, "the picture resumes");
  await page.evaluate(() => window.dispatchEvent(new Event("pagehide")));
  await until(page, () => window.fakeWhep.deleted >= 1, "the session is given back");
  await context.close();
});
