// Which pictures the page paints, and when: in virtual time, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load } from "./load.mjs";

const { Screen, initSync } = await load("screen.ts", "core/core.js");
initSync({ module: readFileSync(new URL("../dist/core.wasm", import.meta.url)) });

/** A screen whose painter takes `paintMs`, in a page whose time stands still but for that. */
class Page {
  now = 0;
  painted = [];
  shown = [];
  #frame = null;
  #pictures = 0;
  #screen;

  constructor(paintMs, order = "newest") {
    Object.defineProperty(globalThis, "performance", { configurable: true, value: { now: () => this.now } });
    globalThis.requestAnimationFrame = (frame) => void (this.#frame = frame);
    globalThis.cancelAnimationFrame = () => (this.#frame = null);
    const painter = {
      name: "virtual",
      paint: ({ number }) => {
        this.now += paintMs;
        this.painted.push(number);
        return null;
      },
    };
    this.#screen = new Screen(painter, { now: () => this.now }, order, { onShown: (frame) => this.shown.push(frame), onRefreshRate: () => undefined });
  }

  /** A picture has been decoded. */
  async picture() {
    const number = this.#pictures++;
    this.#screen.show(number, { number, close: () => undefined }, {}, { capturedAt: this.now * 1_000, deadline: Number.POSITIVE_INFINITY });
    await settled();
  }

  /** The display takes what is on the canvas. */
  async chance() {
    const frame = this.#frame;
    this.#frame = null;
    frame?.(this.now);
    await settled();
  }

  /** Runs for `milliseconds`, with a picture and an animation frame whenever they are due. */
  async run(milliseconds, pictureMs, chanceMs) {
    const end = this.now + milliseconds;
    for (let [picture, chance] = [this.now, this.now + chanceMs / 2]; Math.min(picture, chance) < end; ) {
      this.now = Math.max(this.now, Math.min(picture, chance));
      if (picture <= chance) [picture] = [picture + pictureMs, await this.picture()];
      else [chance] = [chance + chanceMs, await this.chance()];
    }
  }

  close() {
    this.#screen.close();
    delete globalThis.performance;
  }
}

/** What was asked for at once, or by a timer without delay, has happened. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 2));

test("where painting is quick the display gets the newest of the pictures that came since the last refresh", async () => {
  const page = new Page(0.5);
  await page.run(500, 5, 1_000 / 60);
  assert.ok(page.painted.length >= 95, `${page.painted.length} of 100 pictures are painted`);
  assert.ok(page.shown.length >= 28, `${page.shown.length} refreshes show a new picture`);
  page.close();
});

test("where painting is slow a picture waits for its refresh, and the processor is left to others", async () => {
  const page = new Page(12);
  await page.run(500, 1_000 / 90, 1_000 / 60);
  assert.ok(page.painted.length <= page.shown.length + 3, `${page.painted.length} pictures painted for ${page.shown.length} shown`);
  page.close();
});

for (const order of ["newest", "in-turn"]) {
  test(`without refreshes a page paints ten pictures a second at most, and none once it is not looked at (${order})`, async () => {
    const page = new Page(12, order);
    await page.run(500, 1_000 / 30, 1_000 / 60);
    const before = page.painted.length;
    await page.run(3_000, 1_000 / 30, Number.POSITIVE_INFINITY);
    const unseen = page.painted.length - before;
    assert.ok(unseen >= 1 && unseen <= 11, `${unseen} pictures are painted that nobody sees`);
    await page.run(300, 1_000 / 30, 1_000 / 60);
    assert.ok(page.shown.at(-1) >= 110, `picture ${page.shown.at(-1)} of about 114 is shown when it is looked at again`);
    page.close();
  });
}
