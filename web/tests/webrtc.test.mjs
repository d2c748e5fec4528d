// The page against the real server over WebRTC: the same session as over WebTransport, and when the page turns to it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  SMALL, emulateHeadset, eyes, hasTurn, inbound, keepConnections, live, openBrowser, openPage, picture, screenshot, shown, startServer, startTurn, until,
  untilEyesTurn, untilPictureChanges, untilSays,
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

const overWebRtc = (url) => url.replace("#", "?transport=webrtc#");

async function openLive(link = overWebRtc(server.url), prepare = async () => undefined) {
  const opened = await openPage(browser);
  await prepare(opened.page);
  await opened.page.goto(link);
  await until(opened.page, live, "the page goes live");
  return opened;
}

test("the same session over WebRTC: pictures, inputs in their pixels, stages, counts, panel, events", async () => {
  const { context, page, errors } = await openLive();
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  await until(page, shown(60), "60 frames are displayed");
  await until(page, () => window.nearlight.lastMarker?.input > 10, "inputs come back in pixels");
  const before = await picture(page);
  await page.evaluate(() => window.nearlight.device({ device: "key", code: "KeyF", pressed: true }));
  await untilPictureChanges(page, before, "a thrown ball is seen");
  await page.evaluate(() => window.nearlight.setPose({ position: [3, 1.6, 5], yaw: 0.4 }));
  await until(page, shown(120), "more frames follow");
  await until(page, () => window.nearlight.statistics.clockErrorUs > 0, "the clocks are kept in step");
  await until(page, async () => (await window.nearlight.summary()).motion_to_photon_ms.n > 0, "motion-to-photon is known");
  const { statistics, stream, summary } = await page.evaluate(async () => ({
    statistics: window.nearlight.statistics,
    stream: window.nearlight.stream,
    summary: await window.nearlight.summary(),
  }));
  assert.deepEqual([stream.width, stream.height, stream.views], [640, 360, 1]);
  assert.ok(statistics.unreadableMarkers <= statistics.displayed / 100, `${statistics.unreadableMarkers} unreadable markers`);
  assert.ok(statistics.receivedBps > 0, JSON.stringify(statistics));
  assert.equal(summary.transport, "webrtc");
  assert.equal(summary.stage_sum_error_us_max, 0);
  assert.ok(summary.motion_to_photon_ms.p50 > 1, JSON.stringify(summary.motion_to_photon_ms));
  // A browser that stalls loses what its own receiver drops; that a clean path loses nothing is asserted in virtual time.
  assert.ok(summary.frames.lost * 2 <= summary.frames.sent, JSON.stringify(summary.frames));
  assert.ok(summary.rate_mbps.target > 0 && summary.rate_mbps.received > 0, JSON.stringify(summary.rate_mbps));
  const events = (await page.evaluate(() => window.nearlight.events())).trimEnd().split("\n").map((line) => JSON.parse(line));
  for (const name of ["frame_displayed", "motion_to_photon", "frame_ready", "clock_estimated", "traffic"]) {
    assert.ok(events.some(({ event }) => event === name), `no event ${name}`);
  }
  await untilSays(page, "facts", /WebRTC · as asked/);
  await untilSays(page, "legend", /render\s+\d+\.\d ms/);
  await screenshot(page, "webrtc-live");
  assert.deepEqual(errors, []);
  await context.close();
});

test("with WebTransport the page does not turn to WebRTC", async () => {
  const { context, page } = await openLive(server.url);
  await until(page, shown(5), "frames are displayed");
  assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "webtransport");
  await context.close();
});

test("the panel changes the transport: a new session at once, from where the user stands, and again after a reload", async () => {
  const alone = await startServer({ token: TOKEN, more: [...SMALL, "--max-clients", "1"] });
  const { context, page, errors } = await openLive(alone.url);
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  await page.evaluate(() => window.nearlight.setPose({ position: [3, 1.6, 5], yaw: 0.4 }));
  for (const transport of ["webtransport", "webrtc", "auto", "webrtc"]) {
    await page.locator("#transport").selectOption(transport);
    const expected = transport === "auto" ? "webtransport" : transport;
    const carried = (name) => window.nearlight.state === "live" && window.nearlight.statistics?.transport === name;
    await until(page, carried, `a session over ${expected}`, { argument: expected });
    await until(page, shown(10), "pictures come");
    assert.equal(new URL(page.url()).searchParams.get("transport"), transport === "auto" ? null : transport);
    assert.equal(await page.locator("#notice").isVisible(), false, `the only place is free again for ${transport}`);
  }
  await screenshot(page, "transport-choice");
  await page.reload();
  await until(page, live, "the page goes live again");
  await until(page, shown(5), "pictures come");
  assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "webrtc");
  assert.equal(await page.locator("#transport").inputValue(), "webrtc");
  // The browser reports answers that say no: the place is not free yet, the session to delete has ended by itself.
  assert.deepEqual(errors.filter((error) => !/responded with a status of (404|503)/.test(error)), []);
  await context.close();
  await alone.stop();
});

