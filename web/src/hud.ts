// The statistics panel: where each frame's time went, rates with what bounds them, loss and repairs, and the algorithms in use.

import { TIMELINE_COLUMNS } from "./generated/core.ts";
import { STAGES } from "./generated/events.ts";
import { LatencyGraph, RATE_COLOURS, RateGraph, type RateSample, STAGE_COLOURS } from "./graphs.ts";
import type { RateStatus, Statistics, StreamDescription, TransportName, Welcome } from "./messages.ts";
import { element } from "./page.ts";
import { TRANSPORT } from "./transports.ts";

/** Frames in the latency graph. */
const GRAPH_FRAMES = 300;
/** Length of the rate graph in seconds. */
const GRAPH_SECONDS = 20;
/** Minimum interval between updates of the numbers. Guess: faster cannot be read. */
const TEXT_INTERVAL_MS = 400;

interface FrameRow {
  displayedAt: number;
  motionToPhoton: number;
  late: boolean;
  /** Milliseconds. */
  stages: number[];
}

/** A rate controller's limits in words. */
const LIMIT_NAMES: Record<string, string> = {
  fixed: "the fixed rate",
  minimum: "the configured minimum",
  maximum: "the configured maximum",
  delay: "growing delay",
  loss: "packet loss",
  delivered: "what arrives",
  probe: "a probe's result",
  marks: "congestion marks",
  policer: "a policer (the network drops what exceeds this rate)",
  cross_traffic: "other traffic on the path",
  window: "the congestion window",
  throughput: "measured throughput",
  buffer: "the playback buffer",
  encoder: "the encoder's time",
  decoder: "the decoder's time",
  transport: "what TCP can send",
  feedback_timeout: "missing feedback",
};

export class Hud {
  readonly #panel = element("hud");
  readonly #latency = new LatencyGraph(element("latency-graph", HTMLCanvasElement));
  readonly #rateGraph = new RateGraph(element("rate-graph", HTMLCanvasElement));
  readonly #stageNumbers: HTMLElement[];
  readonly #rateNumbers: Record<"target" | "sent" | "received", HTMLElement>;
  #frames: FrameRow[] = [];
  #motionToPhoton: number[] = [];
  #samples: RateSample[] = [];
  #rate: RateStatus | null = null;
  #statistics: Statistics | null = null;
  #welcome: Welcome | null = null;
  #stream: StreamDescription | null = null;
  #carrier: { name: TransportName; why: string } | null = null;
  #tcp = false;
  /** Which codecs the browser claims and does not decode, in words. */
  #codecFailures = "";
  #painter = { name: "", why: "" };
  /** Pictures a second that the page renders, or null while the server renders. */
  #localFrameRate: number | null = null;
  #writtenAt = 0;
  /** Latency is estimated, because pictures of programs have no marker of their input. */
  estimates = false;

