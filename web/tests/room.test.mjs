// Pages in one room: for some the server renders, others render the world themselves.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { SMALL, live, openBrowser, openPage, screenshot, shown, startServer, until } from "./helper.mjs";

const TOKEN = "a-token-for-the-page-tests";
/** The yellow ball on the floor, and the pointer's numbers with the left button down. */
const BALL = 3;
const BALL_AT = [-0.75, 0.26, -4.3];
const PRESSED = { device: "pointer", values: [0.5, 0.5, 1, 0, 0, 0, 0, 1] };
/** Where the users stand, at either side of the ball. */
const NEAR = [-0.75, 1.6, -1.8];
const FAR = [-0.75, 1.6, -6.8];

let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), startServer({ token: TOKEN, more: SMALL })]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

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
  assert.match(await local.page.locator("#people").innerText(), /Ada · host · you/);

  await stand(local.page, NEAR, FAR);
  await stand(remote.page, FAR, NEAR);
  await untilMorePictures(remote.page);
  await screenshot(local.page, "room-local");
  await screenshot(remote.page, "room-remote");

  await stand(local.page, NEAR, BALL_AT);
  await local.page.evaluate((input) => window.nearlight.device(input), PRESSED);
  await untilHeld(local.page, you, "the page that renders holds the ball");
  await stand(local.page, NEAR, FAR);
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
  await screenshot(local.page, "room-local-panel");
  await local.page.locator("#rendering").selectOption("server");
  await until(local.page, () => window.nearlight.state === "live" && window.nearlight.room === null, "the server's pictures come after the choice");
  await untilMorePictures(local.page);
  await screenshot(local.page, "room-local-to-server");
  await local.page.locator("#rendering").selectOption("local");
  await until(local.page, rendersItself, "it renders again");
  await remote.context.close();
  await until(local.page, () => window.nearlight.room?.people.length === 1, "who leaves is gone");
  assert.match(await local.page.locator("#toast").innerText(), /Visitor \d+ left/);
  assert.deepEqual([...remote.errors, ...local.errors], []);
  await local.context.close();
});

test("a spectator's page is shown the world, and takes nothing in it", async () => {
  const { context, page, errors } = await openPage(browser);
  await page.goto(server.spectatorUrl);
  await until(page, live, "the server's pictures come");
  assert.match(await page.locator("#tagline-role").innerText(), /You are a spectator/);
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
