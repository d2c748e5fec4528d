// Pages in one room: for some the server renders, others render the world themselves.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, afterEach, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { SMALL, emulateHeadset, eyes, live, openBrowser, openPage, screenshot, shown, startServer, until, untilSays } from "./helper.mjs";

const TOKEN = "a-token-for-the-page-tests";
/** The yellow ball on the floor, and the pointer's numbers with the left button down. */
const BALL = 3;
const BALL_POSITION = [-0.75, 0.26, -4.3];
const PRESSED = { device: "pointer", values: [0.5, 0.5, 1, 0, 0, 0, 0, 1] };
/** Where the users stand, at either side of the ball. */
const NEAR_BALL = [-0.75, 1.6, -1.8];
const FAR_FROM_BALL = [-0.75, 1.6, -6.8];

/** What the browser's microphone hears. */
const TONE_HERTZ = 440;

let browser;
let server;
let folder;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "nearlight-room-"));
  const tone = path.join(folder, "tone.wav");
  await writeFile(tone, toneFile());
  const microphone = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", `--use-file-for-fake-audio-capture=${tone}`];
  [browser, server] = await Promise.all([openBrowser(...microphone), startServer({ token: TOKEN, more: SMALL })]);
});

// Pages that a failed test leaves behind would keep the machine from the next one.
afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));

after(async () => {
  await browser?.close();
  await server?.stop();
  await rm(folder, { recursive: true });
});

/** Two seconds of a tone that comes and goes four times a second, as syllables do: browsers take a steady one for noise. */
function toneFile() {
  const [rate, seconds] = [48_000, 2];
  const samples = Int16Array.from({ length: rate * seconds }, (_, index) => {
    const at = index / rate;
    return (at * 4) % 1 < 0.7 ? 12_000 * Math.sin(2 * Math.PI * TONE_HERTZ * at) : 0;
  });
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + samples.byteLength, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(samples.byteLength, 40);
  return Buffer.concat([head, Buffer.from(samples.buffer)]);
}

/** A user at `position` who looks at `target`. */
async function stand(page, position, target) {
  const [x, y, z] = target.map((value, axis) => value - position[axis]);
  const pose = { position, yaw: Math.atan2(-x, -z), pitch: Math.atan2(y, Math.hypot(x, z)) };
  await page.evaluate((pose) => window.nearlight.setPose(pose), pose);
}

/** Waits until the ball is held by the member `owner`, as this page knows it. */
function untilHeld(page, owner, what) {
  const held = ({ ball, owner }) => window.nearlight.room?.objects.find(({ object }) => object === ball)?.owner === owner;
  return until(page, held, what, { argument: { ball: BALL, owner } });
}

/** Where the ball is, as a page that renders knows it. */
const ballAt = (page) => page.evaluate((ball) => window.nearlight.room.objects.find(({ object }) => object === ball).position, BALL);

const rendersItself = () => document.body.dataset.rendering === "local" && window.nearlight.room?.people.length === 2;

/** Browsers without graphics cards render slowly, and these tests have several that do. */
const SMALL_WINDOW = { viewport: { width: 640, height: 360 } };

/** A page with the user `name` that renders the world itself, as a member over WebTransport unless `transport` is another, of `from`. */
async function openLocal(name, prepare = async () => undefined, transport = "webtransport", from = server) {
  const opened = await openPage(browser, SMALL_WINDOW);
  await prepare(opened.page);
  await opened.page.addInitScript((name) => localStorage.setItem("nearlight-name", name), name);
  await opened.page.goto(from.url.replace("#", transport === "webtransport" ? "?rendering=local#" : `?rendering=local&transport=${transport}#`));
  await opened.page.locator("#enter").click();
  await until(opened.page, () => document.body.dataset.rendering === "local" && window.nearlight.room?.you > 0, `${name}'s page renders the world`);
  assert.equal(await opened.page.evaluate(() => window.nearlight.room.transport), transport);
  return opened;
}

/** A page for which the server renders, and in whose start page its user types `name`. */
async function openRemote(name = "") {
  const opened = await openPage(browser, SMALL_WINDOW);
  await opened.page.goto(server.url);
  await until(opened.page, live, "the server's pictures come");
  await opened.page.locator("#user-name").fill(name);
  await opened.page.locator("#enter").click();
  return opened;
}

