// The world's sound in a real browser: heard after a gesture, from the listener's pose, in step with the picture.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { eventually, openBrowser, openPage, startServer, until } from "./helper.mjs";

const SMALL = ["--size", "640x360", "--fps", "30"];
/** In front of the fountain in the middle of the plaza, which splashes without pause. */
const AT_FOUNTAIN = [0, 1.6, -6];
/** Where it is hardly heard. */
const FAR_AWAY = [0, 1.6, -40];

let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), startServer({ token: "a-token-for-the-sound-test", more: SMALL })]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Mean loudness at each ear over a second and a half. */
async function listen(page) {
  return page.evaluate(async () => {
    const sums = [0, 0];
    for (let count = 0; count < 30; count += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      // Nothing is played before the browser has begun to.
      const [left, right] = window.nearlight.loudness() ?? [0, 0];
      sums[0] += left / 30;
      sums[1] += right / 30;
    }
    return sums;
  });
}

async function enter(link) {
  const opened = await openPage(browser);
  await opened.page.goto(link);
  await until(opened.page, () => window.nearlight?.state === "live", "the page goes live");
  await opened.page.locator("#enter").click();
  return opened;
}

/** What is heard once it is as wanted, else at last: a busy machine interrupts sound for seconds. */
const heard = (page, wanted) => eventually(() => listen(page), wanted, 40_000);

/** What each of two looks lets hear, with the fountain on the right and then on the left. */
async function looks(page) {
  await page.evaluate((position) => window.nearlight.setPose({ position, yaw: Math.PI / 2 }), AT_FOUNTAIN);
  const right = await heard(page, ([left, right]) => right > 0.005 && right > 1.5 * left);
  await page.evaluate((position) => window.nearlight.setPose({ position, yaw: -Math.PI / 2 }), AT_FOUNTAIN);
  return { right, left: await heard(page, ([left, right]) => left > 0.005 && left > 1.5 * right) };
}

/** The fountain is on the side that each look gives it, and sound and picture are in step. */
async function isHeardWhereItIs({ page, errors }) {
  const { right, left } = await looks(page);
  assert.ok(right[1] > 0.005 && right[1] > 1.5 * right[0], `on the right: ${right}`);
  assert.ok(left[0] > 0.005 && left[0] > 1.5 * left[1], `on the left: ${left}, ${await page.evaluate(() => JSON.stringify(window.nearlight.statistics))}`);
  const measured = async () => {
    const { sound } = await window.nearlight.summary();
    return sound.packets > 300 && sound.apart_ms.n > 30;
  };
  await until(page, measured, "three seconds of sound are measured");
  const { transport, sound } = await page.evaluate(() => window.nearlight.summary());
  // A browser's jitter buffer shortens quiet or periodic sound only: the fountain's noise would keep the delay with which it began.
  await page.evaluate((position) => window.nearlight.setPose({ position, yaw: 0 }), FAR_AWAY);
  // Viewers accept sound that is later than its picture by this much (ITU-R BT.1359, figure 2). Over WebRTC a page that has just begun hears
  // more, and the jitter buffer keeps the delay of a burst for 20 to 30 s.
  await until(page, () => window.nearlight.statistics.sound.delayUs < 185_000, "the sound is in step", { timeout: 90_000 });
  if (process.env.NEARLIGHT_FIGURES) console.log(JSON.stringify(sound));
  assert.deepEqual(errors, []);
  return transport;
}

test("the fountain is heard on the side where it is, in step with the picture", async () => {
  const opened = await enter(server.url);
  await until(opened.page, () => window.nearlight.statistics?.sound?.delayUs > 0, "sound is played");
  await isHeardWhereItIs(opened);
  await opened.context.close();
});

test("over WebRTC the browser receives it by itself, for two ears", async () => {
  const opened = await enter(server.url.replace("#", "?transport=webrtc#"));
  assert.equal(await isHeardWhereItIs(opened), "webrtc");
  await opened.context.close();
});

test("a gesture starts it, M mutes it, and the choice is kept", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(server.url);
  await until(page, () => window.nearlight?.state === "live", "the page goes live");
  assert.equal(await page.evaluate(() => window.nearlight.loudness()), null, "nothing plays before a gesture");
  await page.locator("#enter").click();
  await until(page, () => window.nearlight.loudness()?.some((level) => level > 0.001), "something is heard");
  const pressed = () => page.locator("#mute").getAttribute("aria-pressed");
  assert.equal(await pressed(), "false");
  await page.keyboard.press("m");
  await until(page, () => document.getElementById("mute").ariaPressed === "true", "M mutes it");
  await page.reload();
  await until(page, () => window.nearlight?.state === "live", "the page goes live again");
  assert.equal(await pressed(), "true");
  await context.close();
});

test("a server without sound is silent and says so", async () => {
  const silent = await startServer({ token: "a-token-for-the-sound-test", more: [...SMALL, "--test-card"] });
  const { context, page, errors } = await enter(silent.url);
  await until(page, () => (window.nearlight.statistics?.displayed ?? 0) >= 10, "frames are displayed");
  const summary = await page.evaluate(() => window.nearlight.summary());
  assert.equal(summary.sound, null);
  assert.equal(await page.evaluate(() => window.nearlight.statistics.sound), null);
  assert.deepEqual(errors, []);
  await context.close();
  await silent.stop();
});
