// Parts of the page that decide for a member of a room, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { Volumes } = await load("volume.ts");
const { Pauses } = await load("local/pauses.ts");
const { Resolution } = await load("local/resolution.ts");

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

/** Shares of each side over so many seconds on a machine that takes `fixed` milliseconds for a picture and `pixels` more for all of its pixels;
 *  the display shows at most 60 a second. */
function scales({ fixed, pixels }, seconds, resolution = new Resolution()) {
  const seen = [resolution.scale];
  for (let now = 0; now < seconds; ) {
    const interval = Math.max(1 / 60, (fixed + pixels * resolution.scale ** 2) / 1_000);
    resolution.onPicture(interval);
    now += interval;
    if (seen.at(-1) !== resolution.scale) seen.push(resolution.scale);
  }
  return seen.map((scale) => Number(scale.toFixed(2)));
}

test("a page renders as many pixels as come in time", () => {
  assert.deepEqual(scales({ fixed: 2, pixels: 10 }, 60), [1], "a fast machine renders all");
  assert.deepEqual(scales({ fixed: 5, pixels: 100 }, 60), [1, 0.71, 0.5], "30 a second with a quarter of the pixels");
  assert.deepEqual(scales({ fixed: 5, pixels: 2_000 }, 60), [1, 0.71, 0.5, 0.35], "an eighth at the least");
  assert.deepEqual(scales({ fixed: 300, pixels: 10 }, 60), [1, 0.71, 0.5, 0.35, 1], "pixels are not what is slow");
});

test("more pixels come back when the machine has time again, and are not tried where they would be too many", () => {
  const resolution = new Resolution();
  scales({ fixed: 5, pixels: 200 }, 10, resolution);
  assert.deepEqual(scales({ fixed: 2, pixels: 10 }, 60, resolution).at(-1), 1);
  assert.deepEqual(scales({ fixed: 0, pixels: 43 }, 600), [1, 0.71], "46 a second with half of them, 23 with all");
});

test("a page that was not seen, or had to compile a shader, is not slow", () => {
  const resolution = new Resolution();
  for (let hour = 0; hour < 20; hour += 1) resolution.onPicture(3_600);
  resolution.onPicture(2.5);
  assert.deepEqual(scales({ fixed: 1, pixels: 10 }, 10, resolution), [1]);
});
