// The page over a WebSocket on the page's own port, against the built server.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { after, before, describe, test } from "node:test";
import { SMALL, contrast, openBrowser, openPage, picture, screenshot, shown, startServer, until, untilPictureChanges, untilSays, live } from "./helper.mjs";

/** Passes TCP connections on to a port of this machine, and nothing else. */
async function onlyTcp(port) {
  const proxy = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    for (const socket of [near, far]) socket.on("error", () => (near.destroy(), far.destroy()));
    near.pipe(far).pipe(near);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  proxy.unref();
  return proxy;
}

describe("a WebSocket", () => {
  let browser;
  let server;

  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer({ token: "a-token-for-the-page-tests", more: SMALL })]);
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  const link = (query) => server.url.replace("#", `?${query}#`);

  test("carries pictures, inputs, sound and figures where it is asked for", async () => {
    const { context, page, errors } = await openPage(browser);
    await page.goto(link("transport=websocket"));
    await until(page, live, "the page goes live");
    await page.click("#enter");
    await until(page, shown(60), "60 frames are displayed");
    assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "websocket");
    assert.ok((await contrast(page, await picture(page))) > 15, "the world is on the screen");
    const before = await picture(page);
    await page.keyboard.down("KeyW");
    await untilPictureChanges(page, before, "the user walks");
    await page.keyboard.up("KeyW");
    await until(page, async () => (await window.nearlight.events()).includes("motion_to_photon"), "motion-to-photon is measured");
    await until(page, () => window.nearlight.statistics.sound?.packets > 20, "sound comes");
    await page.keyboard.press("KeyH");
    await untilSays(page, "facts", /WebSocket \(TCP\) · as asked/);
    await screenshot(page, "websocket");
    // Longer than an attempt to connect may take.
    await until(page, shown(240), "240 frames are displayed in one session");
    const { statistics } = await page.evaluate(() => ({ statistics: window.nearlight.statistics }));
    assert.equal(statistics.lost, 0, JSON.stringify(statistics));
    assert.deepEqual(errors, []);
    await context.close();
  });

  test("is what is left where the network lets no UDP through and the browser has no WebRTC", async () => {
    const firewall = await onlyTcp(server.port);
    const { context, page, errors } = await openPage(browser);
    await page.addInitScript(() => delete window.RTCPeerConnection);
    await page.goto(server.url.replace(`:${server.port}`, `:${firewall.address().port}`));
    await until(page, shown(30), "30 frames are displayed");
    assert.equal(await page.evaluate(() => window.nearlight.statistics.transport), "websocket");
    await page.click("#enter");
    await page.keyboard.press("KeyH");
    await untilSays(page, "facts", /WebSocket \(TCP\) · WebTransport does not get through/);
    // Chromium itself reports what did not get through.
    assert.deepEqual(errors.filter((error) => !error.includes("ERR_")), []);
    await context.close();
    firewall.close();
  });

  test("lets nobody in without the token", async () => {
    const { context, page } = await openPage(browser);
    await page.goto(server.url.replace(/token=[^&]+/, "token=another-token-altogether").replace("#", "?transport=websocket#"));
    await until(page, () => window.nearlight?.state === "refused", "the page says that it is refused");
    await context.close();
  });
});
