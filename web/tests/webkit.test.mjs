// The page in WebKitGTK's browser, which decodes pictures but has neither WebTransport nor WebRTC: over a WebSocket. Driven by its own
// WebDriver (W3C WebDriver), on a virtual screen.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createServer } from "node:net";
import { after, before, describe, test } from "node:test";
import { SMALL, eventually, startScreen, startServer } from "./helper.mjs";

const driverName = "WebKitWebDriver";
// Debian and Ubuntu have it in the folder of the machine's architecture, others in libexec.
const places = "/usr/lib/*/webkit2gtk-4.*/MiniBrowser /usr/libexec/webkit2gtk-4.*/MiniBrowser";
const [browser] = spawnSync("sh", ["-c", `ls ${places} 2>/dev/null`], { encoding: "utf8" }).stdout.split("\n");
const lacking =
  spawnSync(driverName, ["--version"]).error || !browser || spawnSync("Xvfb", ["-help"]).error
    ? `${driverName} with MiniBrowser and Xvfb not installed (apt-get install webkit2gtk-driver xvfb)`
    : false;

/** A port that was free a moment ago. */
async function freePort() {
  const listener = createServer();
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

/** The browser's web process has ended, and the session with it. */
class Crashed extends Error {}

/** WebKitGTK 2.50.6 ends by an assertion of its own in a worker once in about 40 starts of the page. */
const MAX_CRASHES = 2;

class Browser {
  #base;
  #session = "";

  constructor(port) {
    this.#base = `http://127.0.0.1:${port}`;
  }

  async #ask(method, path, body) {
    const answer = await fetch(this.#base + path, { method, body: body && JSON.stringify(body) });
    const { value } = await answer.json();
    if (value?.error === "invalid session id") throw new Crashed(value.message);
    if (!answer.ok) throw new Error(`WebDriver: ${value.error}: ${value.message}`);
    return value;
  }

  async open() {
    const options = { binary: browser, args: ["--automation"] };
    const wanted = { capabilities: { alwaysMatch: { "webkitgtk:browserOptions": options } } };
    const { sessionId } = await this.#ask("POST", "/session", wanted);
    this.#session = `/session/${sessionId}`;
  }

  close() {
    return this.#ask("DELETE", this.#session);
  }

  goto(url) {
    return this.#ask("POST", `${this.#session}/url`, { url });
  }

  evaluate(script) {
    return this.#ask("POST", `${this.#session}/execute/sync`, { script, args: [] });
  }

  /**
   * Waits until the script answers something that counts as true. Under load WebKit's driver sometimes loses an answer ("Could not parse
   * script result"), so an error only means to ask again.
   */
  async until(script, what) {
    let error;
    const ask = () =>
      this.evaluate(script).catch((reason) => {
        if (reason instanceof Crashed) throw reason;
        error = reason;
      });
    const seen = await eventually(ask, Boolean, 60_000);
    if (seen) return;
    const state = await this.evaluate("return JSON.stringify(window.nearlight)").catch(String);
    assert.fail(`${what} never happened: ${state}. The driver's last error: ${error}`);
  }
}

describe("WebKit", { skip: lacking }, () => {
  let screen;
  let driver;
  let page;
  let server;

  before(async () => {
    screen = await startScreen();
    const port = await freePort();
    driver = spawn(driverName, [`--port=${port}`], { env: { ...process.env, DISPLAY: screen.name }, stdio: "ignore" });
    const kill = () => driver.kill();
    process.once("exit", kill);
    page = new Browser(port);
    server = await startServer({ token: "a-token-for-the-page-tests", more: SMALL });
    const opened = await eventually(() => page.open().then(() => true, () => false), Boolean);
    assert.ok(opened, "WebKit's browser starts");
  });

  after(async () => {
    await page?.close().catch(() => undefined);
    driver?.kill();
    await server?.stop();
    await screen?.stop();
  });

  async function showsTheWorld() {
    await page.goto(server.url);
    await page.until("return window.nearlight?.statistics?.displayed >= 30", "30 frames are displayed");
    assert.equal(await page.evaluate("return window.nearlight.statistics.transport"), "websocket");
    await page.evaluate("document.getElementById('enter').click()");
    await page.until("return window.nearlight.lastMarker?.input > 10", "inputs come back in pixels");
    // Longer than an attempt to connect may take.
    await page.until("return window.nearlight.statistics.decoded >= 200", "200 frames are decoded in one session");
    // Without a graphics card WebKit paints as rarely as once a second on a busy machine.
    await page.until("return window.nearlight.statistics.displayed >= 60", "and the picture goes on");
    const statistics = JSON.parse(await page.evaluate("return JSON.stringify(window.nearlight.statistics)"));
    assert.equal(statistics.lost, 0, JSON.stringify(statistics));
  }

  test("shows the moving world over a WebSocket, in one session, and answers keys", async (context) => {
    for (let crashes = 0; ; crashes += 1) {
      try {
        return await showsTheWorld();
      } catch (error) {
        if (!(error instanceof Crashed) || crashes === MAX_CRASHES) throw error;
        context.diagnostic(`WebKit's web process crashed, and is started again: ${error.message}`);
        await page.open();
      }
    }
  });
});
