// How a session is dialled, watched and ended, and what the page says of failures: in virtual time, without a browser or a server.

import assert from "node:assert/strict";
import { after, afterEach, beforeEach, test } from "node:test";
import { load } from "./load.mjs";
import { VirtualTime, fakePage, FakeElement, outcome } from "./virtual.mjs";

const time = new VirtualTime();
fakePage();

const channels = [];
globalThis.MessageChannel = class extends MessageChannel {
  constructor() {
    super();
    channels.push(this);
  }
};
after(() => {
  for (const { port1, port2 } of channels) for (const port of [port1, port2]) port.close();
});

/** What the network does: `session.json`, `whep`, and the three transports. */
let network;
/** Which transport was dialled when, and what the page was told. */
let log;

beforeEach(() => {
  network = { sessionJson: true, whep: true, whepMs: 10, webtransport: "silent", webrtc: "silent", websocket: "open" };
  log = { begun: time.now, dialled: [], opened: [], left: [], requests: [], states: [], control: 0, lost: 0 };
});

let connection;
afterEach(async () => {
  connection?.close();
  await time.advance(20_000);
});

globalThis.VideoDecoder = class {};
globalThis.fetch = async (address, { method = "GET", headers = {}, signal } = {}) => {
  const { pathname } = new URL(address);
  log.requests.push({ method, pathname, headers });
  if (pathname.startsWith("/whep") && method === "POST") log.dialled.push(["webrtc", time.now]);
  const answers = pathname.startsWith("/whep") ? network.whep : network.sessionJson;
  if (signal?.aborted) throw signal.reason;
  if (!answers) throw new TypeError("Failed to fetch");
  if (method === "DELETE") await new Promise((resolve) => setTimeout(resolve, 40));
  if (method === "DELETE") log.left.push(["webrtc", time.now]);
  const answer = "v=0\r\na=candidate:1 1 udp 1 192.0.2.1 8091 typ host\r\n";
  if (method === "POST") await new Promise((resolve) => setTimeout(resolve, network.whepMs));
  if (pathname.startsWith("/whep")) return new Response(answer, { status: 201, headers: { location: "/whep/1" } });
  return network.answer?.() ?? Response.json({ certificate_sha256: null });
};
globalThis.WebTransport = class {
  closed = new Promise(() => undefined);
  ready = new Promise((resolve, reject) => {
    this.fail = reject;
    if (typeof network.webtransport === "number") setTimeout(resolve, network.webtransport);
    if (network.webtransport === "refused") setTimeout(() => reject(new Error("Opening handshake failed.")), 6);
  });
  datagrams = { readable: new ReadableStream(), writable: new WritableStream() };
  incomingUnidirectionalStreams = new ReadableStream({
    start: (streams) => {
      const challenge = new ReadableStream({
        start(stream) {
          stream.enqueue(new TextEncoder().encode("challenge"));
          stream.close();
        },
      });
      streams.enqueue(challenge);
    },
  });
  createBidirectionalStream = async () => ({ readable: new ReadableStream(), writable: new WritableStream() });
  constructor() {
    log.dialled.push(["webtransport", time.now]);
  }
  close() {
    log.left.push(["webtransport", time.now]);
    this.fail(new Error("closed"));
  }
};
globalThis.WebSocket = class {
  static OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  constructor() {
    log.dialled.push(["websocket", time.now]);
    network.socket = this;
    setTimeout(() => network.websocket === "open" && this.onmessage?.({ data: "challenge" }), 20);
  }
  send() {}
  close() {
    log.left.push(["websocket", time.now]);
  }
};
globalThis.RTCPeerConnection = class {
  connectionState = "new";
  addTransceiver = () => ({ receiver: { track: {} } });
  createDataChannel = () => {
    const channel = { readyState: "connecting", close: () => undefined };
    this.channels = [...(this.channels ?? []), channel];
    network.peer = this;
    return channel;
  };
  createOffer = async () => ({ sdp: "v=0" });
  getConfiguration = () => ({});
  setLocalDescription = async () => undefined;
  setRemoteDescription = async () => {
    if (network.webrtc === "open") this.open();
  };
  getStats = async () => new Map((network.stats ?? []).map((one, index) => [index, one]));
  open() {
    for (const channel of this.channels) channel.readyState = "open";
    for (const channel of this.channels) channel.onopen();
  }
  close() {}
};
globalThis.RTCRtpReceiver = { getCapabilities: () => ({ codecs: [] }) };
document.createElement = () => Object.assign(new FakeElement(), { requestVideoFrameCallback: () => undefined, play: async () => undefined });
globalThis.MediaStream = class {};

