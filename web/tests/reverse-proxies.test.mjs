// The page behind nginx and Caddy as deploy/proxies configures them, for a whole host and below a path.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { SMALL, contrast, eventually, freePort, live, openBrowser, openPage, picture, screenshot, shown, startServer, until, untilSays } from "./helper.mjs";
import { CREDENTIALS, HOST, PROXIES, ask } from "./reverse-proxies.mjs";

const TOKEN = "a-token-behind-a-proxy";
const TOKEN_HEADER = "x-nearlight-token";
/** Another address of this machine than the proxy's. */
const CLIENT = "127.0.0.2";

let browser;

before(async () => {
  browser = await openBrowser("--ignore-certificate-errors", `--host-resolver-rules=MAP ${HOST} 127.0.0.1`);
});

after(() => browser?.close());

/** A server with a proxy in front of it. */
async function start(proxy, location) {
  const port = await freePort();
  const options = ["--public-url", `https://${HOST}:${port}${location}`, "--trusted-proxies", "127.0.0.1"];
  const server = await startServer({ token: TOKEN, more: [...SMALL, ...options] });
  const stop = await proxy.start({ port, upstream: server.port, location });
  return { port, server, stop: () => Promise.all([stop(), server.stop()]) };
}

async function openBehind(address) {
  const opened = await openPage(browser, { httpCredentials: CREDENTIALS, ignoreHTTPSErrors: true });
  await opened.page.goto(address);
  return opened;
}

for (const [name, proxy] of Object.entries(PROXIES)) {
  for (const location of ["/", "/world/"]) {
    const skip = proxy.isThere ? false : `there is no ${name}`;
    test(`${name} serves the page at ${location}`, { skip }, async () => {
      const { port, server, stop } = await start(proxy, location);
      try {
        await checkLinks(server, port, location);
        await checkAccess(server, port, location);
        await checkPictures(server, "websocket", /WebSocket \(TCP\)/, `${name}${location.replaceAll("/", "-")}`);
        if (location === "/") return;
        // UDP bypasses the proxy.
        await checkPictures(server, "auto", /WebTransport datagrams/, `${name}-auto`);
        await checkRoom(server);
      } finally {
        await stop();
      }
    });
  }
}

async function checkLinks(server, port, location) {
  assert.equal(server.url, `https://${HOST}:${port}${location}#token=${TOKEN}`);
  assert.deepEqual(server.links, [server.url]);
  assert.ok(server.spectatorUrl.startsWith(`https://${HOST}:${port}${location}#token=`));
}

async function checkAccess(server, port, location) {
  const info = `${location}session.json`;
  assert.equal((await ask(port, location, { headers: { authorization: "" } })).status, 401, "the proxy asks for its password");
  assert.equal((await ask(port, location)).status, 200);
  // A proxy on this machine is no reason to show strangers the figures, whatever they claim to be.
  for (const headers of [{}, { "x-forwarded-for": "127.0.0.1" }, { forwarded: "for=127.0.0.1" }]) {
    const { status, headers: answered } = await ask(port, `${location}metrics`, { headers });
    assert.deepEqual([status, answered["www-authenticate"]], [401, "Bearer"]);
  }
  const asHost = await ask(port, `${location}metrics`, { headers: { [TOKEN_HEADER]: TOKEN } });
  assert.ok(asHost.status === 200 && asHost.body.includes("nearlight_sessions_open"));
  const described = await ask(port, info, { headers: { [TOKEN_HEADER]: TOKEN } });
  assert.equal(JSON.parse(described.body).webtransport_port, server.port);
  assert.equal((await ask(port, `${location}readyz`)).body, "ready\n");
  // Wrong tokens count against the client's own address, and not against the one that it claims.
  const claims = { "x-forwarded-for": "203.0.113.9", forwarded: "for=203.0.113.9", [TOKEN_HEADER]: "a-wrong-token-of-a-stranger" };
  const statuses = [];
  for (let attempt = 0; attempt < 8; attempt += 1) statuses.push((await ask(port, info, { from: CLIENT, headers: claims })).status);
  assert.deepEqual([statuses[0], statuses.at(-1)], [401, 429]);
  await eventually(server.log, (log) => log.includes(CLIENT), 5_000);
  assert.match(server.log(), new RegExp(`client=${CLIENT.replaceAll(".", "\\.")} route="session.json"`));
  assert.ok(!server.log().includes("203.0.113.9"));
  const other = await ask(port, info, { from: "127.0.0.3", headers: { [TOKEN_HEADER]: "a-wrong-token-of-another" } });
  assert.equal(other.status, 401, "others are not held up");
}

async function checkPictures(server, transport, title, name) {
  const { context, page, errors } = await openBehind(server.url.replace("#", `?transport=${transport}#`));
  await until(page, live, `pictures arrive over ${transport}`);
  await until(page, shown(10), "they keep coming");
  assert.ok((await contrast(page, await picture(page))) > 8, "the picture shows something");
  await page.locator("#toggle-hud").click();
  await untilSays(page, "facts", title);
  await screenshot(page, name);
  assert.deepEqual(errors, []);
  await context.close();
}

/** Members of rooms have a socket of their own. */
async function checkRoom(server) {
  const { context, page } = await openBehind(server.url.replace("#", "?room=lab&rendering=local&transport=websocket#"));
  await page.locator("#enter").click();
  await until(page, () => window.nearlight.room?.you > 0 && window.nearlight.room.transport === "websocket", "it is a member");
  await context.close();
}
