// The window's end of a WebRTC session: signalling, data channels, and the decoded pictures on their way to the worker.

import { explain, rtpTimestampOf } from "./carrier.ts";
import { pageTime } from "./clock.ts";
import { rtpFormats } from "./codecs.ts";
import { DecodingWatch } from "./decoding-watch.ts";
import type { CodecKind } from "./generated/wire.ts";
import { proxyRefusal, request, tokenHeader } from "./http.ts";
import type { FromPeer, RefusalReason, ToPeer } from "./messages.ts";
import type { RtpTimestamp } from "./picture.ts";

/** Where the server takes offers. The page requests the rows below the pictures that hold the latency marker, and crops them. */
const PATH = "whep?marker=strip";
/** How often the browser's counters are polled. Guess: several times in the panel's interval. */
const COUNT_INTERVAL_MS = 250;
/** Maximum decoded pictures that wait for the worker. Guess: the display needs the newest, but the counters need all. */
const MAX_WAITING_PICTURES = 8;
/** Maximum bytes of datagrams that wait to be sent, because newer movements replace them. Guess: a tenth of a second's. */
const MAX_UNSENT_BYTES = 16 * 1024;
/** What the server's HTTP status refuses. */
const REFUSALS: Record<number, RefusalReason> = { 401: "token", 406: "codec", 429: "too_many_attempts", 503: "full" };

/** Not yet in TypeScript's declarations of browsers. */
interface TrackProcessor {
  readable: ReadableStream<VideoFrame>;
}
declare const MediaStreamTrackProcessor: new (init: { track: MediaStreamTrack; maxBufferSize: number }) => TrackProcessor;

/** An object of the browser's statistics. Not all browsers have all fields. */
type Counters = Record<string, unknown>;

export interface PeerOptions {
  /** To the worker's carrier. */
  port: MessagePort;
  /** Below which `whep` lies. */
  origin: string;
  token: string;
  /** Codecs to ask the server for, best first. */
  codecs: readonly CodecKind[];
  /** The world's sound, or null after the session. */
  onSound(track: MediaStreamTrack | null): void;
  /** Whether the sound is being played: browsers count a track even if it is not heard. */
  audible(): boolean;
  /** Whether everything uses a TCP connection: a network without UDP. */
  onCarriage(tcp: boolean): void;
}

export class Peer {
  readonly #port: MessagePort;
  readonly #origin: string;
  readonly #token: string;
  readonly #onSound: PeerOptions["onSound"];
  readonly #audible: PeerOptions["audible"];
  readonly #onCarriage: PeerOptions["onCarriage"];
  readonly #connection = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  readonly #control: RTCDataChannel;
  readonly #session: RTCDataChannel;
  readonly #receiver: RTCRtpReceiver;
  readonly #sound: RTCRtpReceiver;
  /** The offer, until the server has answered it. */
  #asking: Promise<void> | null = null;
  readonly #counter: ReturnType<typeof setInterval>;
  readonly #watch = new DecodingWatch();
  #frames = { received: 0, decoded: 0 };
  /** Plays the track where pictures are taken from a video element. */
  #video: HTMLVideoElement | null = null;
  /** The server's name for this session. */
  #location: URL | null = null;
  #open = false;
  #closed = false;
  /** The end of the session, once it has begun. */
  #left: Promise<void> | null = null;

  constructor({ port, origin, token, codecs, onSound, audible, onCarriage }: PeerOptions) {
    this.#port = port;
    this.#origin = origin;
    this.#token = token;
    this.#onSound = onSound;
    this.#audible = audible;
    this.#onCarriage = onCarriage;
    port.onmessage = ({ data }: MessageEvent<ToPeer>) => this.#onWorker(data);
    this.#control = this.#connection.createDataChannel("control");
    this.#session = this.#connection.createDataChannel("session", { ordered: false, maxRetransmits: 0 });
    this.#listen();
    this.#receiver = this.#askForPictures(codecs);
    this.#sound = this.#connection.addTransceiver("audio", { direction: "recvonly" }).receiver;
    this.#counter = setInterval(() => void this.#count(), COUNT_INTERVAL_MS);
    this.#signal().catch((error: unknown) => this.#end(explain(error), true));
  }