const { Connection, Peer, explain } = await load("connection.ts", "peer.ts", "carrier.ts");

function connect({ transport = "auto", remembered = null } = {}) {
  const options = { origin: "https://server.example/", token: "t", certificate: null, transport, remembered, webrtc: true };
  return new Connection(options, {
    askForPeer: (port) => new Peer({ port, origin: options.origin, token: "t", codecs: ["h264", "vp8"], onSound: () => undefined, audible: () => false, onCarriage: () => undefined }),
    onOpen: (carrier, why, remembered) => log.opened.push({ name: carrier.name, at: time.now, why, remembered }),
    onControl: () => (log.control += 1),
    onDatagram: () => undefined,
    onPicture: () => undefined,
    onCounts: () => undefined,
    onSoundCounts: () => undefined,
    onUndecodable: () => log.states.push({ state: "undecodable" }),
    onRefused: (reason, message) => log.states.push({ state: "refused", reason, message }),
    onLost: () => (log.lost += 1),
    onState: (state) => log.states.push(state),
  });
}

/** The transports dialled, each with the time since the connection began. */
const dialled = () => log.dialled.map(([name, at]) => [name, at - log.begun]);
const won = () => log.opened.map(({ name, at }) => [name, at - log.begun]);

test("on a network that lets only TCP through, the transports race and the WebSocket wins within a second", async () => {
  connection = connect();
  await time.advance(3_000);
  assert.deepEqual(dialled(), [["webtransport", 0], ["webrtc", 250], ["websocket", 500]]);
  const [[name, at]] = won();
  assert.equal(name, "websocket");
  assert.ok(at <= 900, `open after ${at} ms`);
  assert.equal(log.opened[0].why, "WebTransport does not get through: it was not ready in time");
});

test("the losers of a race give back their places before the winner asks for one", async () => {
  connection = connect();
  await time.advance(3_000);
  assert.deepEqual([...new Set(log.left.map(([name]) => name))].sort(), ["webrtc", "webtransport"]);
  assert.ok(log.left.every(([, at]) => at <= log.opened[0].at), JSON.stringify([log.left, log.opened]));
});

test("an offer that is still unanswered when another transport wins takes no place for good", async () => {
  network.whepMs = 700;
  connection = connect();
  await time.advance(3_000);
  assert.deepEqual(won().map(([name]) => name), ["websocket"]);
  assert.deepEqual(log.requests.filter(({ pathname }) => pathname.startsWith("/whep")).map(({ method }) => method), ["POST", "DELETE"]);
});

test("a connection that is closed while transports race leaves all of them and begins no other", async () => {
  connection = connect();
  await time.advance(300);
  connection.close();
  await time.advance(3_000);
  assert.deepEqual(dialled(), [["webtransport", 0], ["webrtc", 250]]);
  assert.deepEqual([...new Set(log.left.map(([name]) => name))].sort(), ["webrtc", "webtransport"]);
  assert.deepEqual([log.opened, log.states.map(({ state }) => state)], [[], ["connecting"]]);
});

test("the best transport runs alone where it is ready at once", async () => {
  network.webtransport = 60;
  connection = connect();
  await time.advance(3_000);
  assert.deepEqual([dialled(), won()], [[["webtransport", 0]], [["webtransport", 60]]]);
  assert.deepEqual([log.opened[0].why, log.opened[0].remembered], ["", null]);
});