test("where WebTransport does not get through the same link shows the world over WebRTC", async () => {
  const blocked = (page) => page.route("**/session.json", (route) => route.fulfill({ json: { certificate_sha256: "00".repeat(32) } }));
  const { context, page } = await openLive(server.url, blocked);
  await until(page, shown(30), "frames are displayed");
  assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "webrtc");
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  await untilSays(page, "facts", /does not get through/);
  await context.close();
});

/** Changes the addresses that the server names in its answer. */
function withCandidates(change) {
  const pass = async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const response = await route.fetch();
    const lines = (await response.text()).split("\r\n").flatMap((line) => (line.startsWith("a=candidate:") ? change(line) : [line]));
    const { "content-length": _, ...headers } = response.headers();
    return route.fulfill({ status: response.status(), headers, body: lines.join("\r\n") });
  };
  // A page that is closed meanwhile wants no answer any more.
  return (page) => page.route("**/whep?*", (route) => pass(route).catch(() => undefined));
}

test("where no UDP gets through the pictures come over TCP", async () => {
  const { context, page, errors } = await openLive(overWebRtc(server.url), withCandidates((line) => (/ tcp /.test(line) ? [line] : [])));
  await until(page, shown(60), "60 frames are displayed");
  await until(page, () => window.nearlight.statistics.clockErrorUs > 0, "the clocks are kept in step");
  const { statistics } = await page.evaluate(() => ({ statistics: window.nearlight.statistics }));
  assert.ok(statistics.lost * 4 <= statistics.displayed, JSON.stringify(statistics));
  await page.locator("#enter").click();
  await page.keyboard.press("KeyH");
  await untilSays(page, "facts", /WebRTC over TCP/);
  assert.deepEqual(errors, []);
  await context.close();
});

for (const carriage of ["udp", "tcp"]) {
  const skip = hasTurn ? false : "coturn is not installed (apt-get install coturn)";
  test(`where only a TURN server gets through, the pictures come through it, over ${carriage}`, { skip }, async () => {
    const turn = await startTurn();
    const relayed = await startServer({ token: TOKEN, more: [...SMALL, "--ice-server", `${turn.url}?transport=${carriage}`] });
    const onlyRelays = async (page) => {
      await keepConnections(page);
      await page.addInitScript(() => {
        const configure = RTCPeerConnection.prototype.setConfiguration;
        RTCPeerConnection.prototype.setConfiguration = function (configuration) {
          configure.call(this, { ...configuration, iceTransportPolicy: "relay" });
        };
      });
    };
    const { context, page, errors } = await openLive(overWebRtc(relayed.url), onlyRelays);
    await until(page, shown(60), "60 frames are displayed");
    await until(page, () => window.nearlight.lastMarker?.input > 10, "inputs come back in pixels");
    const local = await page.evaluate(async () => {
      const all = [...(await window.connections.at(-1).getStats()).values()];
      const transport = all.find(({ type }) => type === "transport");
      const pair = all.find(({ id }) => id === transport.selectedCandidatePairId);
      const { candidateType, relayProtocol } = all.find(({ id }) => id === pair.localCandidateId);
      return [candidateType, relayProtocol];
    });
    assert.deepEqual(local, ["relay", carriage]);
    assert.deepEqual(errors, []);
    await context.close();
    await Promise.all([relayed.stop(), turn.stop()]);
  });
}

test("where nothing gets through the page says which ports and what to do", async () => {
  const { context, page } = await openPage(browser);
  // Addresses for documentation, where nobody is (RFC 5737).
  await withCandidates((line) => [line.replace(/ (\S+) (\d+) typ host/, " 192.0.2.1 $2 typ host")])(page);
  await page.goto(overWebRtc(server.url));
  await until(page, () => window.nearlight?.state === "reconnecting", "the page gives up");
  const notice = await page.locator("#notice").innerText();
  assert.match(notice, /neither UDP port \d+ nor TCP port \d+/);
  assert.match(notice, new RegExp(`TCP port ${server.port}`));
  assert.match(notice, /--ice-server turn:/);
  await screenshot(page, "webrtc-blocked");
  await context.close();
});

test("a browser without a track processor shows the world as well", async () => {
  const prepare = (page) => page.addInitScript(() => delete window.MediaStreamTrackProcessor);
  const { context, page, errors } = await openLive(overWebRtc(server.url), prepare);
  await until(page, shown(30), "frames are displayed");
  const { statistics } = await page.evaluate(() => ({ statistics: window.nearlight.statistics }));
  assert.ok(statistics.unreadableMarkers <= 1, JSON.stringify(statistics));
  assert.deepEqual(errors, []);
  await context.close();
});

test("VP8 is played where the server has nothing else", async () => {
  const own = await startServer({ more: [...SMALL, "--codec", "vp8"] });
  const { context, page } = await openLive(overWebRtc(own.url));
  await until(page, shown(30), "frames are displayed");
  assert.equal(await page.evaluate(() => window.nearlight.stream.codec), "vp8");
  await context.close();
  await own.stop();
});

