// Parts of the page that decide for a member of a room, without a browser: Node reads the page's own TypeScript through esbuild.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

async function load(name) {
  const source = new URL(`../src/${name}`, import.meta.url).pathname;
  const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

const { Volumes } = await load("volume.ts");
const { Pauses } = await load("local/pauses.ts");

const LOW = { volume: 0.3, muted: false };
const MUTED = { volume: 1, muted: true };
const USUAL = { volume: 1, muted: false };

test("who leaves and comes back is as loud as before, and nobody else is", () => {
  const volumes = new Volumes();
  const there = (names) => volumes.setMembers(new Map(Object.entries(names).map(([id, name]) => [Number(id), name])));
  there({ 1: "Ada", 2: "Bea", 3: "Cy" });
  volumes.set(2, LOW);
  volumes.set(3, MUTED);
  there({ 1: "Ada" });
  there({ 1: "Ada", 4: "Dan", 5: "Bea" });
  assert.deepEqual([4, 5].map((member) => volumes.of(member)), [USUAL, LOW]);
  there({ 1: "Ada", 4: "Dan", 5: "Bea", 6: "Bea", 7: "Cy" });
  assert.deepEqual([6, 7].map((member) => volumes.of(member)), [USUAL, MUTED], "a name stands for one who left");
  // The whole list is gone for a while where the page changes who renders.
  there({});
  there({ 7: "Cy", 3: "Bea", 5: "Bea" });
  assert.deepEqual([3, 5, 7].map((member) => volumes.of(member)), [USUAL, LOW, MUTED]);
  volumes.set(7, USUAL);
  there({});
  there({ 8: "Cy" });
  assert.deepEqual(volumes.of(8), USUAL, "what the user takes back is gone");
});

test("of those who left at most 256 are remembered", () => {
  const volumes = new Volumes();
  for (let member = 1; member <= 1_000; member += 1) {
    volumes.setMembers(new Map([[member, `member ${member}`]]));
    volumes.set(member, LOW);
  }
  volumes.setMembers(new Map());
  volumes.setMembers(new Map([[2_001, "member 744"], [2_002, "member 745"]]));
  assert.deepEqual([2_001, 2_002].map((member) => volumes.of(member)), [USUAL, LOW]);
});

test("pauses grow up to 8 s, and differ from page to page", () => {
  for (const [draw, share] of [[0, 0.5], [1, 1]]) {
    const pauses = new Pauses(() => draw);
    assert.deepEqual(Array.from({ length: 7 }, () => pauses.next()), [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].map((most) => most * share));
  }
});