test("an open transport waits for a better one that is on its way", async () => {
  network.webtransport = 600;
  connection = connect();
  await time.advance(3_000);
  assert.deepEqual(won().map(([name]) => name), ["webtransport"]);
  assert.deepEqual(log.left.map(([name]) => name).sort(), ["webrtc", "websocket"]);
});

test("a transport that fails lets the next one begin at once", async () => {
  network.webtransport = "refused";
  network.webrtc = "open";
  connection = connect();
  await time.advance(3_000);
  assert.deepEqual(dialled(), [["webtransport", 0], ["webrtc", 6]]);
  assert.deepEqual(log.opened.map(({ name, why }) => [name, why]), [["webrtc", "WebTransport does not get through: Opening handshake failed."]]);
});

test("a remembered transport is dialled first, and a better one is tried again once its time is over", async () => {
  connection = connect({ remembered: { name: "websocket", forMs: 60_000 } });
  await time.advance(1_000);
  assert.deepEqual([dialled(), won()], [[["websocket", 0]], [["websocket", 20]]]);
  assert.deepEqual(log.opened[0].remembered, { name: "websocket", forMs: 60_000 - 20 }, "a reload does not prolong it");
  for (let second = 0; second < 60; second += 1) {
    network.socket.onmessage({ data: "{}" });
    await time.advance(1_000);
  }
  log.dialled.length = 0;
  network.webtransport = 30;
  network.socket.onclose({ wasClean: false });
  await time.advance(2_000);
  assert.deepEqual(log.dialled.map(([name]) => name), ["webtransport"]);
  assert.deepEqual(log.opened.at(-1).remembered, null, "the best one needs no memory");
});

test("a remembered transport that gets through no longer does not hold up the others", async () => {
  network.websocket = "silent";
  network.webtransport = 30;
  connection = connect({ remembered: { name: "websocket", forMs: 60_000 } });
  await time.advance(1_000);
  assert.deepEqual(won(), [["webtransport", 280]]);
});

test("when no transport gets through, the page says what each of them lacks", async () => {
  network.websocket = "silent";
  connection = connect();
  await time.advance(8_000);
  const { state, advice } = log.states.at(-1);
  assert.equal(state, "reconnecting");
  assert.match(advice, /not UDP port 8091 of it can be reached/);
  assert.match(advice, /proxy.* must forward/);
});

test("an offer that gets no answer blocks WebRTC alone: the WebSocket is tried all the same", async () => {
  network.whep = false;
  connection = connect();
  await time.advance(3_000);
  assert.deepEqual(log.dialled.map(([name]) => name), ["webtransport", "webrtc", "websocket"]);
  assert.deepEqual(log.opened.map(({ name }) => name), ["websocket"]);
});

test("the token leaves the header Authorization to a proxy in front of the server, and what a proxy refuses is not called the token's fault", async () => {
  const { pathname, headers } = await connectOnce();
  assert.deepEqual([pathname, headers], ["/session.json", { "X-Nearlight-Token": "t" }]);
  const refusals = [
    [() => new Response("", { status: 401, headers: { "www-authenticate": 'Basic realm="x"' } }), "proxy", /a login \(HTTP Basic\)/],
    [() => new Response("<html>", { status: 200, headers: { "content-type": "text/html" } }), "proxy", /login page/],
    [() => new Response("wrong", { status: 401, headers: { "www-authenticate": "Bearer" } }), "token", /wrong/],
  ];
  for (const [answer, reason, words] of refusals) {
    network.answer = answer;
    await connectOnce();
    const refused = log.states.findLast(({ state }) => state === "refused");
    assert.equal(refused.reason, reason);
    assert.match(refused.message, words);
  }
});

/** Connects, and returns the first request. */
async function connectOnce() {
  connection?.close();
  log.requests.length = 0;
  connection = connect();
  await time.advance(1_000);
  return log.requests[0];
}

