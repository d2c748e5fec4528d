// Pages on servers of one fleet, behind a front: a page goes to another server when its own dies or closes.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { binary, eventually, live, openBrowser, openPage, screenshot, startNats, startServer, until } from "./helper.mjs";

const TOKEN = "a-token-for-the-page-tests";
/** Name of the synthetic crowd's first member. */
const MEMBER = "synthetic-0";
/** Servers listen on this machine alone, whatever network it has. */
const LOOPBACK = ["--host", "127.0.0.1"];
/** The smallest stream that shows pictures: servers and browsers share two processors. */
const TINY = ["--size", "320x180", "--fps", "10"];

let browser;

before(async () => {
  browser = await openBrowser();
});

after(() => browser?.close());

const originOf = ({ port }) => `https://127.0.0.1:${port}`;

/** Two servers behind a front, until the test ends. */
async function startFleet(context, more = []) {
  const running = [];
  context.after(() => Promise.all(running.map((program) => program.stop("SIGKILL"))));
  const keep = async (starting) => {
    const program = await starting;
    running.push(program);
    return program;
  };
  const nats = await keep(startNats());
  const startOne = () => keep(startServer({ token: TOKEN, more: [...TINY, ...LOOPBACK, "--nats", nats.url, ...more] }));
  const servers = await Promise.all([startOne(), startOne()]);
  const front = await keep(startServer({ command: "front", token: TOKEN, more: [...LOOPBACK, "--nats", nats.url] }));
  /** Waits until the front knows so many servers. */
  const untilKnown = async (count) => {
    const ask = async () => {
      const answer = await fetch(`http://127.0.0.1:${front.port}/servers.json`, { headers: { Authorization: `Bearer ${TOKEN}` } });
      return answer.ok ? (await answer.json()).servers.length : 0;
    };
    assert.equal(await eventually(ask, (known) => known === count), count, "servers that the front knows");
  };
  await untilKnown(2);
  return { servers, front, startOne, untilKnown };
}

/** A page whose user has typed `name` on the first server that it comes to, and on no other. `said` is what its notices say. */
async function openNamed(context, name, address) {
  // Each server has a certificate of its own, which its user would be asked about.
  const { context: own, page, errors } = await openPage(browser, { viewport: { width: 640, height: 360 }, ignoreHTTPSErrors: true });
  context.after(() => own.close());
  await page.addInitScript((name) => location.hash.includes("moved=") || localStorage.setItem("nearlight-name", name), name);
  const said = [];
  await page.exposeFunction("onNotice", (words) => said.push(words));
  // The page may leave before anybody could look at it.
  await page.addInitScript(() => addEventListener("DOMContentLoaded", () => {
    for (const id of ["notice-text", "toast"]) {
      const words = document.getElementById(id);
      new MutationObserver(() => window.onNotice(words.innerText)).observe(words, { childList: true });
    }
  }));
  await page.goto(`${address}#token=${TOKEN}`);
  await page.locator("#enter").click();
  return { page, errors, said };
}

/** Waits until the page is on this server, with its user's name and inside. */
async function untilOn(page, server, name) {
  await eventually(() => page.url().startsWith(`${originOf(server)}/`), Boolean);
  await until(page, live, "the server's pictures come");
  assert.ok(page.url().startsWith(`${originOf(server)}/`), page.url());
  const known = await page.evaluate(() => [document.getElementById("user-name").value, document.body.dataset.view, location.hash]);
  assert.deepEqual(known, [name, "world", `#token=${TOKEN}`]);
}

/** What went wrong in the page that is not a consequence of a server that is gone. */
const unexpected = (errors) => errors.filter((words) => !/ERR_|WebTransport|WebSocket/.test(words));

test("a page goes to another server when its own closes, and when that is killed", async (context) => {
  const { servers, front, startOne, untilKnown } = await startFleet(context, ["--test-card"]);
  const { page, errors, said } = await openNamed(context, "Bea", `${originOf(front)}/?transport=webtransport`);
  const [first, second] = page.url().startsWith(originOf(servers[0])) ? servers : [...servers].reverse();
  await untilOn(page, first, "Bea");
  const { search } = new URL(page.url());
  assert.equal(search, `?transport=webtransport&front=${originOf(front)}`);

  let began = performance.now();
  await first.stop("SIGTERM");
  await untilOn(page, second, "Bea");
  context.diagnostic(`on another server ${Math.round(performance.now() - began)} ms after its own was told to close`);
  await screenshot(page, "fleet-moved");
  assert.equal(new URL(page.url()).search, search, "its options are kept");
  const asks = `Asking 127.0.0.1:${front.port} for another one…`;
  assert.ok(said.splice(0).includes(asks));

  const third = await startOne();
  await untilKnown(2);
  began = performance.now();
  await second.stop("SIGKILL");
  await untilOn(page, third, "Bea");
  context.diagnostic(`on another server ${Math.round(performance.now() - began)} ms after its own was killed`);
  assert.ok(said.includes(asks));
  assert.deepEqual(unexpected(errors), []);
});

/** A member of the room on this server, until the test ends. */
function startMember(context, server, room) {
  const child = spawn(binary, ["swarm", server.url, "--room", room, "--clients", "1", "--seconds", "120"], { stdio: "ignore" });
  context.after(async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
}

/** Waits until the page renders its room, on this server, in which these are and nobody else; returns their numbers. */
async function untilIn({ page, said }, server, ...names) {
  const ask = () => page.evaluate(() => (document.body.dataset.rendering === "local" ? window.nearlight.room.people : [])).catch(() => []);
  const isThere = (people) => page.url().startsWith(originOf(server)) && people.map(({ name }) => name).sort().join() === [...names].sort().join();
  const people = await eventually(ask, isThere, 60_000);
  if (!isThere(people)) {
    const texts = () => ["status", "toast", "offer-text", "notice-text"].map((id) => `${id}: ${document.getElementById(id).innerText}`);
    const seen = await page.evaluate(texts).catch(() => ["no page"]);
    const log = server.log().split("\n").slice(-20).join("\n");
    assert.fail(`${page.url()} knows ${JSON.stringify(people)}, and has said: ${said.join(" | ")}. It says: ${seen.join(" | ")}. Its server:\n${log}`);
  }
  return names.map((name) => people.find((person) => person.name === name).id);
}

test("a page that renders the world itself is in its room again on another server", async (context) => {
  const { servers, front } = await startFleet(context);
  const opened = await openNamed(context, "Ada", `${originOf(front)}/r/lab?rendering=local`);
  const { page, errors } = opened;
  const [first, second] = page.url().startsWith(originOf(servers[0])) ? servers : [...servers].reverse();
  await untilIn(opened, first, "Ada");
  // The room is where the page is, and goes on where the other member is.
  startMember(context, second, "lab");
  const [seat, member] = await untilIn(opened, first, "Ada", MEMBER);
  const began = performance.now();
  await first.stop("SIGKILL");
  await untilOn(page, second, "Ada");
  const [seatAfter, after] = await untilIn(opened, second, "Ada", MEMBER);
  // A seat is kept for 8 s, in which a page is not loaded and drawn on every machine.
  const kept = seatAfter === seat ? "in its own seat" : "in another seat";
  context.diagnostic(`a member again ${Math.round(performance.now() - began)} ms after its server was killed, ${kept}`);
  assert.equal(after, member, "it is the same room");
  assert.equal(new URL(page.url()).search, `?room=lab&rendering=local&front=${originOf(front)}`);
  await screenshot(page, "fleet-local-moved");
  assert.deepEqual(unexpected(errors), []);
});
