// Whatever a part of the page starts ends with it: in virtual time, without a browser.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load } from "./load.mjs";
import { VirtualTime, fakePage, event } from "./virtual.mjs";

// Node 18 has it under this name alone.
globalThis.crypto ??= webcrypto;

const time = new VirtualTime();
const page = fakePage();
const observed = new Set();
const workers = [];
const nodes = [];
let asked = 0;
const animationFrames = new Map();

class Node {
  port = { postMessage: () => undefined };
  fftSize = 2;
  gain = { setTargetAtTime: () => undefined };
  connected = false;
  constructor() {
    nodes.push(this);
    for (const axis of ["positionX", "positionY", "positionZ"]) this[axis] = {};
  }
  connect(other) {
    this.connected = true;
    return other;
  }
  disconnect() {
    this.connected = false;
  }
  getFloatTimeDomainData() {}
}

Object.assign(globalThis, {
  AnalyserNode: Node,
  PannerNode: Node,
  GainNode: Node,
  AudioDecoder: class {},
  AudioEncoder: class {},
  ResizeObserver: class {
    observe(target) {
      observed.add(target);
      this.target = target;
    }
    disconnect() {
      observed.delete(this.target);
    }
  },
  Worker: class {
    constructor() {
      workers.push(this);
    }
    running = true;
    postMessage() {}
    terminate() {
      this.running = false;
    }
  },
  requestAnimationFrame: (act) => {
    animationFrames.set(animationFrames.size + 1, act);
    return animationFrames.size;
  },
  cancelAnimationFrame: (number) => void animationFrames.delete(number),
  location: { href: "https://server.example/?front=https://front.example#token=t", search: "?front=https://front.example", hash: "#token=t", host: "server.example" },
  fetch: async () => {
    asked += 1;
    return new Response("");
  },
});

const { RoomPanel, Fleet, Program, Voices, Walker, Screen, initSync } = await load(
  "room-panel.ts", "fleet.ts", "program.ts", "voices.ts", "walker.ts", "screen.ts", "core/core.js",
);
initSync({ module: readFileSync(new URL("../dist/core.wasm", import.meta.url)) });

/** Fails unless `use` leaves no timer behind. */
async function leavesNoTimer(use) {
  const before = time.timers.size;
  await use();
  assert.deepEqual([...time.timers.values()].map(({ period }) => period).slice(before), []);
}

const output = () => ({ context: { currentTime: 0, listener: {} }, out: new Node() });
const voice = new Uint8Array(64);
voice[3] = 7;
voice[7] = 1;

test("the room's panel ends its interval, its voices and its button", async () => {
  await leavesNoTimer(() => {
    let gestures = 0;
    const panel = new RoomPanel({ onSaid: () => undefined, onNotice: () => undefined, onGesture: () => (gestures += 1), output });
    panel.show({ people: [{ id: 1, name: "Ada", role: "guest", colour: [0, 0, 0] }], you: 1, more: 0 });
    panel.onHeard(voice);
    assert.equal(workers.at(-1).running, true);
    panel.close();
    assert.equal(workers.at(-1).running, false);
    page.element("talk").hidden = false;
    page.element("talk").dispatchEvent(new Event("click"));
    assert.equal(gestures, 0, "the button does nothing any more");
  });
});

test("voices that are closed are connected to nothing, and the next packet starts them again", () => {
  nodes.length = 0;
  const voices = new Voices(output);
  voices.onHeard(voice);
  const made = [...nodes];
  assert.ok(made.some(({ connected }) => connected));
  voices.close();
  assert.deepEqual(made.filter(({ connected }) => connected), []);
  assert.equal(voices.heard(), null);
  voices.onHeard(voice);
  assert.ok(workers.at(-1).running && voices.heard() !== null);
  voices.close();
});

test("voices whose worker fails are tried again after a while", async () => {
  const voices = new Voices(output);
  const say = (number) => {
    const packet = voice.slice();
    packet[7] = number;
    voices.onHeard(packet);
  };
  const { warn } = console;
  console.warn = () => undefined;
  say(1);
  workers.at(-1).onerror({ message: "gone" });
  console.warn = warn;
  const before = workers.length;
  say(2);
  assert.equal(workers.length, before, "not with each packet");
  await time.advance(6_000);
  say(3);
  assert.equal(workers.length, before + 1);
  voices.close();
});

