// Unity Render Streaming's protocol against the real server, with a client that behaves as the stock one does.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { distance, eventually, openBrowser, openPage, screenshot, startServer, until as untilTrue } from "./helper.mjs";

const TOKEN = "a-token-for-the-unity-tests";
const SMALL = ["--size", "640x360", "--fps", "30"];
const CLIENT = await readFile(path.join(path.dirname(fileURLToPath(import.meta.url)), "unity-client.js"), "utf8");

let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), startServer({ token: TOKEN, more: [...SMALL, "--unity-render-streaming"] })]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** A page of the server's origin that holds nothing. */
async function openBlank(port) {
  // An answer that is not a page forbids scripts to connect; the pages of Unity's own client come with a policy that lets them.
  const opened = await openPage(browser, { bypassCSP: true });
  await opened.page.goto(`http://127.0.0.1:${port}/config`);
  return opened;
}

/** A page of the server's origin that holds the client and nothing else. */
async function openClient(options = {}, { port } = server) {
  const opened = await openBlank(port);
  await opened.page.evaluate(CLIENT);
  await opened.page.evaluate(async (settings) => {
    window.client = new window.unity.Client(settings);
    await window.client.start();
  }, options);
  return opened;
}

function whatTheClientKnows() {
  const { heard, failures, peer, frames } = window.client;
  return JSON.stringify({ heard, failures, state: peer?.connectionState, signalling: peer?.signalingState, frames });
}

const until = (page, probe, what) => untilTrue(page, probe, what, { knowledge: whatTheClientKnows });

/** So many packets of sound come within 30 s. */
async function hears(page, wanted) {
  const packets = await eventually(() => page.evaluate(() => window.client.soundPackets()), (packets) => packets >= wanted);
  assert.ok(packets >= wanted, `sound comes: ${packets} packets of ${wanted}`);
}

async function play(page) {
  await until(page, () => window.client.frames >= 30, "30 frames are decoded");
  await page.evaluate(() => window.client.ready);
}

/** How much what the page's client shows has changed since `act`, in grey levels: once that is `enough`, else at last. */
async function change(page, act, enough) {
  const earlier = await page.evaluate(() => window.client.picture());
  await page.evaluate(act);
  return eventually(async () => distance(earlier, await page.evaluate(() => window.client.picture())), (now) => now > enough);
}

/** How much it changes by itself within a second and a half, in grey levels. */
async function ownChange(page) {
  const earlier = await page.evaluate(() => window.client.picture());
  await page.waitForTimeout(1_500);
  return distance(earlier, await page.evaluate(() => window.client.picture()));
}

async function followsItsUser(page) {
  const alone = await ownChange(page);
  const turn = () => {
    for (let step = 0; step < 20; step += 1) window.client.mouse({ x: 320, y: 180, dx: 30 });
  };
  const turned = await change(page, turn, Math.max(alone * 2, 6));
  assert.ok(turned > alone * 2 && turned > 6, `a mouse that moves turns the view: ${turned} grey levels, ${alone} without`);
  const back = () => {
    for (let step = 0; step < 20; step += 1) window.client.mouse({ dx: -30 });
  };
  await change(page, back, Math.max(alone * 2, 6));
  const walked = await change(page, () => window.client.keys("KeyW", "ShiftLeft"), Math.max(alone * 1.5, 3));
  await page.evaluate(() => window.client.keys());
  assert.ok(walked > alone * 1.5 && walked > 3, `keys walk: ${walked} grey levels, ${alone} without`);
}

test("a stock client connects over WebSocket, plays and moves the world", async () => {
  const { context, page } = await openClient();
  await play(page);
  await followsItsUser(page);
  const { heard, failures, polite, codec } = await page.evaluate(async () => {
    const { heard, failures, polite } = window.client;
    return { heard, failures, polite, codec: await window.client.codecInUse() };
  });
  assert.deepEqual(heard.slice(0, 3), ["connect", "answer", "offer"]);
  assert.deepEqual([failures, polite, codec], [[], true, "video/H264"]);
  await hears(page, 100);
  await screenshot(page, "unity");
  await context.close();
});

test("a client that polls over HTTP plays as well", async () => {
  const { context, page } = await openClient({ polling: true });
  await play(page);
  await followsItsUser(page);
  await hears(page, 100);
  assert.deepEqual(await page.evaluate(() => window.client.failures), []);
  await page.evaluate(() => window.client.close());
  await context.close();
});

test("what never happens is named, with what the page knows", async () => {
  const { context, page } = await openPage(browser);
  const [timeout, knowledge] = [100, () => "nothing"];
  await assert.rejects(untilTrue(page, async () => false, "a promise that is kept", { timeout, knowledge }), /never happened.*a promise.*nothing/);
  await assert.rejects(untilTrue(page, () => nowhere, "a name that is there", { timeout, knowledge }), /nowhere is not defined/);
  await context.close();
});

test("the codec is the one that the browser's user prefers", async () => {
  const { context, page } = await openClient({ codec: "video/VP8" });
  await play(page);
  assert.equal(await page.evaluate(() => window.client.codecInUse()), "video/VP8");
  await context.close();
});

