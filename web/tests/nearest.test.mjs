// A front that lets browsers measure which server is nearest.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { eventually, live, openBrowser, openPage, startNats, startServer, until } from "./helper.mjs";

const TOKEN = "a-token-for-the-page-tests";
const LOOPBACK = ["--host", "127.0.0.1"];
/** As little as shows that pictures come. */
const TINY = ["--test-card", "--size", "320x180", "--fps", "10"];

let browser;

before(async () => {
  browser = await openBrowser();
});

after(() => browser?.close());

test("a browser goes to the server that answers soonest, whichever that is", async (context) => {
  const running = [];
  context.after(() => Promise.all(running.map((program) => program.stop("SIGKILL"))));
  const keep = async (starting) => {
    const program = await starting;
    running.push(program);
    return program;
  };
  const nats = await keep(startNats());
  const startOne = () => keep(startServer({ token: TOKEN, more: [...TINY, ...LOOPBACK, "--nats", nats.url] }));
  const servers = await Promise.all([startOne(), startOne()]);
  const front = await keep(startServer({ command: "front", token: TOKEN, more: [...LOOPBACK, "--nats", nats.url, "--choose", "nearest"] }));
  const listed = async () => {
    const answer = await fetch(`http://127.0.0.1:${front.port}/origins.json`);
    return answer.ok ? (await answer.json()).servers.length : 0;
  };
  assert.equal(await eventually(listed, (count) => count === 2), 2, "servers that the front knows");
  const originOf = ({ port }) => `https://127.0.0.1:${port}`;
  for (const [near, far] of [servers, [...servers].reverse()]) {
    // Each server has a certificate of its own, which its user would be asked about.
    const { context: own, page, errors } = await openPage(browser, { viewport: { width: 640, height: 360 }, ignoreHTTPSErrors: true });
    let asked = 0;
    await page.route(`${originOf(far)}/healthz`, async (route) => {
      asked += 1;
      await new Promise((resolve) => setTimeout(resolve, 300));
      await route.continue();
    });
    await page.goto(`${originOf(front)}/?transport=websocket#token=${TOKEN}`);
    await page.waitForURL(`${originOf(near)}/**`);
    const { search, hash } = new URL(page.url());
    assert.deepEqual([search, hash], [`?transport=websocket&front=${originOf(front)}`, `#token=${TOKEN}`]);
    assert.equal(asked, 4, "requests to the one that is far");
    await until(page, live, "the server's pictures come");
    assert.deepEqual(errors, []);
    await own.close();
  }
  // A browser whose servers do not answer goes to one all the same.
  const { context: own, page } = await openPage(browser, { ignoreHTTPSErrors: true });
  await page.route("**/healthz", (route) => route.abort());
  await page.goto(`${originOf(front)}/#token=${TOKEN}`);
  await page.waitForURL((url) => servers.some((server) => url.origin === originOf(server)));
  await own.close();
});
