// The page without a server: what it says, what its panel shows, what its input sends.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { emulateHeadset, openBrowser, openPage, screenshot, servePage, until } from "./helper.mjs";

const fakeWorker = path.join(path.dirname(fileURLToPath(import.meta.url)), "fake-worker.js");
let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), servePage()]);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page whose worker is made up. */
async function openAlone(options, prepare = async () => undefined) {
  const opened = await openPage(browser, options);
  await prepare(opened.page);
  await opened.page.addInitScript({ path: fakeWorker });
  await opened.page.goto(`${server.url}#token=made-up`);
  await until(opened.page, () => window.fake?.instance?.canvas, "the page starts its worker");
  return opened;
}

const sent = (page, type) => page.evaluate((type) => window.fake.received.filter((message) => message.type === type), type);

test("a browser without any transport is told what is missing", async () => {
  const { context, page } = await openPage(browser);
  await page.addInitScript(() => {
    delete window.WebTransport;
    delete window.RTCPeerConnection;
  });
  await page.goto(`${server.url}#token=x`);
  const notice = page.locator("#notice");
  await notice.waitFor({ state: "visible" });
  assert.match(await notice.innerText(), /WebTransport/);
  assert.match(await notice.innerText(), /Chrome/);
  assert.equal(await page.evaluate(() => window.nearlight.state), "unsupported");
  await screenshot(page, "unsupported");
  await context.close();
});

test("an address without its token says so", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(server.url);
  const notice = page.locator("#notice");
  await notice.waitFor({ state: "visible" });
  assert.match(await notice.innerText(), /#token=/);
  await context.close();
});

test("a server that is away is dialled again with back-off", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(`${server.url}#token=x`);
  await until(page, () => window.nearlight?.state === "reconnecting", "the page tries again");
  assert.match(await page.locator("#status").innerText(), /Trying again/i);
  await context.close();
});

for (const [name, viewport] of [
  ["desktop", { width: 1280, height: 720 }],
  ["phone", { width: 390, height: 844 }],
]) {
  test(`landing page and panel fit a ${name}`, async () => {
    const touch = name === "phone" ? { hasTouch: true, isMobile: true, deviceScaleFactor: 2 } : {};
    const { context, page, errors } = await openAlone({ viewport, ...touch });
    await page.evaluate(() => window.fake.play(400));
    await page.waitForTimeout(600);
    await screenshot(page, `landing-${name}`);
    const narrower = () => document.documentElement.scrollWidth <= window.innerWidth;
    assert.ok(await page.evaluate(narrower), "the landing page is not wider than the window");
    await page.locator("#enter").click();
    // A locked pointer cannot press buttons.
    if (name === "phone") await page.locator("#toggle-hud").tap();
    else await page.keyboard.press("KeyH");
    await page.waitForTimeout(600);
    await screenshot(page, `panel-${name}`);
    assert.match(await page.locator("#mtp").innerText(), /^\d+\.\d$/);
    assert.match(await page.locator("#legend").innerText(), /encode\s+\d+\.\d ms/);
    assert.match(await page.locator("#binding").innerText(), /maximum/);
    const panel = await page.locator("#hud").boundingBox();
    const bar = await page.locator("#toggle-hud").boundingBox();
    assert.ok(panel.y >= bar.y + bar.height, "the panel lies below the bar");
    assert.ok(panel.x >= 0 && panel.x + panel.width <= viewport.width && panel.y + panel.height <= viewport.height, "the panel fits");
    assert.ok(await page.evaluate(narrower), "the panel is not wider than the window");
    assert.deepEqual(errors, []);
    await context.close();
  });
}