test("losses are retransmitted and the picture goes on", async () => {
  const own = await startServer({ more: [...SMALL, "--impair", "loss=2%"] });
  const { context, page } = await openLive(overWebRtc(own.url));
  await until(page, shown(80), "80 frames are displayed", { timeout: 60_000 });
  await until(page, () => window.nearlight.statistics.retransmitted > 0, "losses are retransmitted");
  const { statistics } = await page.evaluate(() => ({ statistics: window.nearlight.statistics }));
  assert.ok(statistics.lost * 4 <= statistics.displayed, JSON.stringify(statistics));
  await context.close();
  await own.stop();
});

/** Keeps offer and answer in `said`, and takes FlexFEC out of the offer unless the browser may take it. */
function hearOffers(said, takes) {
  const without = (offer) => {
    const types = [...offer.matchAll(/^a=rtpmap:(\d+) flexfec/gm)].map(([, type]) => type);
    const left = offer.split("\r\n").filter((line) => !types.some((type) => new RegExp(`^a=(rtpmap|fmtp|rtcp-fb):${type} `).test(line)));
    const formats = (line) => line.split(" ").filter((word, place) => place < 3 || !types.includes(word)).join(" ");
    return left.map((line) => (line.startsWith("m=video") ? formats(line) : line)).join("\r\n");
  };
  const pass = async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    said.offer = route.request().postData();
    const response = await route.fetch({ postData: takes ? said.offer : without(said.offer) });
    said.answer = await response.text();
    return route.fulfill({ response, body: said.answer });
  };
  return async (page) => {
    await keepConnections(page);
    await page.route("**/whep?*", (route) => pass(route).catch(() => undefined));
  };
}

test("repairs come as FlexFEC where the browser takes it, and what they mend is not sent again", async () => {
  const own = await startServer({ more: [...SMALL, "--fec", "fixed:20", "--impair", "loss=3%,delay=15ms"] });
  const play = async (takes) => {
    const said = {};
    const { context, page } = await openLive(overWebRtc(own.url), hearOffers(said, takes));
    assert.match(said.offer, /^a=rtpmap:\d+ flexfec-03\/90000/m, "this browser takes repairs");
    assert.equal(/^a=ssrc-group:FEC-FR \d+ \d+/m.test(said.answer), takes, said.answer);
    await until(page, shown(200), "200 frames are displayed", { timeout: 60_000 });
    const { statistics } = await page.evaluate(() => ({ statistics: window.nearlight.statistics }));
    const counted = await inbound(page);
    await page.locator("#enter").click();
    await page.keyboard.press("KeyH");
    await untilSays(page, "facts", takes ? /fec fixed:20/ : /fec none/);
    await context.close();
    return { statistics, counted };
  };
  const mended = await play(true);
  const plain = await play(false);
  const told = JSON.stringify({ mended, plain });
  assert.ok(mended.counted.fecPacketsReceived > 150 && mended.statistics.repairs > 150, told);
  assert.ok(mended.statistics.redundancy > plain.statistics.redundancy, told);
  assert.deepEqual([plain.counted.fecPacketsReceived ?? 0, plain.statistics.repairs], [0, 0], told);
  assert.deepEqual([mended.statistics.keyFrames, plain.statistics.keyFrames], [0, 0], told);
  assert.ok(mended.counted.retransmittedPacketsReceived * 2 < plain.counted.retransmittedPacketsReceived, told);
  await own.stop();
});

test("after a crash and a restart of the server the picture resumes by itself", async () => {
  const first = await startServer({ token: TOKEN, more: SMALL });
  const { context, page } = await openLive(overWebRtc(first.url));
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  await first.stop("SIGKILL");
  await until(page, () => window.nearlight.state === "reconnecting", "the page tries again");
  const second = await startServer({ port: first.port, token: TOKEN, more: SMALL });
  await until(page, live, "the picture resumes");
  assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "webrtc");
  assert.ok(await page.evaluate(() => window.sameDocument), "the page was not loaded again");
  await context.close();
  await second.stop();
});

test("a wrong token is refused plainly", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(overWebRtc(server.url).replace(/token=.*/, "token=wrong"));
  await until(page, () => window.nearlight?.state === "refused", "a wrong token is refused");
  assert.match(await page.locator("#notice").innerText(), /not valid/);
  await context.close();
});

test("an emulated headset sees two eyes that follow its pose", async () => {
  const { context, page, errors } = await openLive(overWebRtc(server.url), emulateHeadset);
  await page.locator("#landing-vr").click();
  await until(page, () => window.nearlight.stream?.views === 2, "the server sends stereo");
  await until(page, () => document.querySelector("canvas.headset"), "the headset's canvas is there");
  const marked = await page.evaluate(() => window.nearlight.lastMarker?.frame ?? 0);
  await until(page, (frame) => window.nearlight.lastMarker?.frame > frame + 30, "stereo frames are displayed", { argument: marked });
  const ahead = await eyes(page);
  assert.ok(ahead.difference > 1, `the eyes differ by ${ahead.difference} of 255 on average`);
  await page.evaluate(() => window.emulated.quaternion.set(0, Math.sin(0.4), 0, Math.cos(0.4)));
  await untilEyesTurn(page, ahead);
  await screenshot(page, "webrtc-headset");
  assert.deepEqual(errors, []);
  await context.close();
});