/** Waits until the page knows these names, and returns who has them. */
async function untilKnows(page, ...names) {
  const known = (names) => names.every((name) => window.nearlight.room?.people.some((person) => person.name === name));
  await until(page, known, `it knows of ${names}`, { argument: names });
  const { people } = await page.evaluate(() => window.nearlight.room);
  return Object.fromEntries(people.map(({ name, id }) => [name, id]));
}

/** Waits until the page knows these people, by their names, and no others. */
function untilKnowsSame(page, known) {
  const same = (known) => {
    const people = window.nearlight.room?.people ?? [];
    return people.length === Object.keys(known).length && people.every(({ name, id }) => known[name] === id);
  };
  return until(page, same, `it knows ${Object.keys(known)}`, { argument: known });
}

/** The page shows pictures that the server rendered from now on. */
async function untilMorePictures(page) {
  const displayed = await page.evaluate(() => window.nearlight.statistics.displayed);
  await until(page, shown(displayed + 10), "pictures go on");
}

test("a page that is rendered for and one that renders the world itself see each other and hand a ball over", async () => {
  const [remote, local] = await Promise.all([openPage(browser), openPage(browser)]);
  await remote.page.goto(server.url);
  await until(remote.page, live, "the server's pictures come");
  await remote.page.locator("#enter").click();
  await local.page.addInitScript(() => localStorage.setItem("nearlight-name", "Ada"));
  await local.page.goto(server.url.replace("#", "?rendering=local#"));
  await local.page.locator("#enter").click();
  await until(local.page, rendersItself, "the page renders the world, and both are in the room");
  const { you, people } = await local.page.evaluate(() => window.nearlight.room);
  const other = people.find(({ id }) => id !== you);
  assert.match(other.name, /^Visitor \d+$/);
  // An entry has no text before it has been in a picture of the page.
  await untilSays(local.page, "people", /Ada · host · you/);

  await stand(local.page, NEAR_BALL, FAR_FROM_BALL);
  await stand(remote.page, FAR_FROM_BALL, NEAR_BALL);
  await untilMorePictures(remote.page);
  await screenshot(local.page, "room-local");
  await screenshot(remote.page, "room-remote");

  await stand(local.page, NEAR_BALL, BALL_POSITION);
  await local.page.evaluate((input) => window.nearlight.device(input), PRESSED);
  await untilHeld(local.page, you, "the page that renders holds the ball");
  await stand(local.page, NEAR_BALL, FAR_FROM_BALL);
  await untilMorePictures(remote.page);
  await screenshot(local.page, "room-local-holds");
  await screenshot(remote.page, "room-remote-sees");
  const handOver = (pressed) => window.nearlight.device({ device: "key", code: "KeyG", pressed });
  await local.page.evaluate(handOver, true);
  await untilHeld(local.page, other.id, "the page that is rendered for holds it");
  await untilMorePictures(remote.page);
  await screenshot(remote.page, "room-remote-holds");
  await screenshot(local.page, "room-local-sees");
  for (const pressed of [true, false]) await remote.page.evaluate(handOver, pressed);
  await untilHeld(local.page, you, "the page that renders has it again");

  // The same user is rendered for, and renders again.
  await local.page.keyboard.press("KeyH");
  // On a busy machine a handshake may take so long that another transport is used.
  const namesTransport = () => document.getElementById("facts").innerText.toLowerCase().includes(window.nearlight.room.transport);
  await until(local.page, namesTransport, "the panel names the member's transport");
  await screenshot(local.page, "room-local-panel");
  await local.page.locator("#rendering").selectOption("server");
  const streamed = () => window.nearlight.state === "live" && document.body.dataset.rendering === undefined;
  await until(local.page, streamed, "the server's pictures come after the choice");
  await untilMorePictures(local.page);
  await screenshot(local.page, "room-local-to-server");
  await local.page.locator("#rendering").selectOption("local");
  await until(local.page, rendersItself, "it renders again");
  await remote.context.close();
  await until(local.page, () => window.nearlight.room?.people.length === 1, "who leaves is gone");
  await untilSays(local.page, "toast", /Visitor \d+ left/);
  assert.deepEqual([...remote.errors, ...local.errors], []);
  await local.context.close();
});

