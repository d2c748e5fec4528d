// Where the world is rendered if that is left to measurements. Needs no browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { RenderingChooser } = await load("rendering.ts");

/** Where it is rendered after each of these seconds, each of them bad or not. */
function story(chooser, seconds) {
  return seconds.map((bad, second) => {
    const at = second * 1_000;
    if (chooser.rendering === "server") chooser.onStream(at, bad ? 10 : 59, 60, bad ? 400 : 20);
    else chooser.onLocalFrameRate(at, bad ? 8 : 60);
    return chooser.rendering;
  });
}

test("a stream that stays bad is left for the page's own pictures, and a page that is too slow for the stream", () => {
  const [bad, good] = [true, false];
  const hiccup = story(new RenderingChooser("auto"), [good, bad, bad, good, bad, bad, bad, good]);
  assert.ok(hiccup.every((way) => way === "server"), hiccup.join());
  const chooser = new RenderingChooser("auto");
  const ways = story(chooser, [bad, bad, bad, bad, bad, good, bad, bad, bad, bad, bad, bad]);
  assert.deepEqual([ways[3], ways[4]], ["server", "local"]);
  assert.equal(ways.at(-1), "local", "the other way has just been left");
  assert.deepEqual(story(new RenderingChooser("server"), Array(10).fill(bad)), Array(10).fill("server"), "what the user chooses stays");
});

test("a page that cannot render goes back to the server's pictures", () => {
  for (const choice of ["local", "auto"]) {
    const chooser = new RenderingChooser(choice);
    chooser.onLocalFailed(1_000);
    assert.equal(chooser.rendering, "server");
  }
});
