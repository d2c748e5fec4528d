// The room's panel when the user changes to another session: another transport, or another one who renders. In virtual time, without a browser.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { load } from "./load.mjs";
import { VirtualTime, fakePage } from "./virtual.mjs";

const time = new VirtualTime();
let recordings = 0;
const track = { stop: () => (recordings -= 1) };
const mediaDevices = {
  getUserMedia: async () => {
    recordings += 1;
    return { getTracks: () => [track] };
  },
};
const page = fakePage({ mediaDevices });

class Node {
  port = { postMessage: () => undefined };
  connect() {}
  disconnect() {}
}

Object.assign(globalThis, {
  AudioEncoder: class {},
  AudioWorkletNode: Node,
  AudioContext: class {
    audioWorklet = { addModule: async () => undefined };
    createMediaStreamSource = () => new Node();
    close = async () => undefined;
  },
  Worker: class {
    postMessage() {}
    terminate() {}
  },
});

const { RoomPanel } = await load("room-panel.ts");

const person = (id, name, role = "guest") => ({ id, name, role, colour: [0, 0, 0] });
const bea = person(2, "Bea");
const members = () => page.element("people-list").children.map(({ dataset }) => Number(dataset.member));
const isTalking = () => page.element("talk").getAttribute("aria-pressed") === "true";

let panel;
let notices;
beforeEach(() => {
  notices = [];
  panel = new RoomPanel({ onSaid: () => undefined, onNotice: (words) => notices.push(words), onGesture: () => undefined, output: () => null });
});
afterEach(() => panel.close());

test("the user's own name stands once while the session before lingers in the room", () => {
  panel.show({ people: [person(1, "Ada"), bea], you: 1, more: 0 });
  panel.show({ people: [person(1, "Ada"), bea, person(3, "Ada", "host")], you: 3, more: 0 });
  assert.deepEqual(members(), [2, 3]);
  panel.show({ people: [bea, person(3, "Ada", "host")], you: 3, more: 0 });
  panel.onSessionChange();
  panel.show({ people: [bea, person(3, "Ada", "host"), person(4, "Ada")], you: 4, more: 0 });
  assert.deepEqual(members(), [2, 4]);
  assert.deepEqual(notices, [], "nobody has come or gone");
  panel.show({ people: [bea, person(4, "Ada"), person(5, "Ada")], you: 4, more: 0 });
  assert.deepEqual([members(), notices], [[2, 4, 5], ["Ada joined"]], "another user of that name is another user");
});

test("talking survives a change of transport", async () => {
  panel.show({ people: [person(1, "Ada"), bea], you: 1, more: 0 });
  panel.toggleTalking();
  await time.advance(10);
  assert.deepEqual([isTalking(), recordings], [true, 1]);
  panel.onSessionChange();
  await time.advance(3_000);
  panel.show({ people: [bea, person(3, "Ada")], you: 3, more: 0 });
  await time.advance(60_000);
  assert.deepEqual([isTalking(), recordings, page.element("talk").hidden], [true, 1, false]);
});

test("the microphone is given back when no other session follows, or one in which the user may not talk", async () => {
  for (const next of [() => undefined, () => panel.show({ people: [bea, person(3, "Ada", "spectator")], you: 3, more: 0 })]) {
    panel.show({ people: [person(1, "Ada"), bea], you: 1, more: 0 });
    panel.toggleTalking();
    await time.advance(10);
    panel.onSessionChange();
    next();
    await time.advance(10_000);
    assert.deepEqual([isTalking(), recordings], [false, 0]);
  }
});
