// Stands in for the server's WebRTC side in tests of the page alone: answers offers with a peer connection of the page itself, which
// sends a drawn world with notes. Runs in the page, before it.

window.fakeWhep = { answers: 0, status: 201, inputs: 0, notes: true, marked: true, peers: [], deleted: 0 };

const realFetch = window.fetch.bind(window);
window.fetch = async (address, options = {}) => {
  const { pathname, search } = new URL(address, location.href);
  if (!pathname.startsWith("/whep")) return realFetch(address, options);
  if (options.method === "DELETE") {
    window.fakeWhep.deleted += 1;
    return new Response(null);
  }
  const { status } = window.fakeWhep;
  // As the server's own refusals are, unlike those of a proxy.
  const headers = status === 401 ? { "www-authenticate": "Bearer" } : {};
  if (status !== 201) return new Response("the fake will not", { status, headers });
  window.fakeWhep.answers += 1;
  window.fakeWhep.offer = options.body;
  window.fakeWhep.search = search;
  window.fakeWhep.token = options.headers["X-Nearlight-Token"];
  return new Response(await answer(options.body), { status: 201, headers: { location: "/whep/1", link: '<stun:192.0.2.1>; rel="ice-server"' } });
};

const [WIDTH, HEIGHT, CELL] = [640, 360, 8];
/** The encoder leaves out a picture that has not come out of it by then. */
const LEFT_OUT_AFTER_US = 1_000_000n;
/** After this pause no picture is left in the encoder. */
const START_PAUSE_US = 300_000n;
const micros = () => BigInt(Math.round(performance.now() * 1000) + 3_600_000_000);

async function answer(offer) {
  const peer = new RTCPeerConnection({ encodedInsertableStreams: true });
  window.fakeWhep.peers.push(peer);
  const canvas = new OffscreenCanvas(WIDTH, HEIGHT);
  const context = canvas.getContext("2d");
  const generator = new MediaStreamTrackGenerator({ kind: "video" });
  const writer = generator.writable.getWriter();
  let session = null;
  let input = 0;
  peer.ondatachannel = ({ channel }) => {
    channel.binaryType = "arraybuffer";
    if (channel.label === "control") channel.onmessage = ({ data }) => greet(channel, JSON.parse(data));
    else {
      session = channel;
      channel.onmessage = ({ data }) => {
        const view = new DataView(data);
        if (view.getUint8(0) === 0x37) pong(channel, view);
        if (view.getUint8(0) === 0x33) {
          input = Math.max(input, view.getUint32(1));
          window.fakeWhep.inputs += 1;
        }
      };
    }
  };
  await peer.setRemoteDescription({ type: "offer", sdp: offer });
  const sender = peer.addTrack(generator, new MediaStream([generator]));
  // One picture at a time is in the encoder, so that what comes out of it is known by name. Until it has a bit rate, the encoder keeps the newest
  // picture and drops the others, so notes begin after the first picture that comes out of it.
  let drawn = null;
  let startsAt = null;
  const { readable, writable } = sender.createEncodedStreams();
  const noted = new TransformStream({
    transform(frame, controller) {
      const picture = drawn;
      drawn = null;
      startsAt ??= micros() + START_PAUSE_US;
      if (picture?.isNamed && session?.readyState === "open" && window.fakeWhep.notes) session.send(note(frame, picture));
      controller.enqueue(frame);
    },
  });
  void readable.pipeThrough(noted).pipeTo(writable);
  const sdp = await peer.createAnswer();
  await peer.setLocalDescription(sdp);
  await new Promise((resolve) => {
    peer.onicecandidate = ({ candidate }) => candidate ?? resolve();
  });
  let frame = 0;
  const timer = setInterval(() => {
    if (peer.connectionState === "closed") return clearInterval(timer);
    if (peer.connectionState !== "connected") return undefined;
    const began = micros();
    const isBusy = drawn && began - drawn.began < LEFT_OUT_AFTER_US;
    if (startsAt !== null && (isBusy || began < startsAt)) return undefined;
    draw(context, frame, input);
    const picture = new VideoFrame(canvas, { timestamp: performance.now() * 1000 });
    drawn = { frame, input, began, isNamed: startsAt !== null };
    void writer.write(picture);
    frame += 1;
    return undefined;
  }, 33);
  return peer.localDescription.sdp;
}

function greet(channel, message) {
  if (message.type !== "hello") return;
  window.fakeWhep.hello = message;
  const stream = { codec: "vp8", codec_string: "vp8", width: WIDTH, height: HEIGHT, fps: 30, encoder: "the page itself", adapter: "canvas", views: 1 };
  const start = { position: [0, 1.6, 6], orientation: [0, 0, 0, 1] };
  const names = { server: "fake", controller: "fixed", fec: "none", references: false, pacing: "burst" };
  channel.send(JSON.stringify({ type: "welcome", session: 1, stream, ...names, max_rate_bps: 5e6, start }));
}

function pong(channel, ping) {
  const view = new DataView(new ArrayBuffer(25));
  view.setUint8(0, 0x32);
  view.setBigUint64(1, ping.getBigUint64(1));
  for (const at of [9, 17]) view.setBigUint64(at, micros());
  channel.send(view.buffer);
}

/** A frame note (docs/wire.md) that goes with the frame's only moment of sending. */
function note(encoded, { frame, input, began }) {
  const view = new DataView(new ArrayBuffer(18 + 111));
  view.setUint8(0, 0x3b);
  view.setUint8(1, encoded.type === "key" ? 3 : 2);
  view.setUint32(2, frame);
  view.setUint32(6, encoded.timestamp ?? encoded.getMetadata().rtpTimestamp);
  view.setBigUint64(10, micros());
  view.setUint16(18, 111);
  view.setUint16(20, WIDTH);
  view.setUint16(22, HEIGHT);
  view.setUint32(24, input);
  const now = micros();
  for (const [index, time] of [began, began, began, began, now, now + 33_000n, now + 66_000n].entries()) view.setBigUint64(28 + 8 * index, time);
  view.setUint8(84, 1);
  for (const [index, number] of [0, 1.6, 6, 0, 0, 0, 1, -1, 1, -0.6, 0.6].entries()) view.setFloat32(85 + 4 * index, number);
  return view.buffer;
}

/** A sky that changes, and below it the marker where the page has asked for it. */
function draw(context, frame, input) {
  const { marked, search } = window.fakeWhep;
  const isMarked = marked && search === "?marker=strip";
  const height = isMarked ? HEIGHT + CELL : HEIGHT;
  if (context.canvas.height !== height) context.canvas.height = height;
  context.fillStyle = `hsl(${frame % 360} 60% 50%)`;
  context.fillRect(0, 0, WIDTH, HEIGHT);
  if (!isMarked) return;
  const bytes = new DataView(new ArrayBuffer(10));
  bytes.setUint32(0, frame);
  bytes.setUint32(4, input);
  bytes.setUint16(8, checksum(new Uint8Array(bytes.buffer, 0, 8)));
  for (let bit = 0; bit < 80; bit += 1) {
    context.fillStyle = (bytes.getUint8(bit >> 3) >> (7 - (bit & 7))) & 1 ? "#fff" : "#000";
    context.fillRect(bit * CELL, HEIGHT, CELL, CELL);
  }
}

function checksum(bytes) {
  let crc = 0xffff;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}