test("an offer that is repeated is answered again and disturbs nothing", async () => {
  const { context, page } = await openClient();
  const first = await page.evaluate(async () => {
    const { client } = window;
    // The connection's own description grows with each address that is found.
    while (!client.offered) await new Promise((resolve) => setTimeout(resolve, 1));
    return client.offered;
  });
  await play(page);
  const before = await page.evaluate((sdp) => {
    const { client } = window;
    const answers = client.heard.filter((type) => type === "answer").length;
    // The client has its answer: one more must not reach its connection.
    client.describe = async () => undefined;
    for (let times = 0; times < 20; times += 1) client.signalling.describe("offer", client.connectionId, sdp);
    return { answers, frames: client.frames };
  }, first);
  const repeated = ({ answers, frames }) => {
    const heard = window.client.heard.filter((type) => type === "answer").length;
    return heard >= answers + 20 && window.client.frames > frames + 10;
  };
  await untilTrue(page, repeated, "20 answers come, and the picture goes on", { argument: before, knowledge: whatTheClientKnows });
  assert.equal(await page.evaluate(() => window.client.heard.filter((type) => type === "answer").length), before.answers + 20);
  await context.close();
});

test("malformed and oversized messages are answered with an error, then the socket is closed", async () => {
  const { context, page } = await openBlank(server.port);
  const heard = await page.evaluate(async () => {
    const socket = new WebSocket(`ws://${location.host}`);
    const messages = [];
    socket.onmessage = ({ data }) => messages.push(JSON.parse(data).type);
    const closed = new Promise((resolve) => (socket.onclose = resolve));
    await new Promise((resolve) => (socket.onopen = resolve));
    for (const text of ["{", "7", '{"type":"offer"}', '{"type":"offer","from":"a","data":{"sdp":"v=0"}}']) socket.send(text);
    socket.send(new Uint8Array(10));
    for (let times = 0; times < 30; times += 1) socket.send("no message");
    await closed;
    const large = new WebSocket(`ws://${location.host}`);
    const told = new Promise((resolve) => (large.onmessage = ({ data }) => resolve(JSON.parse(data).type)));
    const gone = new Promise((resolve) => (large.onclose = resolve));
    await new Promise((resolve) => (large.onopen = resolve));
    large.send("a".repeat(100_000));
    messages.push(await told);
    large.send("a".repeat(1_000_000));
    await gone;
    return messages;
  });
  assert.deepEqual(new Set(heard), new Set(["error"]), JSON.stringify(heard));
  assert.equal(heard.length, 17, "sixteen on one socket, one on the other");
  await context.close();
});

test("without the option nobody is let in, and with a token required only who has it", async () => {
  const [off, strict] = await Promise.all([
    startServer({ token: TOKEN, more: SMALL }),
    startServer({ token: TOKEN, more: [...SMALL, "--unity-render-streaming", "--unity-token"] }),
  ]);
  const status = async (port, what, method = "GET") => (await fetch(`http://127.0.0.1:${port}${what}`, { method })).status;
  assert.equal(await status(off.port, "/config"), 404);
  assert.ok((await status(off.port, "/signaling", "PUT")) >= 404);
  assert.equal(await status(strict.port, "/signaling", "PUT"), 401);
  assert.equal(await status(strict.port, "/signaling?token=wrong", "PUT"), 401);
  const { context, page } = await openClient({ query: `?token=${TOKEN}` }, strict);
  await play(page);
  await context.close();
  const none = await openBlank(strict.port);
  const refused = await none.page.evaluate(() => new Promise((resolve) => {
    const socket = new WebSocket(`ws://${location.host}`);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  }));
  assert.equal(refused, "refused");
  await none.context.close();
  await Promise.all([off.stop(), strict.stop()]);
});

test("in stereo each half of the picture is what one eye sees", async () => {
  const stereo = await startServer({ token: TOKEN, more: [...SMALL, "--unity-render-streaming", "--stereo"] });
  /** How much the halves of what a client of this server shows differ, in grey levels, and how large the picture is. */
  const halves = async (where) => {
    const { context, page } = await openClient({}, where);
    await play(page);
    const seen = await page.evaluate(() => {
      const { video } = window.client;
      const { videoWidth: width, videoHeight: height } = video;
      const half = (from) => {
        const small = new OffscreenCanvas(64, 64).getContext("2d");
        small.drawImage(video, from, 0, width / 2, height, 0, 0, 64, 64);
        const { data } = small.getImageData(0, 0, 64, 64);
        return Array.from({ length: 64 * 64 }, (_, index) => (data[index * 4] + data[index * 4 + 1] + data[index * 4 + 2]) / 3);
      };
      return { size: [width, height], left: half(0), right: half(width / 2) };
    });
    await context.close();
    return { size: seen.size, difference: distance(seen.left, seen.right) };
  };
  const [one, two] = [await halves(server), await halves(stereo)];
  await stereo.stop();
  assert.deepEqual(two.size, [640, 360]);
  assert.ok(two.difference > 0.2 && two.difference < one.difference / 2, `${two.difference} grey levels apart, ${one.difference} in a picture of one`);
});
