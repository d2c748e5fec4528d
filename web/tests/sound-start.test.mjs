// Starting and ending microphone and loudspeaker, whatever happens meanwhile: in virtual time, without a browser.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { load } from "./load.mjs";
import { VirtualTime, fakePage, outcome } from "./virtual.mjs";

const time = new VirtualTime();
fakePage();
const { Microphone, Loudspeaker } = await load("microphone.ts", "loudspeaker.ts");

/** What the browser has running. */
let browser;

beforeEach(() => {
  browser = { asked: [], tracks: [], contexts: [], workers: [], elements: [], addModule: async () => undefined };
});

class Track extends EventTarget {
  live = true;
  onended = null;
  stop() {
    this.live = false;
  }
}

class Node {
  port = { postMessage: () => undefined };
  fftSize = 2;
  gain = { setTargetAtTime: () => undefined };
  connect(other) {
    return other;
  }
  disconnect() {}
  getFloatTimeDomainData() {}
}

Object.assign(globalThis, {
  AudioEncoder: class {},
  AudioWorkletNode: Node,
  AnalyserNode: Node,
  MediaStream: class {},
  localStorage: { getItem: () => null, setItem: () => undefined },
  AudioContext: class {
    state = "suspended";
    destination = new Node();
    currentTime = 0;
    audioWorklet = { addModule: () => browser.addModule() };
    constructor() {
      browser.contexts.push(this);
    }
    createMediaStreamSource = () => new Node();
    createGain = () => new Node();
    createChannelSplitter = () => new Node();
    getOutputTimestamp = () => ({});
    async resume() {
      this.state = "running";
    }
    async close() {
      this.state = "closed";
    }
  },
  Worker: class {
    running = true;
    constructor() {
      browser.workers.push(this);
    }
    postMessage() {}
    terminate() {
      this.running = false;
    }
  },
  Audio: class {
    srcObject = null;
    paused = true;
    plays = 0;
    constructor() {
      browser.elements.push(this);
    }
    async play() {
      this.plays += 1;
      this.paused = false;
    }
    pause() {
      this.paused = true;
    }
  },
});
navigator.mediaDevices = { getUserMedia: () => new Promise((permit, refuse) => browser.asked.push({ permit: () => permit(stream()), refuse })) };

function stream() {
  const track = new Track();
  browser.tracks.push(track);
  return { getTracks: () => [track] };
}

const running = () => ({
  tracks: browser.tracks.filter(({ live }) => live).length,
  contexts: browser.contexts.filter(({ state }) => state !== "closed").length,
  workers: browser.workers.filter((worker) => worker.running).length,
});
const NOTHING = { tracks: 0, contexts: 0, workers: 0 };
const ONE = { tracks: 1, contexts: 1, workers: 1 };

/** A microphone, and why it ended by itself. */
function openMicrophone(send = () => undefined) {
  const ended = [];
  // The older interface took the function that sends.
  const out = Object.assign((packet) => send(packet), { onPacket: send, onEnded: (why) => ended.push(why) });
  return { microphone: new Microphone(out), ended };
}

test("a microphone that is stopped while its permission is asked never goes on", async () => {
  const { microphone } = openMicrophone();
  const started = outcome(microphone.start());
  microphone.stop();
  browser.asked[0].permit();
  await time.settle();
  assert.deepEqual(running(), NOTHING);
  assert.deepEqual(await started, { value: false });
});

test("a microphone that is stopped and started again while its permission is asked is on once, and can be stopped", async () => {
  const { microphone } = openMicrophone();
  const first = outcome(microphone.start());
  microphone.stop();
  const second = outcome(microphone.start());
  for (const asked of browser.asked) asked.permit();
  await time.settle();
  assert.deepEqual(running(), ONE);
  assert.deepEqual([await first, await second], [{ value: false }, { value: true }]);
  microphone.stop();
  assert.deepEqual(running(), NOTHING);
});

test("a microphone that is stopped while its worklet loads, or whose worklet does not load, does not stay on", async () => {
  for (const [load, expected] of [[() => time.settle(), { value: false }], [() => Promise.reject(new Error("no worklet")), { error: "no worklet" }]]) {
    browser.addModule = load;
    const { microphone } = openMicrophone();
    const started = outcome(microphone.start());
    browser.asked.at(-1).permit();
    await new Promise((resolve) => setImmediate(resolve));
    if ("value" in expected) microphone.stop();
    await time.settle();
    await time.settle();
    assert.deepEqual(running(), NOTHING);
    const { value, error } = await started;
    assert.deepEqual([value, error?.message], [expected.value, expected.error]);
  }
});

test("a refusal is reported to whoever still waits for the microphone, and it can be asked for again", async () => {
  const { microphone } = openMicrophone();
  const first = outcome(microphone.start());
  browser.asked[0].refuse(new Error("denied"));
  assert.equal((await first).error.message, "denied");
  const second = outcome(microphone.start());
  microphone.stop();
  browser.asked[1].refuse(new Error("denied"));
  assert.deepEqual(await second, { value: false });
  const third = outcome(microphone.start());
  browser.asked[2].permit();
  assert.deepEqual(await third, { value: true });
  assert.deepEqual(running(), ONE);
  microphone.stop();
});

test("a microphone that is unplugged, or whose encoder fails, says so and ends", async () => {
  for (const fail of [() => browser.tracks.at(-1).onended?.(), () => browser.workers.at(-1).onerror?.({ message: "no Opus" })]) {
    const { microphone, ended } = openMicrophone();
    const started = microphone.start();
    browser.asked.at(-1).permit();
    await started;
    fail();
    assert.equal(ended.length, 1);
    assert.deepEqual(running(), NOTHING);
  }
});

/** A loudspeaker and how many ports the worker got. */
function openLoudspeaker() {
  let ports = 0;
  return { loudspeaker: new Loudspeaker({ onPort: () => (ports += 1), onClock: () => undefined }), ports: () => ports };
}

test("a loudspeaker whose worklet fails once is tried again at the next gesture", async () => {
  const { loudspeaker, ports } = openLoudspeaker();
  browser.addModule = async () => {
    throw new Error("no network");
  };
  assert.equal((await outcome(loudspeaker.start())).error.message, "no network");
  assert.equal(loudspeaker.output, null);
  assert.equal(running().contexts, 0, "the context that failed is closed");
  browser.addModule = async () => undefined;
  await Promise.all([loudspeaker.start(), loudspeaker.start()]);
  assert.equal(ports(), 1);
  assert.equal(loudspeaker.output.context.state, "running");
  assert.equal(running().contexts, 1, "gestures that follow each other start one sound");
});

test("WebRTC's own sound is played where the worklet fails", async () => {
  const { loudspeaker } = openLoudspeaker();
  browser.addModule = async () => {
    throw new Error("no network");
  };
  loudspeaker.track = {};
  assert.equal(browser.elements[0].plays, 0, "not before a gesture");
  await outcome(loudspeaker.start());
  assert.equal(browser.elements[0].plays, 1);
});

test("a loudspeaker that is closed leaves no timer, no context and no track, also while it starts", async () => {
  const before = time.timers.size;
  const { loudspeaker } = openLoudspeaker();
  await loudspeaker.start();
  loudspeaker.track = {};
  assert.equal(time.timers.size, before + 1);
  loudspeaker.close();
  const starting = openLoudspeaker().loudspeaker;
  const started = outcome(starting.start());
  starting.close();
  await started;
  await outcome(starting.start());
  assert.equal(time.timers.size, before);
  assert.equal(running().contexts, 0);
  assert.ok(browser.elements.every(({ srcObject, paused }) => srcObject === null && paused));
});