test("a server that is away for a while is found again over the transport that got through before", async () => {
  network.webrtc = "open";
  connection = connect();
  await time.advance(4_000);
  assert.deepEqual(log.opened.map(({ name }) => name), ["webrtc"]);
  [network.sessionJson, network.whep] = [false, false];
  network.peer.channels[0].onclose();
  await time.advance(10_000);
  [network.sessionJson, network.whep] = [true, true];
  await time.advance(10_000);
  assert.deepEqual(log.opened.map(({ name }) => name), ["webrtc", "webrtc"]);
  assert.equal(log.dialled.filter(([name]) => name === "webtransport").length, 1);
});

test("control messages are signs of life", async () => {
  connection = connect({ transport: "websocket" });
  await time.advance(100);
  for (let message = 0; message < 16; message += 1) {
    await time.advance(500);
    network.socket.onmessage({ data: "{}" });
  }
  assert.equal(log.control, 16);
  assert.deepEqual(log.states.map(({ state }) => state), ["connecting", "waiting"]);
  assert.equal(log.lost, 0);
  await time.advance(6_000);
  assert.ok(log.states.some(({ state }) => state === "stalled"), "silence is noticed");
  assert.ok(log.states.some(({ why }) => why === "nothing came from the server for 4 s"), JSON.stringify(log.states));
});

test("frames that the browser's WebRTC receives and does not decode are noticed, pictures that stand still are not", async () => {
  const counters = { type: "inbound-rtp", kind: "video", packetsReceived: 1, framesReceived: 0, framesDecoded: 0 };
  network.stats = [counters];
  network.webrtc = "open";
  connection = connect({ transport: "webrtc" });
  const run = async (seconds, decodes) => {
    for (let step = 0; step < seconds * 30; step += 1) {
      counters.framesReceived += 1;
      if (decodes) counters.framesDecoded += 1;
      network.peer.channels[1].onmessage({ data: new ArrayBuffer(1) });
      await time.advance(1_000 / 30);
    }
  };
  const undecodable = () => log.states.filter(({ state }) => state === "undecodable").length;
  await run(1, true);
  await time.advance(3_000);
  assert.equal(undecodable(), 0, "a program that draws nothing");
  await run(5, false);
  assert.equal(undecodable(), 0, "a decoder that has worked gets more time");
  await run(3, false);
  assert.ok(undecodable() > 0);
});

test("what failed is said as far as it is known, and no cause is made up", async () => {
  const { request } = await load("http.ts");
  assert.equal(explain(new TypeError("x is undefined")), "x is undefined");
  assert.equal(explain("odd"), "odd");
  network.sessionJson = false;
  const address = new URL("https://server.example:8443/session.json");
  const words = async (init = {}) => explain((await outcome(request(address, init))).error);
  assert.equal(await words(), "no answer from server.example:8443 (Failed to fetch)");
  const late = new AbortController();
  late.abort(new DOMException("The operation timed out.", "TimeoutError"));
  assert.equal(await words({ signal: late.signal }), "no answer from server.example:8443 in time");
  navigator.onLine = false;
  assert.equal(await words(), "no answer from server.example:8443: the browser reports that it is offline");
  navigator.onLine = true;
});

test("a socket that never opens, one that breaks and one that the server closes are told apart", async () => {
  network.websocket = "silent";
  const ends = [
    [[{}], "the connection does not open"],
    [["open", { wasClean: false }], "the connection broke"],
    [["open", { wasClean: true, reason: "full" }], "the server closed the connection: full"],
  ];
  for (const [events, why] of ends) {
    connection = connect({ transport: "websocket" });
    await time.advance(10);
    for (const one of events) one === "open" ? network.socket.onopen() : network.socket.onclose(one);
    await time.advance(10);
    assert.equal(log.states.at(-1).why, why);
    connection.close();
  }
});

test("a worker that fails is described by what its browser tells", async () => {
  const { workerError } = await load("worker-error.ts");
  assert.equal(workerError({}), "the browser gives no reason");
  assert.equal(workerError({ message: "boom", filename: "https://server.example/worker.js", lineno: 3 }), "boom (worker.js:3)");
});