/** Every two of the pages' users stand apart, and face the plaza's fountain. */
async function assertApart(pages) {
  const heads = await Promise.all(pages.map(({ page }) => page.evaluate(() => window.nearlight.head)));
  for (const [index, { position, orientation: [, y, , w] }] of heads.entries()) {
    for (const other of heads.slice(0, index)) {
      const apart = Math.hypot(position[0] - other.position[0], position[2] - other.position[2]);
      assert.ok(apart > 1.2, `two stand ${apart} m from each other: ${JSON.stringify(heads)}`);
    }
    const yaw = 2 * Math.atan2(y, w);
    const ahead = [-Math.sin(yaw), -Math.cos(yaw)];
    const towards = [-position[0], -9 - position[2]];
    assert.ok((ahead[0] * towards[0] + ahead[1] * towards[1]) / Math.hypot(...towards) > 0.99, `who stands at ${position} looks elsewhere`);
  }
  return heads;
}

test("newcomers stand apart and face the fountain, whoever renders for them, and keep name and place when that changes", async () => {
  const [first, second] = [await openRemote("Ada"), await openRemote("Ada")];
  const third = await openLocal("Bea");
  await untilKnows(third.page, "Ada", "Ada (2)", "Bea");
  const [start, other] = await assertApart([first, second, third]);
  assert.deepEqual([start.position[0], start.position[2]], [0, 0], "the first one has the view of the start");
  for (const [name, { page }] of Object.entries({ first, second, third })) {
    if (page !== third.page) await untilMorePictures(page);
    await screenshot(page, `room-start-${name}`);
  }
  assert.deepEqual(third.errors, []);
  await third.context.close();

  await second.page.keyboard.press("KeyH");
  await second.page.locator("#rendering").selectOption("local");
  await until(second.page, () => document.body.dataset.rendering === "local", "it renders the world itself");
  await delay(500);
  assert.deepEqual((await second.page.evaluate(() => window.nearlight.head)).position, other.position);
  const { you, people } = await second.page.evaluate(() => window.nearlight.room);
  assert.equal(people.find(({ id }) => id === you).name, "Ada (2)");
  for (const { context, errors } of [first, second]) {
    assert.deepEqual(errors, []);
    await context.close();
  }
});

test("pages that come to a room which no server renders stand apart too", async () => {
  const open = async () => {
    const opened = await openPage(browser, SMALL_WINDOW);
    await opened.page.goto(server.url.replace("#", "?room=den&rendering=local#"));
    return opened;
  };
  const pages = await Promise.all([open(), open()]);
  const both = () => document.body.dataset.rendering === "local" && window.nearlight.room?.people.length === 2;
  for (const { page } of pages) await until(page, both, "two are in the room");
  // Whoever came later makes room once the other's body is known.
  const distance = async () => {
    const [one, other] = await Promise.all(pages.map(({ page }) => page.evaluate(() => window.nearlight.head.position)));
    return Math.hypot(one[0] - other[0], one[2] - other[2]);
  };
  for (let tries = 0; tries < 50 && (await distance()) < 1.2; tries += 1) await delay(200);
  await assertApart(pages);
  await screenshot(pages[1].page, "room-start-den");
  for (const { context, errors } of pages) {
    assert.deepEqual(errors, []);
    await context.close();
  }
});

/** The emulator takes a transform for a matrix, and so leaves the offsets of reference spaces out. */
function keepOffsets() {
  const { getOffsetReferenceSpace } = XRReferenceSpace.prototype;
  XRReferenceSpace.prototype.getOffsetReferenceSpace = function (offset) {
    return getOffsetReferenceSpace.call(this, offset.matrix);
  };
}

/** Points the headset's right hand from `hand` to `target`, both in the room of a headset whose user stands at the origin and looks along -z. */
function aim(page, hand, target) {
  return page.evaluate(({ hand, target }) => {
    const [x, y, z] = target.map((value, axis) => value - hand[axis]);
    const [yaw, pitch] = [Math.atan2(-x, -z) / 2, Math.atan2(y, Math.hypot(x, z)) / 2];
    const { right } = window.emulated.controllers;
    right.position.set(...hand);
    right.quaternion.set(Math.cos(yaw) * Math.sin(pitch), Math.sin(yaw) * Math.cos(pitch), -Math.sin(yaw) * Math.sin(pitch), Math.cos(yaw) * Math.cos(pitch));
  }, { hand, target });
}

