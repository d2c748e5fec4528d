// The page behind a reverse proxy that ends TLS, asks for a name and a password (HTTP Basic), and forwards TCP alone.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { request } from "node:http";
import { createServer } from "node:https";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { SMALL, live, openBrowser, openPage, screenshot, startServer, until, untilSays } from "./helper.mjs";

const TOKEN = "a-token-behind-a-proxy";
const CREDENTIALS = { username: "me", password: "here" };
const BASIC = `Basic ${Buffer.from(`${CREDENTIALS.username}:${CREDENTIALS.password}`).toString("base64")}`;

let browser;
let server;
let proxy;

before(async () => {
  [browser, server] = await Promise.all([openBrowser("--ignore-certificate-errors"), startServer({ token: TOKEN, more: SMALL })]);
  proxy = await startProxy(server.port);
});

after(async () => {
  await browser?.close();
  await proxy?.close();
  await server?.stop();
});

/** A certificate for localhost and its key. */
async function certificate() {
  const folder = await mkdtemp(path.join(tmpdir(), "nearlight-proxy-"));
  const [key, cert] = ["key.pem", "cert.pem"].map((name) => path.join(folder, name));
  const words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"];
  const made = spawnSync("openssl", words, { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const pair = { key: await readFile(key), cert: await readFile(cert) };
  await rm(folder, { recursive: true });
  return pair;
}

/** Starts the proxy. `asked` are the requests that it has forwarded, with their headers. */
async function startProxy(port) {
  const asked = [];
  const isAllowed = ({ headers }) => headers.authorization === BASIC;
  const outgoing = ({ method, url, headers }) => {
    asked.push({ method, url, headers });
    return { host: "127.0.0.1", port, method, path: url, headers: { ...headers, host: `127.0.0.1:${port}` } };
  };
  const proxy = createServer(await certificate(), (incoming, response) => {
    if (!isAllowed(incoming)) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="proxy"' }).end();
      return;
    }
    const forwarded = request(outgoing(incoming), (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    forwarded.on("error", () => response.destroy());
    incoming.pipe(forwarded);
  });
  proxy.on("upgrade", (incoming, socket, head) => {
    if (!isAllowed(incoming)) return socket.end("HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n");
    const { method, path: target, headers } = outgoing(incoming);
    const upstream = connect(port, "127.0.0.1", () => {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      upstream.write(`${method} ${target} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
      upstream.write(head);
      socket.pipe(upstream).pipe(socket);
    });
    for (const end of [socket, upstream]) end.on("error", () => [socket, upstream].forEach((one) => one.destroy()));
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  return {
    url: `https://localhost:${proxy.address().port}/`,
    asked,
    close: () => new Promise((resolve) => {
      proxy.close(resolve);
      proxy.closeAllConnections();
    }),
  };
}

for (const transport of ["auto", "webrtc", "websocket"]) {
  test(`a page behind a proxy with a password of its own streams over ${transport === "auto" ? "what gets through" : transport}`, async () => {
    proxy.asked.length = 0;
    const { context, page, errors } = await openPage(browser, { httpCredentials: CREDENTIALS, ignoreHTTPSErrors: true });
    await page.goto(`${proxy.url}?transport=${transport}#token=${TOKEN}`);
    await until(page, live, "pictures arrive through the proxy");
    await screenshot(page, `proxy-${transport}`);
    const info = proxy.asked.find(({ url }) => url === "/session.json");
    if (transport !== "webrtc") assert.equal(info.headers["x-nearlight-token"], TOKEN);
    assert.ok(proxy.asked.every(({ headers }) => headers.authorization === BASIC), "the proxy's own password stays in Authorization");
    if (transport !== "auto") assert.deepEqual(errors, []);
    await context.close();
  });
}

test("a wrong token behind a proxy is the link's fault and not the proxy's", async () => {
  const { context, page } = await openPage(browser, { httpCredentials: CREDENTIALS, ignoreHTTPSErrors: true });
  await page.goto(`${proxy.url}#token=another-token-than-that`);
  await untilSays(page, "notice", /This link is not valid here/);
  await context.close();
});

test("a proxy that asks the running page to log in again is named", async () => {
  const { context, page } = await openPage(browser, { httpCredentials: CREDENTIALS, ignoreHTTPSErrors: true });
  await page.route("**/session.json", (route) => route.fulfill({ status: 401, headers: { "www-authenticate": 'Basic realm="proxy"' } }));
  await page.goto(`${proxy.url}#token=${TOKEN}`);
  await untilSays(page, "notice", /A proxy does not let this page through[^]*What the page sees[^]*HTTP Basic/);
  await screenshot(page, "proxy-login");
  await context.close();
});
