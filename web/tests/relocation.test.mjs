// When a page whose server is gone goes to another one, in virtual time, and what of a link it believes. Needs no browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { Relocation } = await load("relocation.ts");
const { frontOf, linkBy, pageOf, questionTo, takeMovedPage, withFragment } = await load("link.ts");

const OWN = new URL("https://a.example:8090/?room=lab");
const FRONT = new URL("https://front.example");
const OTHER = { page: "https://b.example:8090/?room=lab" };
const SAME = { page: OWN.href };

/** What a page does in `last` ms after it was shown: its server does not answer while `gone`, the front answers by `front`, the other server
 *  answers where `other` says so, each at a time; a question without an answer takes `cost` ms. */
async function story({ gone = () => true, front = () => OTHER, other = () => true, moves = 0, begin = (page) => page.onSilence(1_000), cost = 0, last = 60_000 }) {
  let now = 0;
  const story = { asked: [], said: [], went: null };
  const pass = (milliseconds) => {
    now += milliseconds;
    if (now >= last) page.close();
  };
  const page = new Relocation(OWN, FRONT, moves, {
    now: () => now,
    sleep: async (milliseconds) => pass(milliseconds),
    serverAnswers: async ({ origin }) => {
      const answers = origin === OWN.origin ? !gone(now) : other(now);
      if (!answers) pass(cost);
      return answers;
    },
    askFront: async () => {
      story.asked.push(now);
      const answer = front(now);
      if (!answer) pass(cost);
      return answer;
    },
    say: (words) => story.said.push(words),
    go: ({ href }, moves) => {
      story.went = { to: href, moves, at: now };
    },
  });
  page.onLive();
  // The page has shown the world for long, unless it has just come.
  now = moves === 0 ? 20_000 : 0;
  last += now;
  const began = now;
  begin(page);
  // Each answer is a promise that is there at once.
  for (let turn = 0; turn < 20_000 && now < last && !story.went; turn += 1) await Promise.resolve();
  story.asked = story.asked.map((at) => at - began);
  if (story.went) story.went.at -= began;
  return story;
}

test("a page goes as soon as its server is gone and the front names another one", async () => {
  const killed = await story({});
  assert.deepEqual(killed.went, { to: OTHER.page, moves: 1, at: 1_000 }, "after two seconds of silence, of which one had passed");
  assert.deepEqual(killed.said, ["Asking front.example for another one…", "Going to b.example:8090…"]);
  const forgetful = await story({ front: (now) => (now < 22_500 ? SAME : OTHER) });
  assert.deepEqual(forgetful.went, { to: OTHER.page, moves: 1, at: 2_500 }, "a front names the killed server for three seconds");
  const closing = await story({ begin: (page) => page.onGoodbye(), gone: (now) => now >= 20_300 });
  assert.equal(closing.went.at, 500, "who says goodbye is gone with the first question that it does not answer");
  const unplugged = await story({ cost: 1_500 });
  assert.equal(unplugged.went.at, 1_500, "a machine that is gone answers nothing");
});

test("a page stays where its server answers, or where nothing else does", async () => {
  const busy = await story({ gone: () => false });
  assert.deepEqual(busy, { asked: [], said: [], went: null });
  const hiccup = await story({ gone: (now) => now < 20_900 });
  assert.deepEqual(hiccup, { asked: [], said: [], went: null }, "two seconds have not passed");
  const removed = await story({ begin: (page) => page.onGoodbye(), gone: () => false });
  assert.deepEqual(removed.asked, [], "who is removed from a room has a server");
  const offline = await story({ front: () => null, gone: (now) => now < 50_000 });
  assert.equal(offline.went, null);
  assert.match(offline.said.at(-2), /front.example does not answer this page either/);
  assert.equal(offline.said.at(-1), null, "the notice goes when the server is there again");
  const alone = await story({ front: () => ({ words: "No server is running at the moment." }) });
  assert.match(alone.said.at(-1), /front.example says: No server is running/);
  assert.ok(alone.asked.length > 8 && alone.asked.length < 25, `it asks less and less often: ${alone.asked}`);
  assert.ok(alone.asked.at(-1) - alone.asked.at(-2) === 10_000, `${alone.asked}`);
});

