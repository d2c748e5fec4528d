// Stands in for the page's worker in tests of the page alone: speaks its messages with made-up frames. Runs in the page, before it.

window.fake = { received: [], instance: null };

window.Worker = class {
  onmessage = null;
  onerror = null;

  constructor() {
    window.fake.instance = this;
  }

  postMessage(message) {
    if (window.fake.received.length < 10_000) window.fake.received.push(message);
    if (message.type === "start") this.surface = message.surface;
    if (message.type === "summary") this.say({ type: "answer", id: message.id, text: '{"frames":{"displayed":1}}' });
    if (message.type === "events") this.say({ type: "answer", id: message.id, text: '{"event":"frame_lost"}\n' });
  }

  say(data) {
    this.onmessage?.({ data });
  }
};

const STREAM = {
  codec: "h264",
  codec_string: "avc1.42E01F",
  width: 1280,
  height: 720,
  fps: 30,
  encoder: "openh264 2.6.0",
  adapter: "llvmpipe (LLVM 15.0.6, 256 bits) · Vulkan",
  views: 1,
};

/** A small generator with a seed, so that pictures of the panel are the same in every run. */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

/** Says all that a good session says: `frames` frames at 30 a second, with rates and counters. */
window.fake.play = (frames) => {
  const { instance } = window.fake;
  const random = generator(7);
  const welcome = {
    session: 1,
    stream: STREAM,
    server: "nearlight 0.1.0",
    controller: "gcc-libwebrtc",
    fec: "planner",
    pacing: "interval 5 ms",
    max_rate_bps: 20e6,
    start: { position: [0, 1.6, 6], orientation: [0, 0, 0, 1] },
  };
  instance.say({ type: "state", state: { state: "waiting" } });
  instance.say({ type: "welcome", welcome });
  show(instance.surface);
  instance.say({ type: "state", state: { state: "live" } });
  const lengths = [0.6, 15, 6, 1.2, 5.5, 3.5, 0.4, 0.3, 1.6, 8];
  for (let frame = 0; frame < frames; frame += 1) {
    const spike = frame % 97 === 60 ? 4 : 1;
    const stages = lengths.map((length, index) => length * 1000 * (0.6 + 0.8 * random()) * (index === 5 || index === 7 ? spike : 1));
    const total = stages.reduce((sum, stage) => sum + stage, 0);
    instance.say({ type: "timelines", rows: new Float64Array([frame, frame * 33_333, total, total, 180, spike > 1 ? 1 : 0, ...stages]) });
    if (frame % 3 > 0) continue;
    const target = Math.min(20e6, 8e6 + frame * 32_000);
    const rate = {
      target_bps: target,
      pacing_bps: target * 2.5,
      sent_bps: target * (0.8 + 0.1 * random()),
      binding: frame < 375 ? "delay" : "maximum",
      limits: [],
      rtt_us: 900,
      packets_lost: 3,
      key_frames: 1,
    };
    instance.say({ type: "rate", at: frame * 33, rate });
    window.fake.count({
      at: frame * 33.3,
      completed: frame,
      decoded: frame,
      displayed: frame,
      late: 3,
      lost: 0,
      packets: frame * 12,
      packetsLost: 41,
      retransmitted: 41,
      keyFrames: 1,
      redundancy: 0.029,
      repairs: 412,
      residualLoss: 0,
      recoveredBy: "repair",
      framesToRecover: 2,
      byReference: 1,
      receivedBps: rate.sent_bps * 0.99,
      clockErrorUs: 183,
      roundTripUs: 912,
      sound: { packets: frame * 3, lost: 2, repeated: 2, concealed: 1, late: 0, delayUs: 61_000, apartUs: 9_000 },
    });
  }
};

/** Says counters: those of before, but for these. */
window.fake.count = (counted) => {
  const { fake } = window;
  fake.statistics = { ...fake.statistics, ...counted };
  const frame = fake.statistics.displayed;
  fake.instance.say({ type: "statistics", statistics: fake.statistics, marker: { frame, input: frame } });
};

function show({ kind, target }) {
  if (kind !== "video") return paint(target);
  const canvas = new OffscreenCanvas(STREAM.width, STREAM.height);
  paint(canvas);
  void target.getWriter().write(new VideoFrame(canvas, { timestamp: 0 }));
}

/** Something like a landscape, so that contrast on top of it can be judged. */
function paint(canvas) {
  canvas.width = STREAM.width;
  canvas.height = STREAM.height;
  const context = canvas.getContext("2d");
  const sky = context.createLinearGradient(0, 0, 0, 720);
  for (const [at, colour] of [[0, "#3b82c4"], [0.55, "#f2d6a2"], [0.56, "#4d6b3c"], [1, "#26381f"]]) sky.addColorStop(at, colour);
  context.fillStyle = sky;
  context.fillRect(0, 0, 1280, 720);
  const random = generator(3);
  for (let index = 0; index < 60; index += 1) {
    context.fillStyle = `hsl(${random() * 360} 55% ${35 + random() * 35}%)`;
    const size = 20 + random() * 90;
    context.fillRect(random() * 1280, 400 + random() * 240 - size, size, size);
  }
}