test("a headset in a world that its page renders takes and throws, and three pages hand a ball on", async () => {
  const headset = await openLocal("Grace", async (page) => {
    await emulateHeadset(page);
    await page.addInitScript(keepOffsets);
  });
  const [local, remote] = [await openLocal("Ada", undefined, "websocket"), await openRemote()];
  const press = (button, value) => headset.page.evaluate(([button, value]) => window.emulated.controllers.right.updateButtonValue(button, value), [button, value]);
  // The headset's room begins where its user stood at the screen.
  await stand(headset.page, NEAR_BALL, FAR_FROM_BALL);
  await stand(local.page, FAR_FROM_BALL, NEAR_BALL);
  await stand(remote.page, [1.6, 1.6, -4.3], BALL_POSITION);
  await headset.page.locator("#enter-vr").evaluate((button) => button.click());
  await until(headset.page, () => document.querySelector("canvas.headset") && document.body.hasAttribute("data-immersive"), "the session begins");
  const you = await headset.page.evaluate(() => window.nearlight.room.you);
  await until(local.page, () => window.nearlight.room.people.length === 3, "three are there");
  const known = await untilKnows(local.page, "Grace", "Ada");
  const visitor = Object.keys(known).find((name) => /^Visitor/.test(name));
  for (const { page } of [headset, local, remote]) await untilKnowsSame(page, known);

  // Everything is put back, so that the ball lies 2.5 m ahead of the middle of the headset's room.
  for (const pressed of [true, false]) await remote.page.evaluate((pressed) => window.nearlight.device({ device: "key", code: "KeyR", pressed }), pressed);
  const isBack = ({ ball, at }) => {
    const { position } = window.nearlight.room.objects.find(({ object }) => object === ball);
    return Math.hypot(...position.map((value, axis) => value - at[axis])) < 0.05;
  };
  await until(headset.page, isBack, "the ball is where it was at first", { argument: { ball: BALL, at: BALL_POSITION } });
  const ball = [0, 0.26, -2.5];
  await aim(headset.page, [0.2, 1.4, -0.3], ball);
  await press("squeeze", 1);
  await untilHeld(headset.page, you, "the headset's user holds the ball");
  assert.ok((await eyes(headset.page)).difference > 0.5, "the eyes see different pictures");
  await aim(headset.page, [0.2, 1.4, -0.3], [0.2, 1.5, -2]);
  await until(local.page, (ball) => window.nearlight.room.objects.find(({ object }) => object === ball).position[1] > 1.2, "others see it rise", { argument: BALL });
  await headset.page.evaluate(() => window.emulated.position.set(0.3, 1.7, 0));
  await untilMorePictures(remote.page);
  for (const [name, { page }] of Object.entries({ headset, local, remote })) await screenshot(page, `room-three-${name}`);

  // Y hands it over to whom the head faces, and G again.
  await press("b-button", 1);
  await untilHeld(local.page, known.Ada, "the page that renders has it");
  await press("b-button", 0);
  await press("squeeze", 0);
  await stand(local.page, FAR_FROM_BALL, [1.6, 1.6, -4.3]);
  const handOver = (pressed) => window.nearlight.device({ device: "key", code: "KeyG", pressed });
  await local.page.evaluate(handOver, true);
  for (const { page } of [headset, local]) await untilHeld(page, known[visitor], "the page that is rendered for has it");
  await untilMorePictures(remote.page);
  for (const [name, { page }] of Object.entries({ headset, local, remote })) await screenshot(page, `room-three-${name}-handed`);

  // A throws a ball that lay out of sight.
  const flying = () => window.nearlight.room.objects.filter(({ object, position }) => object > 12 && position[1] > -10).length;
  await press("a-button", 1);
  await until(local.page, flying, "others see a ball thrown");
  await headset.page.evaluate(() => document.getElementById("enter-vr").click());
  await until(headset.page, () => !document.body.hasAttribute("data-immersive") && !document.querySelector("canvas.headset"), "the screen comes back");
  await screenshot(headset.page, "room-three-flat-again");
  for (const { context, errors } of [headset, local, remote]) {
    assert.deepEqual(errors, []);
    await context.close();
  }
});

/** The pitch of what the page's user hears of others in hertz: by the median of the times between its rises through zero, of which a
 *  gap disturbs one. 0 where it is silent. */
function pitch() {
  const samples = window.nearlight.heard();
  if (!samples || Math.hypot(...samples) / Math.sqrt(samples.length) < 0.005) return 0;
  const rises = [...samples.keys()].filter((index) => index > 0 && samples[index - 1] < 0 && samples[index] >= 0);
  const periods = rises.slice(1).map((at, index) => at - rises[index]).sort((one, other) => one - other);
  return periods.length > 3 ? 48_000 / periods[periods.length >> 1] : 0;
}