test("servers that are not there do not make a page go round and round", async () => {
  const two = await story({ other: (now) => now >= 22_000 });
  assert.equal(two.went.at, 2_000, "a server that does not answer either is asked about again");
  const unknown = await story({ other: () => false });
  assert.equal(unknown.went.at, 5_000, "the browser may have to ask its user about its certificate");
  const stays = [];
  for (const moves of [1, 2, 3, 4, 5, 6, 7, 100]) stays.push((await story({ moves, last: 100_000, begin: (page) => page.onGoodbye() })).went);
  assert.deepEqual(stays.map(({ moves }) => moves), [2, 3, 4, 5, 6, 7, 8, 101]);
  // A question every half second.
  const expected = [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000];
  assert.deepEqual(stays.map(({ at }) => at), expected, "it stays for longer with every move");
});

test("only the origin of a front that browsers can trust is asked, and it is not told the token", () => {
  for (const bad of ["javascript:alert(1)", "http://front.example", "https://front.example/path", "https://me:secret@front.example", "front.example", "", "data:text/html,x", "http://127.0.0.1.example"]) {
    assert.equal(frontOf(`?front=${encodeURIComponent(bad)}`), "unsafe", bad);
  }
  assert.equal(frontOf("?room=lab"), null);
  for (const good of ["https://front.example", "https://front.example:8443", "http://localhost:8443", "http://127.0.0.1:8443", "http://[::1]:8443"]) {
    assert.equal(frontOf(`?room=lab&front=${good}`).origin, good);
  }
  for (const bad of [undefined, null, 7, "javascript:alert(1)", "http://b.example/", "http://localhost:8090/", "/elsewhere"]) assert.equal(pageOf(bad), null, String(bad));
  const search = "?room=lab&transport=webrtc&front=https://front.example";
  assert.equal(questionTo(FRONT, search).href, "https://front.example/page.json?room=lab&transport=webrtc");
  const hash = "#token=secret&certificate=ab";
  assert.equal(linkBy(FRONT, search, hash).href, "https://front.example/r/lab?transport=webrtc#token=secret", "the certificate is the other server's");
  assert.equal(linkBy(FRONT, "?front=https://front.example", hash).href, "https://front.example/#token=secret");
});

test("what a page takes along comes out of the next one's address, or nothing does", () => {
  const movedPage = { moves: 1, name: "Ada & Bea #1", seat: "00".repeat(16), position: [1, 1.6, -2.5], yaw: 0.5, pitch: -0.1, inside: true, sound: { volume: 0.5, muted: false } };
  const there = withFragment(new URL(OTHER.page), "#token=a+b%2F&certificate=ab&moved=old", movedPage);
  assert.equal(there.href.split("#")[0], OTHER.page, "servers are told nothing of it");
  assert.deepEqual(takeMovedPage(there.hash), { movedPage, hash: "#token=a+b%2F" });
  assert.deepEqual(takeMovedPage("#token=x"), { movedPage: null, hash: "#token=x" });
  for (const wrong of [{ moves: 0 }, { name: 7 }, { seat: "zz" }, { position: [1, 2] }, { position: null }, { yaw: "1" }, { inside: 1 }, { sound: { volume: 7, muted: false } }, { sound: null }]) {
    const text = JSON.stringify({ ...movedPage, ...wrong });
    assert.deepEqual(takeMovedPage(`#token=x&moved=${encodeURIComponent(text)}`), { movedPage: null, hash: "#token=x" }, text);
  }
  assert.equal(takeMovedPage("#token=x&moved={").movedPage, null);
});
