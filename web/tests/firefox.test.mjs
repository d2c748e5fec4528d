// The page in Firefox, by puppeteer-core over WebDriver BiDi: headless, where it has no WebGL2, and on a virtual screen, where Mesa
// emulates it.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import puppeteer from "puppeteer-core";
import { SMALL, contrast, eventually, live, screenshot, shown, startScreen, startServer, until, untilPictureChanges, untilSays } from "./helper.mjs";

const firefox = process.env.FIREFOX ?? "firefox-esr";
const runs = (command, words) => spawnSync(command, words, { encoding: "utf8" });
const version = runs(firefox, ["--version"]);
const lacking =
  version.error || version.status !== 0
    ? `${firefox} does not run (Debian: apt-get install firefox-esr; Ubuntu has Firefox as a snap only, name another with FIREFOX=path)`
    : false;
const tools = ["Xvfb", "import"].filter((tool) => runs(tool, ["-help"]).error);
const xvfb = tools.length > 0 && `${tools.join(" and ")} not installed (apt-get install xvfb imagemagick)`;

/** A page's screenshot waits for the canvas of a worker that may wait for the page: then neither goes on before this time is over, and
 *  the screenshot leaves the canvas out. Firefox waits 10 s. */
const extraPrefsFirefox = { "gfx.offscreencanvas.snapshot-timeout-ms": 200 };

/** A page that collects what went wrong in it in `errors`. */
async function open(browser, link) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 720 });
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  await page.goto(link);
  await until(page, live, "the page goes live");
  return { page, errors };
}

/** A part of the world as the user sees it, away from the panel: of a window as the screen shows it, else as the page's screenshot has
 *  it. The world has more contrast than the dark page behind it, which is all that a screenshot shows that left out the canvas. */
async function look(page, screen) {
  const words = ["-display", screen?.name, "-window", "root", "-crop", "320x240+300+330", "png:-"];
  const ofScreen = async () => (await promisify(execFile)("import", words, { encoding: "buffer" })).stdout;
  const ofPage = () => page.screenshot({ clip: { x: 300, y: 200, width: 320, height: 240 } });
  const taken = async () => {
    const png = await (screen ? ofScreen() : ofPage());
    return { png, seen: await contrast(page, png) };
  };
  const { png, seen } = await eventually(taken, ({ seen }) => seen > 15);
  assert.ok(seen > 15, `the world is on the screen: a contrast of ${seen}`);
  return png;
}

const modes = [
  { name: "headless", painter: /canvas 2D · this browser has no WebGL2/, skip: lacking },
  { name: "on a virtual screen", painter: /canvas 2D · no graphics card for WebGL2/, skip: lacking || xvfb },
];

for (const { name, painter, skip } of modes) {
  describe(`Firefox ${name}`, { skip }, () => {
    const headless = name === "headless";
    let screen;
    let browser;
    let server;

    before(async () => {
      if (!headless) screen = await startScreen();
      const env = headless ? process.env : { ...process.env, DISPLAY: screen.name };
      const executablePath = firefox.includes("/") ? firefox : runs("which", [firefox]).stdout.trim();
      [browser, server] = await Promise.all([
        puppeteer.launch({ browser: "firefox", executablePath, headless, env, extraPrefsFirefox }),
        startServer({ token: "a-token-for-the-page-tests", more: SMALL }),
      ]);
    });

    after(async () => {
      await browser?.close();
      await server?.stop();
      await screen?.stop();
    });

    test("the world is shown over WebTransport, moves, and answers keys and mouse", async () => {
      const { page, errors } = await open(browser, server.url);
      await until(page, shown(30), "30 frames are displayed");
      await page.click("#enter");
      await until(page, () => document.body.dataset.view === "world", "the landing page is left");
      const seen = () => look(page, screen);
      await untilPictureChanges(page, await seen(), "the world moves", seen);
      assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "webtransport");
      await until(page, () => window.nearlight.lastMarker?.input > 10, "inputs come back in pixels");
      const before = await seen();
      await page.keyboard.down("KeyW");
      await untilPictureChanges(page, before, "the user walks", seen);
      await page.keyboard.up("KeyW");
      const acted = async () => (await window.nearlight.events()).includes("motion_to_photon");
      await until(page, acted, "motion-to-photon is measured");
      const { statistics } = await page.evaluate(() => ({ statistics: window.nearlight.statistics }));
      assert.ok(statistics.unreadableMarkers <= statistics.displayed / 10, JSON.stringify(statistics));
      assert.deepEqual(errors, []);
      await page.close();
    });

    test("the panel is readable and names the painter", async () => {
      const { page, errors } = await open(browser, server.url);
      await page.click("#enter");
      await page.keyboard.press("KeyH");
      for (const [id, wanted] of [["mtp", /^\d+\.\d$/], ["fps", /\d/], ["rates", /\d/], ["legend", /render\s+\d+\.\d ms/], ["facts", painter]]) {
        await untilSays(page, id, wanted);
      }
      assert.match(await page.evaluate(() => document.getElementById("facts").innerText), /WebCodecs/);
      assert.doesNotMatch(await page.evaluate(() => document.getElementById("hud").innerText), /undefined|NaN|null/);
      await look(page, screen);
      await screenshot(page, `firefox-${headless ? "headless" : "screen"}`);
      assert.deepEqual(errors, []);
      await page.close();
    });

    test("over WebRTC it shows the same world", async () => {
      const { page, errors } = await open(browser, server.url.replace("#", "?transport=webrtc#"));
      await until(page, shown(30), "30 frames are displayed");
      await page.click("#enter");
      await look(page, screen);
      assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "webrtc");
      assert.deepEqual(errors, []);
      await page.close();
    });

    // Headless it has no WebGL2, without which no page renders the world.
    test("it renders the world itself, as a member over WebTransport", { skip: headless }, async () => {
      const page = await browser.newPage();
      await page.setViewport({ width: 640, height: 360 });
      const errors = [];
      page.on("pageerror", (error) => errors.push(String(error)));
      await page.goto(server.url.replace("#", "?rendering=local#"));
      await page.click("#enter");
      const renders = () => document.body.dataset.rendering === "local" && window.nearlight.room?.you > 0;
      await until(page, renders, "the page renders the world");
      assert.equal(await page.evaluate(() => window.nearlight.room.transport), "webtransport");
      await until(page, () => window.nearlight.room.objects.length > 5, "it knows the world's objects");
      await screenshot(page, "firefox-member");
      assert.deepEqual(errors, []);
      await page.close();
    });
  });
}