test("mouse and keys move the user and act", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#enter").click();
  await until(page, () => document.pointerLockElement !== null, "the pointer is locked");
  await page.mouse.move(640, 360);
  await page.evaluate(() => {
    window.fake.received = [];
  });
  await page.mouse.move(760, 360, { steps: 6 });
  await page.keyboard.down("KeyW");
  await page.waitForTimeout(400);
  await page.keyboard.up("KeyW");
  await page.mouse.down();
  await page.mouse.up();
  await page.keyboard.press("KeyF");
  await page.keyboard.press("KeyR");
  const presences = (await sent(page, "presence")).map(({ values }) => Object.values(values));
  const last = presences.at(-1);
  assert.equal(last.length, 7 + 1 + 11 + 1);
  // 120 pixels to the right at pi / 1,500 radians a pixel: the quaternion's y is the sine of half of that, negative.
  assert.ok(Math.abs(last[4] - Math.sin((-120 * Math.PI) / 3000)) < 0.01, `yaw is ${last[4]}`);
  assert.ok(last[2] < 5.8, `walked forward, to z ${last[2]}`);
  assert.ok(last[0] > 0.01, `and to the right, to x ${last[0]}`);
  const actions = (await sent(page, "act")).map(({ action }) => action);
  assert.deepEqual(actions, ["grab", "release", "throw", "reset"]);
  await context.close();
});

test("a gamepad acts, and lets go where it is pulled out", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#enter").click();
  await page.evaluate(() => {
    window.fake.received = [];
    const button = (pressed) => ({ pressed, touched: pressed, value: Number(pressed) });
    const pad = (held) => ({
      connected: true,
      mapping: "standard",
      timestamp: 0,
      axes: [0, 0, 0, 0],
      buttons: Array.from({ length: 17 }, (_, index) => button(held.includes(index))),
    });
    window.hold = (...held) => {
      navigator.getGamepads = () => [pad(held)];
    };
    window.pullOut = () => {
      navigator.getGamepads = () => [null];
    };
  });
  for (const held of [[1], [], [0]]) {
    await page.evaluate((held) => window.hold(...held), held);
    await page.waitForTimeout(150);
  }
  await page.evaluate(() => window.pullOut());
  await page.waitForTimeout(150);
  const actions = (await sent(page, "act")).map(({ action }) => action);
  assert.deepEqual(actions, ["push", "grab", "release"]);
  await context.close();
});

test("touch looks, taps push and long presses hold", async () => {
  const { context, page } = await openAlone({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#enter").tap();
  await page.waitForTimeout(500);
  await page.touchscreen.tap(300, 500);
  const client = await context.newCDPSession(page);
  const touch = (type, points) => client.send("Input.dispatchTouchEvent", { type, touchPoints: points });
  await touch("touchStart", [{ x: 300, y: 500 }]);
  await page.waitForTimeout(500);
  await touch("touchEnd", []);
  await touch("touchStart", [{ x: 100, y: 600 }]);
  await touch("touchMove", [{ x: 100, y: 540 }]);
  await page.waitForTimeout(400);
  await screenshot(page, "touch-stick");
  await touch("touchEnd", []);
  const actions = (await sent(page, "act")).map(({ action }) => action);
  assert.deepEqual(actions, ["push", "grab", "release"]);
  const last = Object.values((await sent(page, "presence")).at(-1).values);
  assert.ok(last[2] < 5.8, `walked forward, to z ${last[2]}`);
  await context.close();
});

test("hooks answer", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.play(3));
  assert.deepEqual(await page.evaluate(() => window.nearlight.summary()), { frames: { displayed: 1 } });
  await page.locator("#toggle-hud").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#save-events").click()]);
  assert.equal(download.suggestedFilename(), "nearlight-events.jsonl");
  assert.equal(await readFile(await download.path(), "utf8"), '{"event":"frame_lost"}\n');
  await page.evaluate(() => {
    window.nearlight.act("left", "throw");
    window.nearlight.setPose({ position: [1, 2, 3], yaw: 0.5 });
  });
  assert.equal((await sent(page, "act")).at(-1).hand, "left");
  const last = Object.values((await sent(page, "presence")).at(-1).values);
  assert.deepEqual(last.slice(0, 3), [1, 2, 3]);
  assert.equal(await page.evaluate(() => window.nearlight.state), "live");
  await context.close();
});