  constructor() {
    this.#stageNumbers = STAGES.map((stage, index) => row("legend", STAGE_COLOURS[index] ?? "", stage));
    this.#rateNumbers = {
      target: row("rates", RATE_COLOURS.target, "target"),
      sent: row("rates", RATE_COLOURS.sent, "sent"),
      received: row("rates", RATE_COLOURS.received, "received"),
    };
  }

  get visible(): boolean {
    return !this.#panel.hidden;
  }

  set visible(visible: boolean) {
    this.#panel.hidden = !visible;
    this.#draw(true);
  }

  /** A new session: numbers of the old one are obsolete. */
  onWelcome(welcome: Welcome): void {
    this.#welcome = welcome;
    this.#stream = welcome.stream;
    this.#rate = null;
    this.#statistics = null;
    this.#samples = [];
    this.#motionToPhoton = [];
  }

  /** What draws the pictures on the page, and why this one. */
  onPainter(name: string, why: string): void {
    this.#painter = { name, why };
  }

  /** The page renders the world at this rate, or no longer. */
  onLocalFrameRate(framesPerSecond: number | null): void {
    this.#localFrameRate = framesPerSecond;
    this.#draw(false);
  }

  /** The session's transport, and why this one. */
  onCarrier(name: TransportName, why: string): void {
    this.#carrier = { name, why };
    this.#tcp = false;
  }

  /** Which codecs the browser claims and does not decode, in words; "" for none. */
  onCodecFailures(words: string): void {
    this.#codecFailures = words;
    this.#draw(false);
  }

  /** Whether WebRTC uses a TCP connection. */
  onCarriage(tcp: boolean): void {
    this.#tcp = tcp;
  }

  onStream(stream: StreamDescription): void {
    this.#stream = stream;
  }

  onRate(rate: RateStatus): void {
    this.#rate = rate;
  }

  /** Rows as the core returns them, durations in microseconds. */
  onTimelines(rows: Float64Array): void {
    const numbers = TIMELINE_COLUMNS.length;
    for (let start = 0; start + numbers <= rows.length; start += numbers) {
      const row = timelineOf(rows.subarray(start, start + numbers));
      const { displayedAt, motionToPhoton, late } = row;
      const stages = STAGES.map((stage) => row[stage] / 1000);
      this.#frames.push({ displayedAt: displayedAt / 1000, motionToPhoton: motionToPhoton / 1000, late: late !== 0, stages });
      if (!Number.isNaN(motionToPhoton)) this.#motionToPhoton.push(motionToPhoton / 1000);
    }
    this.#frames = this.#frames.slice(-GRAPH_FRAMES);
    this.#motionToPhoton = this.#motionToPhoton.slice(-GRAPH_FRAMES);
  }

  onStatistics(statistics: Statistics): void {
    this.#statistics = statistics;
    const at = statistics.at / 1000;
    const { target_bps: target = null, sent_bps: sent = null } = this.#rate ?? {};
    this.#samples = this.#samples.filter((sample) => at - sample.at < GRAPH_SECONDS + 1);
    this.#samples.push({ at, target, sent, received: statistics.receivedBps });
    this.#draw(false);
  }

  #draw(force: boolean): void {
    if (!this.visible) return;
    this.#latency.draw(this.#frames, GRAPH_FRAMES);
    this.#rateGraph.draw(this.#samples, (this.#statistics?.at ?? 0) / 1000, GRAPH_SECONDS);
    const now = performance.now();
    if (!force && now - this.#writtenAt < TEXT_INTERVAL_MS) return;
    this.#writtenAt = now;
    this.#write();
  }

  #write(): void {
    const local = this.#localFrameRate !== null;
    const mtp = local ? [] : this.#motionToPhoton;
    text("mtp", mtp.length > 0 ? percentile(mtp, 50).toFixed(1) : "–");
    const waiting = local ? "of the server's pictures" : "waiting for an input's pixels";
    text("mtp-more", mtp.length > 0 ? `p95 ${percentile(mtp, 95).toFixed(1)} ms${this.estimates ? "" : " · read from pixels"}` : waiting);
    const recent = this.#frames.slice(-60);
    text("fps", this.#localFrameRate?.toFixed(1) ?? frameRate(recent));
    const stream = this.#stream;
    text("fps-more", local ? "by this browser" : stream ? `of ${stream.fps} · ${stream.width}×${stream.height}` : "");
    for (const [index, number] of this.#stageNumbers.entries()) {
      const lengths = this.#frames.map(({ stages }) => stages[index] ?? 0);
      number.textContent = lengths.length > 0 ? `${percentile(lengths, 50).toFixed(1)} ms` : "–";
    }
    this.#writeRates();
    this.#writeCounters();
    this.#writeFacts();
  }

  #writeRates(): void {
    const mbps = (bps: number | undefined): string => (bps === undefined ? "–" : (bps / 1e6).toFixed(1));
    this.#rateNumbers.target.textContent = mbps(this.#rate?.target_bps);
    this.#rateNumbers.sent.textContent = mbps(this.#rate?.sent_bps);
    this.#rateNumbers.received.textContent = mbps(this.#statistics?.receivedBps);
    const binding = this.#rate?.binding;
    text("binding", binding ? `bound by ${LIMIT_NAMES[binding] ?? binding.replaceAll("_", " ")}` : "–");
  }

  #writeCounters(): void {
    const counts = this.#statistics;
    const shown = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
    const length = (us: number | null | undefined): string => (us === null || us === undefined ? "–" : `${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms`);
    const share = (value: number | undefined, digits: number): string => (value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`);
    list("counters", [
      ["packets lost", shown(counts?.packetsLost)],
      ["retransmitted", shown(counts?.retransmitted)],
      ["redundancy", share(counts?.redundancy, 1)],
      ["repairs", shown(counts?.repairs)],
      ["residual loss", share(counts?.residualLoss, 2)],
      ["recovered by", lastRecovery(counts)],
      ["by reference", shown(counts?.byReference)],
      ["frames lost", shown(counts?.lost)],
      ["late", shown(counts?.late)],
      ["key frames", shown(counts?.keyFrames)],
      ["round trip", length(counts?.roundTripUs)],
      ["clock error", counts?.clockErrorUs == null ? "–" : `±${length(counts.clockErrorUs)}`],
      ["sound delay", length(counts?.sound?.delayUs)],
      ["sound apart", length(counts?.sound?.apartUs)],
      // Packets, and the duration of what was concealed in their place.
      ["sound lost", counts?.sound ? `${shown(counts.sound.lost)} · ${shown(counts.sound.concealed * 10)} ms` : "–"],
    ]);
  }

  /** Returns the client's recovery policy. It has none over WebRTC and a WebSocket, and in rooms. */
  #recovery(): string {
    if (!this.#welcome || this.#carrier?.name !== "webtransport" || this.#localFrameRate !== null) return "";
    const { recovery } = this.#welcome;
    const { refused = 0, damaged = 0 } = this.#statistics ?? {};
    const outcome = refused > 0 ? " (this decoder refuses damaged frames)" : damaged > 0 ? ` (${damaged} frames damaged)` : "";
    return ` · recovery ${recovery}${outcome}`;
  }

  #writeFacts(): void {
    const [stream, carrier] = [this.#stream, this.#carrier];
    const decoder = carrier?.name === "webrtc" ? "the browser's WebRTC" : "WebCodecs";
    const held = this.#welcome?.playback_buffer ? `, ${this.#welcome.playback_buffer} frames buffered` : "";
    list("facts", [
      ["Encoder", stream?.encoder ?? "–"],
      ["Decoder", stream ? because(`${decoder} · ${stream.codec_string}`, this.#codecFailures) : "–"],
      ["Display", because(this.#painter.name, this.#painter.why)],
      ["Renderer", stream?.adapter ?? "–"],
      ["Transport", carrier ? because(`${TRANSPORT[carrier.name].title}${this.#tcp ? " over TCP" : ""}${this.#recovery()}`, carrier.why) : "–"],
      ["Control", this.#welcome ? `${this.#welcome.controller}${held} · ${this.#welcome.pacing} · fec ${this.#welcome.fec}` : "–"],
    ]);
  }
}

type Timeline = Record<(typeof TIMELINE_COLUMNS)[number], number>;

/** Returns a row's numbers by name. */
function timelineOf(row: Float64Array): Timeline {
  return Object.fromEntries(TIMELINE_COLUMNS.map((name, index) => [name, row[index]])) as Timeline;
}

/** Returns how the picture last recovered from a loss, and after how many newer frames. */
function lastRecovery(counts: Statistics | null): string {
  if (!counts?.recoveredBy) return "–";
  const { framesToRecover: frames } = counts;
  const kind = counts.recoveredBy.replaceAll("_", " ");
  return frames > 0 ? `${kind}, ${frames} ${frames === 1 ? "frame" : "frames"}` : kind;
}

function because(name: string, why: string): string {
  return why ? `${name} · ${why}` : name;
}

function text(id: string, value: string): void {
  const target = element(id);
  if (target.textContent !== value) target.textContent = value;
}

/** Adds a coloured line to a legend. Returns the element for its number. */
function row(listId: string, colour: string, name: string): HTMLElement {
  const item = document.createElement("li");
  item.style.setProperty("--colour", colour);
  const [swatch, label, number] = ["i", "span", "b"].map((tag) => document.createElement(tag)) as [HTMLElement, HTMLElement, HTMLElement];
  label.textContent = name;
  number.textContent = "–";
  item.append(swatch, label, number);
  element(listId).append(item);
  return number;
}

/** Fills a definition list, keeping its elements from one call to the next. */
function list(id: string, entries: readonly (readonly [string, string])[]): void {
  const target = element(id);
  const grouped = id === "counters";
  if (target.childElementCount === 0) {
    for (const [name] of entries) {
      const [term, value] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      if (grouped) {
        const group = document.createElement("div");
        group.classList.toggle("wide", name === "recovered by");
        group.append(term, value);
        target.append(group);
      } else target.append(term, value);
    }
  }
  for (const [index, value] of [...target.querySelectorAll("dd")].entries()) {
    const wanted = entries[index]?.[1] ?? "";
    if (value.textContent !== wanted) {
      value.textContent = wanted;
      value.title = wanted;
    }
  }
}

function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? 0;
}

function frameRate(frames: readonly FrameRow[]): string {
  const [first, last] = [frames[0], frames.at(-1)];
  if (!first || !last || last.displayedAt <= first.displayedAt) return "–";
  return (((frames.length - 1) * 1000) / (last.displayedAt - first.displayedAt)).toFixed(1);
}