  /** Ends the session, even while the page is being closed. Completes once the server has given its place away. */
  close(): Promise<void> {
    this.#left ??= this.#leave();
    return this.#left;
  }

  async #leave(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#counter);
    if (this.#open) this.#onSound(null);
    this.#connection.close();
    if (this.#video) this.#video.srcObject = null;
    // An offer that is on its way takes a place, and only the answer names it.
    if (this.#asking) await this.#asking;
    if (!this.#location) return;
    const init = { method: "DELETE", headers: tokenHeader(this.#token), keepalive: true };
    // A server that is gone has ended the session as well.
    await fetch(this.#location, init).catch(() => undefined);
  }

  #onWorker(message: ToPeer): void {
    if (message.type === "close") void this.close().then(() => this.#post({ type: "left" }));
    else if (message.type === "control") {
      if (this.#control.readyState === "open") this.#control.send(message.text);
    } else if (this.#session.readyState === "open" && this.#session.bufferedAmount < MAX_UNSENT_BYTES) {
      this.#session.send(message.bytes);
    }
  }

  #listen(): void {
    const opened = (): void => {
      if (this.#open || this.#control.readyState !== "open" || this.#session.readyState !== "open") return;
      this.#open = true;
      this.#post({ type: "open" });
      this.#deliver();
      this.#onSound(this.#sound.track);
    };
    this.#session.binaryType = "arraybuffer";
    for (const channel of [this.#control, this.#session]) {
      channel.onopen = opened;
      channel.onclose = () => this.#end("the session's channel was closed", false);
    }
    this.#control.onmessage = ({ data }: MessageEvent<string>) => this.#post({ type: "control", text: data });
    const onDatagram = ({ data }: MessageEvent<ArrayBuffer>): void => this.#post({ type: "datagram", bytes: data }, [data]);
    this.#session.onmessage = onDatagram;
    // The server's own way to the page, once it knows us.
    this.#connection.ondatachannel = ({ channel }) => {
      channel.binaryType = "arraybuffer";
      channel.onmessage = onDatagram;
    };
    this.#connection.onconnectionstatechange = () => {
      // Until the channels are open nothing from the server has arrived this way.
      if (this.#connection.connectionState === "failed") this.#end("the connection broke", !this.#open);
    };
  }

  #askForPictures(codecs: readonly CodecKind[]): RTCRtpReceiver {
    const transceiver = this.#connection.addTransceiver("video", { direction: "recvonly" });
    const known = RTCRtpReceiver.getCapabilities("video")?.codecs ?? [];
    const wanted = rtpFormats(codecs).flatMap((fits) => known.filter(fits));
    const auxiliary = known.filter(({ mimeType }) => /\/(rtx|red|ulpfec|flexfec-03)$/.test(mimeType));
    // A browser that has no such function has its own order, and the server takes what it has.
    if (wanted.length > 0) transceiver.setCodecPreferences?.([...new Set([...wanted, ...auxiliary])]);
    const { receiver } = transceiver;
    // The server's playout delay asks for the same; where a browser knows neither, it waits some milliseconds.
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
    return receiver;
  }

  /** Delivers pictures as they are decoded. */
  #deliver(): void {
    const { track } = this.#receiver;
    if ("MediaStreamTrackProcessor" in window) {
      const { readable } = new MediaStreamTrackProcessor({ track, maxBufferSize: MAX_WAITING_PICTURES });
      this.#post({ type: "pictures", readable }, [readable]);
    } else this.#film(track);
  }

  /** Takes pictures from a video element, which has them when it would show them. */
  #film(track: MediaStreamTrack): void {
    const video = document.createElement("video");
    this.#video = video;
    video.muted = true;
    video.playsInline = true;
    video.srcObject = new MediaStream([track]);
    let taken: RtpTimestamp | undefined;
    const take = (_now: number, metadata: VideoFrameCallbackMetadata): void => {
      if (this.#closed) return;
      video.requestVideoFrameCallback(take);
      const picture = new VideoFrame(video, { timestamp: 0 });
      // The element may have moved on since the picture that it announces: where the browser says it, the picture's own name counts.
      const own = rtpTimestampOf(picture);
      const rtpTimestamp = own ?? (metadata.rtpTimestamp as RtpTimestamp | undefined);
      const announced = own === undefined || own === metadata.rtpTimestamp;
      const receivedAt = announced && metadata.receiveTime !== undefined ? pageTime(metadata.receiveTime) : null;
      if (rtpTimestamp === undefined || rtpTimestamp === taken) {
        picture.close();
        return;
      }
      taken = rtpTimestamp;
      this.#post({ type: "picture", received: { picture, rtpTimestamp, receivedAt } }, [picture]);
    };
    video.requestVideoFrameCallback(take);
    void video.play().catch((error: unknown) => this.#end(`the browser does not play the pictures: ${explain(error)}`, false));
  }

  async #signal(): Promise<void> {
    const { sdp = "" } = await this.#connection.createOffer();
    if (this.#closed) return;
    const offer = withStereo(sdp);
    const asked = this.#ask(offer);
    this.#asking = asked.then(() => undefined, () => undefined).finally(() => (this.#asking = null));
    const { answer, text } = await asked;
    const refusedByProxy = proxyRefusal(answer);
    const reason = refusedByProxy ? "proxy" : REFUSALS[answer.status];
    if (reason) {
      this.#post({ type: "refused", reason, message: refusedByProxy ?? text.trim() });
      return;
    }
    if (!answer.ok) {
      this.#end(`the server answers ${answer.status} to an offer of WebRTC`, true);
      return;
    }
    if (this.#closed) return;
    // Only now does gathering begin, so that it knows the server's helpers. The server needs none of our addresses: it answers to
    // those that it hears from.
    const iceServers = iceServersOf(answer.headers.get("link") ?? "");
    if (iceServers.length > 0) this.#connection.setConfiguration({ ...this.#connection.getConfiguration(), iceServers });
    await this.#connection.setLocalDescription({ type: "offer", sdp: offer });
    await this.#connection.setRemoteDescription({ type: "answer", sdp: text });
    this.#post({ type: "answered", ports: portsOf(text) });
  }

  /** Asks the server for a session. Throws without an answer: a proxy may refuse offers and still let another transport through. */
  async #ask(offer: string): Promise<{ answer: Response; text: string }> {
    const headers = { "content-type": "application/sdp", ...tokenHeader(this.#token) };
    const address = new URL(PATH, this.#origin);
    const answer = await request(address, { method: "POST", headers, body: offer });
    const location = answer.headers.get("location");
    if (location) this.#location = new URL(location, address);
    return { answer, text: await answer.text() };
  }

  async #count(): Promise<void> {
    const report = await this.#connection.getStats().catch(() => null);
    if (!report || this.#closed) return;
    const all: Counters[] = [...report.values()];
    const inbound = (kind: string): Counters | undefined => all.find((one) => one.type === "inbound-rtp" && one.kind === kind);
    const [video, audio] = [inbound("video"), inbound("audio")];
    this.#onCarriage(isTcp(all));
    const number = (from: Counters, name: string): number => (typeof from[name] === "number" ? from[name] : 0);
    if (video) {
      const counts = {
        packetsLost: number(video, "packetsLost"),
        packets: number(video, "packetsReceived"),
        bytes: number(video, "bytesReceived") + number(video, "headerBytesReceived"),
        repeatedPackets: number(video, "retransmittedPacketsReceived"),
        redundantBytes: number(video, "retransmittedBytesReceived") + number(video, "fecBytesReceived"),
        repairs: number(video, "fecPacketsReceived"),
        keyFrames: number(video, "keyFramesDecoded"),
      };
      this.#post({ type: "counts", counts });
      this.#checkDecoding({ received: number(video, "framesReceived"), decoded: number(video, "framesDecoded") });
    }
    // In a world without sound no packets arrive.
    if (audio && number(audio, "packetsReceived") > 0) {
      const counts = {
        packets: number(audio, "packetsReceived"),
        packetsLost: number(audio, "packetsLost"),
        concealed: number(audio, "concealedSamples"),
        heard: this.#audible() ? momentOf(audio) : null,
      };
      this.#post({ type: "sound", counts });
    }
  }

  /** Some browsers offer a codec that they do not decode. */
  #checkDecoding(frames: { received: number; decoded: number }): void {
    if (frames.received > this.#frames.received) this.#watch.onFrame();
    if (frames.decoded > this.#frames.decoded) this.#watch.onPicture();
    this.#frames = frames;
    // Browsers may stop decoding for a page that nobody sees.
    if (!document.hidden && this.#watch.check(performance.now())) this.#post({ type: "undecodable" });
  }

  #end(why: string, blocked: boolean): void {
    if (this.#closed) return;
    this.#post({ type: "ended", why, blocked });
    void this.close();
  }

  #post(message: FromPeer, transfer: Transferable[] = []): void {
    this.#port.postMessage(message, transfer);
  }
}

/** `<turn:host>; rel="ice-server"; username="u"; credential="c", …` (draft-ietf-wish-whep section 4.6). */
export function iceServersOf(link: string): RTCIceServer[] {
  return link.split(/,(?=\s*<)/).flatMap((part) => {
    const urls = /<((?:stun|turn)s?:[^>]+)>/.exec(part)?.[1];
    if (!urls || !/rel="?ice-server"?/.test(part)) return [];
    const value = (name: string): string | undefined => new RegExp(`${name}="([^"]*)"`).exec(part)?.[1];
    const [username, credential] = [value("username"), value("credential")];
    return [{ urls, ...(username !== undefined && { username }), ...(credential !== undefined && { credential }) }];
  });
}

/** Returns the world's moment that is being heard, in microseconds on the server's clock. The server's reports begin at second 1. */
function momentOf({ estimatedPlayoutTimestamp: milliseconds }: Counters): number | null {
  return typeof milliseconds === "number" ? (milliseconds - 1000) * 1000 : null;
}

/** Returns whether the selected candidate pair uses TCP. */
function isTcp(all: readonly Counters[]): boolean {
  const transport = all.find(({ type }) => type === "transport");
  const pair = all.find(({ id }) => id !== undefined && id === transport?.selectedCandidatePairId);
  return all.find(({ id }) => id !== undefined && id === pair?.localCandidateId)?.protocol === "tcp";
}

/** Returns the server's ports, from its candidates. */
export function portsOf(answer: string): string[] {
  const candidates = answer.matchAll(/^a=candidate:\S+ \d+ (udp|tcp) \d+ \S+ (\d+) /gim);
  return [...new Set([...candidates].map(([, carriage = "", port]) => `${carriage.toUpperCase()} port ${port}`))];
}

/** Returns the offer with stereo requested. Browsers decode one channel of Opus otherwise (RFC 7587, section 6.1). */
export function withStereo(offer: string): string {
  const opus = /^a=rtpmap:(\d+) opus\/48000\/2\r?$/m.exec(offer)?.[1];
  if (opus === undefined || new RegExp(`^a=fmtp:${opus} .*stereo=1`, "m").test(offer)) return offer;
  return offer.replace(new RegExp(`^(a=fmtp:${opus} [^\\r\\n]+)`, "m"), "$1;stereo=1");
}