/** Waits for half a second without any sound of others, which is longer than between the tone's syllables. */
async function untilSilent(page, what) {
  const silent = await page.evaluate(async () => {
    let since = performance.now();
    for (const end = since + 15_000; performance.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
      if (window.nearlight.heard().some((sample) => Math.abs(sample) > 1e-3)) since = performance.now();
      else if (performance.now() - since > 500) return true;
    }
    return false;
  });
  assert.ok(silent, what);
}

test("members hear each other, whoever renders for them, unless they mute each other", async (context) => {
  const [local, remote] = [await openLocal("Ada"), await openRemote("Bea")];
  context.after(() => Promise.all([local, remote].map((opened) => opened.context.close())));
  await stand(local.page, NEAR_BALL, FAR_FROM_BALL);
  await stand(remote.page, [-0.75, 1.6, -3.3], NEAR_BALL);
  await untilKnows(local.page, "Ada", "Bea");
  await until(local.page, () => window.nearlight.room.people.length === 2, "nobody else is left");
  const known = await untilKnows(local.page, "Ada", "Bea");
  await untilKnowsSame(remote.page, known);
  for (const [speaker, listener, name] of [[local, remote, "Ada"], [remote, local, "Bea"]]) {
    assert.equal(await listener.page.evaluate(() => window.nearlight.heard()), null, "nobody is heard who has not asked to be");
    await speaker.page.locator("#talk").evaluate((button) => button.click());
    await until(listener.page, `Math.abs((${pitch})() / ${TONE_HERTZ} - 1) < 0.03`, `the tone of ${name} is heard at its pitch`);
    await screenshot(listener.page, `room-hears-${name}`);
    await listener.page.locator(`#people li[data-member="${known[name]}"] .voice-mute`).evaluate((button) => button.click());
    await untilSilent(listener.page, "who is muted is not heard");
    await listener.page.locator(`#people li[data-member="${known[name]}"] .voice-mute`).evaluate((button) => button.click());
    await until(listener.page, `(${pitch})() > 0`, "and is heard again");
    await speaker.page.locator("#talk").evaluate((button) => button.click());
    await untilSilent(listener.page, "who stops talking falls silent");
  }
  for (const { errors } of [local, remote]) assert.deepEqual(errors, []);
});

test("a page that loses its room joins it again by itself, and shows its own pictures all the while", async (context) => {
  let own = await startServer({ token: TOKEN, more: SMALL });
  context.after(() => own.stop("SIGKILL"));
  const { page, context: pages, errors } = await openLocal("Ada", undefined, "websocket", own);
  context.after(() => pages.close());
  await page.evaluate(() => {
    window.seen = { ways: [], states: [], said: [] };
    const { seen } = window;
    new MutationObserver(() => seen.ways.push(document.body.dataset.rendering ?? "server")).observe(document.body, { attributeFilter: ["data-rendering"] });
    new MutationObserver(() => seen.states.push(document.body.dataset.state)).observe(document.body, { attributeFilter: ["data-state"] });
    const toast = document.getElementById("toast");
    new MutationObserver(() => seen.said.push(toast.innerText)).observe(toast, { childList: true });
  });
  const back = () => window.seen.said.includes("You are in the room main again.") && window.nearlight.state === "live";
  const isIn = () => window.nearlight.room.people.map(({ name }) => name).join() === "Ada";

  // A room takes 5 s of silence for a member that is gone. A page that is busy is not silent, and one whose connection does not run either is.
  const busy = () => {
    for (const end = performance.now() + 7_000; performance.now() < end; );
  };
  await page.evaluate(busy);
  await delay(1_000);
  assert.deepEqual([await page.evaluate(() => window.seen.said), await page.evaluate(isIn)], [[], true], "a busy page stays in the room");
  await page.workers().find((worker) => worker.url().includes("line-worker")).evaluate(busy);
  await until(page, back, "it is in the room again after a silence");
  await until(page, isIn, "nobody else is there");
  const { states, said } = await page.evaluate(() => window.seen);
  assert.deepEqual([...new Set(states)], ["reconnecting", "live"], "the page says that it has lost the room");
  assert.equal(said[0], "You are not in the room main at the moment. This page joins it again…");

  await page.evaluate(() => void (window.seen.said = []));
  await own.stop("SIGKILL");
  await until(page, () => window.nearlight.state === "reconnecting", "it notices that the server is gone");
  await screenshot(page, "room-lost");
  own = await startServer({ token: TOKEN, port: own.port, more: SMALL });
  await until(page, back, "it is in the room of the server that was started again");
  await until(page, isIn, "it knows the room");
  await screenshot(page, "room-joined-again");
  assert.deepEqual(await page.evaluate(() => window.seen.ways.filter((way) => way !== "local")), [], "the server's pictures are not shown in between");
  assert.deepEqual(errors.filter((words) => !/ERR_|WebSocket/.test(words)), []);
});