test("late reprojection puts each eye's picture where the world is", async () => {
  const { context, page, errors } = await openAlone({}, emulateHeadset);
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#landing-vr").click();
  await until(page, () => document.querySelector("canvas.headset"), "the session begins");
  await until(page, () => window.fake.received.some(({ type, immersive }) => type === "display" && immersive), "the server is told");
  const newest = async () => Object.values((await sent(page, "presence")).at(-1).values);
  await until(page, () => window.fake.received.filter(({ type }) => type === "presence").at(-1).values[7] === 2, "two views are asked for");
  const asked = await newest();
  const yaws = [0, 0.15, -0.2];
  for (const yaw of yaws) {
    const { bars, backgrounds } = await page.evaluate(showBar, { asked, yaw });
    for (const eye of [0, 1]) {
      const [left, right] = asked.slice(8 + eye * 11 + 7);
      // The page asked for 6 % more on each side than the eye sees.
      const margin = ((right - left) / 1.12) * 0.06;
      const tangent = Math.tan(Math.atan(0.2) + yaw);
      const expected = (tangent - left - margin) / (right - left - 2 * margin);
      assert.ok(Math.abs(bars[eye] - expected) < 0.01, `eye ${eye}, yaw ${yaw}: bar at ${bars[eye]}, expected at ${expected}`);
    }
    assert.deepEqual(backgrounds, ["red", "blue"], "each eye sees its own half");
    await screenshot(page, `reprojection-${yaw}`);
  }
  const shown = (await sent(page, "shown")).map(({ frame }) => frame);
  assert.deepEqual([...new Set(shown)], yaws.map((yaw) => 100 + yaw * 100), "every picture was reported once it was drawn");
  assert.deepEqual(errors, []);
  await context.close();
});

/** Hands the page a picture with a white bar at tangent 0.2, rendered straight ahead, and finds the bar after turning the head. */
async function showBar({ asked, yaw }) {
  const [width, height] = [1024, 512];
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  for (const eye of [0, 1]) {
    const [left, right] = asked.slice(8 + eye * 11 + 7);
    const column = (eye + (0.2 - left) / (right - left)) * (width / 2);
    context.fillStyle = eye === 0 ? "#a00000" : "#0000a0";
    context.fillRect((eye * width) / 2, 0, width / 2, height);
    context.fillStyle = "#ffffff";
    context.fillRect(column - 2, 0, 4, height);
  }
  const views = Float32Array.from(asked.slice(8, 8 + 22));
  const { quaternion } = window.emulated;
  quaternion.set(0, Math.sin(yaw / 2), 0, Math.cos(yaw / 2));
  const frame = 100 + yaw * 100;
  window.fake.instance.say({ type: "frame", frame, picture: new VideoFrame(canvas, { timestamp: 0 }), views });
  for (let turn = 0; turn < 4; turn += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
  const bitmap = await createImageBitmap(document.querySelector("canvas.headset"));
  const copy = new OffscreenCanvas(bitmap.width, 1).getContext("2d");
  copy.drawImage(bitmap, 0, bitmap.height / 2, bitmap.width, 1, 0, 0, bitmap.width, 1);
  const { data } = copy.getImageData(0, 0, bitmap.width, 1);
  const half = bitmap.width / 2;
  const bars = [0, 1].map((eye) => {
    const bright = Array.from({ length: half }, (_, x) => x).filter((x) => data[(eye * half + x) * 4 + 1] > 100);
    return (bright.reduce((sum, x) => sum + x, 0) / bright.length + 0.5) / half;
  });
  const backgrounds = [0, 1].map((eye) => {
    const at = (eye * half + Math.round(half / 4)) * 4;
    return data[at] > data[at + 2] ? "red" : "blue";
  });
  return { bars, backgrounds };
}