test("a program ends its observer, its timer and its controls", async () => {
  await leavesNoTimer(async () => {
    const sent = [];
    const program = new Program({ onProgram: () => undefined, onNotice: () => undefined, onEnded: () => undefined, send: (message) => sent.push(message), sendPacket: () => undefined }, true);
    assert.equal(observed.size, 1);
    program.onMessage(new TextEncoder().encode(JSON.stringify({ display: { program: "xterm" } })));
    const before = sent.length;
    program.close();
    assert.equal(observed.size, 0);
    page.element("hand-over").dispatchEvent(new Event("click"));
    page.element("windows").dispatchEvent(new Event("change"));
    assert.equal(sent.length, before);
  });
});

test("a program that is closed while the microphone's permission is asked has none", async () => {
  let permit;
  let stopped = 0;
  navigator.mediaDevices = { getUserMedia: () => new Promise((resolve) => (permit = resolve)) };
  const notices = [];
  const program = new Program({ onProgram: () => undefined, onNotice: (words) => notices.push(words), onEnded: () => undefined, send: () => undefined, sendPacket: () => undefined }, true);
  program.onMessage(new TextEncoder().encode(JSON.stringify({ display: { microphone: true } })));
  program.close();
  permit({ getTracks: () => [{ stop: () => (stopped += 1) }] });
  await time.settle();
  assert.equal(stopped, 1);
  assert.deepEqual(notices, []);
});

test("a page of a fleet stops asking after its server, and waits for no gesture", async () => {
  await leavesNoTimer(async () => {
    const shell = { onNotice: () => undefined, onRelocation: () => undefined, onSound: () => undefined };
    const moved = { moves: 1, name: "Ada", seat: null, position: [0, 0, 0], yaw: 0, pitch: 0, inside: true, sound: { volume: 1, muted: false } };
    let gestures = 0;
    const fleet = new Fleet(moved, {
      shell,
      walker: { place: () => undefined, focus: () => undefined },
      loudspeaker: {},
      user: () => ({ head: { position: [0, 0, 0], orientation: [0, 0, 0, 1] }, local: true }),
      onGesture: () => (gestures += 1),
    });
    fleet.restore();
    await time.advance(5_000);
    assert.ok(asked > 0);
    fleet.close();
    page.window.dispatchEvent(new Event("pointerdown"));
    await time.advance(60_000);
    const before = asked;
    await time.advance(60_000);
    assert.deepEqual([asked, gestures], [before, 0]);
  });
});

test("a screen gives its queue back, and closes pictures that come later or are being painted", async () => {
  let painted;
  let closedPainter = 0;
  const painter = { name: "slow", paint: () => new Promise((resolve) => (painted = resolve)), close: () => (closedPainter += 1) };
  const screen = new Screen(painter, { now: () => time.now }, "newest", { onShown: () => undefined, onRefreshRate: () => undefined });
  const open = new Set();
  const show = (number) => {
    open.add(number);
    screen.show(number, { close: () => open.delete(number) }, {}, { capturedAt: time.now * 1_000, deadline: Number.POSITIVE_INFINITY });
  };
  show(1);
  show(2);
  screen.close();
  show(3);
  assert.deepEqual([...open], [1], "the one that is being painted");
  painted(null);
  await time.settle();
  assert.deepEqual([[...open], closedPainter], [[], 1]);
  screen.close();
});

test("a screen's user who is closed listens to nothing", () => {
  const said = [];
  const walker = new Walker(page.element("stage"), { onPresence: () => undefined, onDevice: (_, input) => said.push(input), onToggleHud: () => undefined, onToggleMute: () => undefined, onToggleTalk: () => undefined });
  const field = page.element("typed");
  walker.giveToProgram(field, false);
  walker.close();
  const before = field.focused ?? 0;
  page.document.dispatchEvent(event("change", { target: Object.assign(page.element("windows"), { closest: () => ({}) }) }));
  page.window.dispatchEvent(event("keydown", { code: "KeyW", key: "w", keyCode: 87 }));
  assert.deepEqual([field.focused ?? 0, said], [before, []]);
});

test("the media worker ends soon after the page has closed it", async () => {
  let closed = 0;
  globalThis.close = () => (closed += 1);
  globalThis.postMessage = () => undefined;
  await load("worker.ts");
  globalThis.onmessage({ data: { type: "close" } });
  await time.advance(500);
  assert.equal(closed, 0, "its goodbye leaves");
  await time.advance(2_000);
  assert.equal(closed, 1);
});