test("a page notices over WebTransport that nothing comes from its server any more, and joins its room again when it answers", async (context) => {
  const own = await startServer({ token: TOKEN, more: SMALL });
  context.after(() => own.stop("SIGKILL"));
  const { page, context: pages } = await openLocal("Ada", undefined, "webtransport", own);
  context.after(() => pages.close());
  // A process that stands still says nothing, as one that has been killed; and it leaves the browser's connection open.
  process.kill(own.pid, "SIGSTOP");
  await until(page, () => window.nearlight.state === "reconnecting", "it notices that nothing comes", { timeout: 20_000 });
  process.kill(own.pid, "SIGCONT");
  await until(page, () => window.nearlight.state === "live" && window.nearlight.room.people.length === 1, "it is in the room again");
});

test("a page that cannot join its room tries again, then offers it, and its user gets in when there is a place", async (context) => {
  const own = await startServer({ token: TOKEN, more: [...SMALL, "--max-members", "1"] });
  context.after(() => own.stop("SIGKILL"));
  const opened = await Promise.all(["Ada", "Bea"].map(() => openPage(browser, SMALL_WINDOW)));
  context.after(() => Promise.all(opened.map((each) => each.context.close())));
  const [ada, bea] = opened.map(({ page }) => page);
  const url = own.url.replace("#", "?room=lab#");
  const isIn = () => document.body.dataset.rendering === "local" && window.nearlight.room?.you > 0;
  // What fails once is tried again.
  await ada.route("**/world.glb", (route) => route.abort(), { times: 1 });
  await ada.goto(url);
  await until(ada, isIn, "the first page is in the room");
  await bea.goto(url);
  await bea.locator("#enter").click();
  await untilSays(bea, "toast", /^The room lab cannot be joined yet: .*--max-members.* Trying again…$/);
  await until(bea, () => !document.getElementById("offer").hidden, "the room is offered");
  await untilSays(bea, "offer-text", /^You are in the room main, not in lab: .*--max-members/);
  await until(bea, live, "the server's pictures come");
  // In front of whatever else the page says.
  await bea.evaluate(() => void (document.getElementById("notice").hidden = false));
  const front = () => {
    const { left, top } = document.getElementById("offer-accept").getBoundingClientRect();
    return document.elementFromPoint(left + 5, top + 15)?.id;
  };
  assert.equal(await bea.evaluate(front), "offer-accept");
  await screenshot(bea, "room-offered");
  await opened[0].context.close();
  await bea.locator("#offer-accept").evaluate((button) => button.click());
  await until(bea, isIn, "it is in the room");
  assert.equal(await bea.locator("#offer").isHidden(), true);
  assert.deepEqual(opened[1].errors, []);
});

test("a spectator's page is shown the world, and takes nothing in it", async () => {
  const { context, page, errors } = await openPage(browser);
  await page.goto(server.spectatorUrl);
  await until(page, live, "the server's pictures come");
  assert.match(await page.locator("#tagline-role").innerText(), /You are a spectator/);
  // Its page is told who is there, with itself among them, and offers no microphone.
  await until(page, () => window.nearlight.room?.people.some(({ role }) => role === "spectator"), "it knows who is in the room");
  assert.equal(await page.locator("#talk").isHidden(), true);
  await screenshot(page, "room-spectator");
  await page.goto(server.spectatorUrl.replace("#", "?rendering=local#"));
  await until(page, () => document.body.dataset.rendering === "local" && window.nearlight.room?.people.length === 1, "the page renders the world");
  const { you, people } = await page.evaluate(() => window.nearlight.room);
  assert.deepEqual([people[0].id, people[0].role], [you, "spectator"], "the page wishes to be host, and its token is a spectator's");
  const ball = await ballAt(page);
  await stand(page, [ball[0], 1.6, ball[2] + 2.5], ball);
  await page.evaluate((input) => window.nearlight.device(input), PRESSED);
  await page.waitForTimeout(1_000);
  await untilHeld(page, 0, "nobody holds the ball");
  assert.deepEqual(errors, []);
  await context.close();
});
