// Gamepads where the browser lets the page have none: without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";
import { fakePage } from "./virtual.mjs";

const page = fakePage({
  getGamepads: () => {
    throw new DOMException("Access to the feature \"gamepad\" is disallowed by permissions policy.", "SecurityError");
  },
});
const { GamepadInput, connected, rumble, Walker } = await load("input/gamepad.ts", "walker.ts");

test("a frame without the policy for gamepads has none, and nothing fails", () => {
  const said = [];
  const walk = { right: 0, up: 0, forward: 0, run: false };
  new GamepadInput({ program: false, onDevice: (_, input) => said.push(input), onLook: () => undefined }).poll(0, 0.1, walk);
  assert.deepEqual([connected(), walk, said], [[], { right: 0, up: 0, forward: 0, run: false }, []]);
  rumble(0, { milliseconds: 10, strong: 1, weak: 1 });
});

test("a user walks, and the page tells where, in a frame without that policy", () => {
  const frames = [];
  globalThis.requestAnimationFrame = (frame) => frames.push(frame);
  globalThis.cancelAnimationFrame = () => undefined;
  const places = [];
  const out = { onPresence: (_, [, , z]) => places.push(z), onDevice: () => undefined, onToggleHud: () => undefined, onToggleMute: () => undefined, onToggleTalk: () => undefined };
  const walker = new Walker(page.element("stage"), out);
  const press = Object.assign(new Event("keydown"), { code: "KeyW", key: "w", keyCode: 87, repeat: false, ctrlKey: false, metaKey: false, altKey: false });
  page.window.dispatchEvent(press);
  for (let step = 1; step <= 20; step += 1) frames.at(-1)(performance.now() + 50 * step);
  assert.ok(places.length > 1 && places.at(-1) < places[0] - 0.5, `${places.length} poses, from ${places[0]} to ${places.at(-1)}`);
  walker.close();
});
