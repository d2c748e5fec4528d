// The window's end of a WebRTC session: signalling, data channels, and the decoded pictures on their way to the worker.

import { rtpTimestampOf } from "./carrier.ts";
import type { FromPeer, RefusalReason, ToPeer } from "./messages.ts";

/** Where the server takes offers. */
const PATH = "whep";
/** How often the browser is asked what it counted. */
const COUNT_MS = 250;
/** Decoded pictures that wait for the worker. The display wants the newest, the counters want all: a few for a worker that paints. */
const WAITING_PICTURES = 8;
/** Bytes of datagrams that wait to be sent, at most: newer movements replace them. Guess: a tenth of a second's. */
const UNSENT_BYTES = 16 * 1024;
/** What the page plays best, first. A server takes the first that it has. */
const CODECS: readonly ((codec: RTCRtpCodec) => boolean)[] = [
  ({ mimeType, sdpFmtpLine }) => mimeType === "video/H264" && /packetization-mode=1.*profile-level-id=42e0/.test(sdpFmtpLine ?? ""),
  ({ mimeType, sdpFmtpLine }) => mimeType === "video/H264" && /packetization-mode=1/.test(sdpFmtpLine ?? ""),
  ({ mimeType }) => mimeType === "video/VP8",
];
const REFUSALS: Record<number, RefusalReason> = { 401: "token", 406: "codec", 429: "too_many_attempts", 503: "full" };

/** Not yet in the language's description of browsers. */
interface TrackProcessor {
  readable: ReadableStream<VideoFrame>;
}
declare const MediaStreamTrackProcessor: new (init: { track: MediaStreamTrack; maxBufferSize: number }) => TrackProcessor;

export interface PeerOptions {
  /** To the worker's carrier. */
  port: MessagePort;
  /** Below which `whep` lies. */
  origin: string;
  token: string;
}

export class Peer {
  readonly #port: MessagePort;
  readonly #origin: string;
  readonly #token: string;
  readonly #connection = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  readonly #control: RTCDataChannel;
  readonly #session: RTCDataChannel;
  readonly #receiver: RTCRtpReceiver;
  readonly #leave = new AbortController();
  readonly #counter: ReturnType<typeof setInterval>;
  /** The server's name for this session. */
  #location: URL | null = null;
  #open = false;
  #closed = false;

  constructor({ port, origin, token }: PeerOptions) {
    this.#port = port;
    this.#origin = origin;
    this.#token = token;
    port.onmessage = ({ data }: MessageEvent<ToPeer>) => this.#onWorker(data);
    this.#control = this.#connection.createDataChannel("control");
    this.#session = this.#connection.createDataChannel("session", { ordered: false, maxRetransmits: 0 });
    this.#listen();
    this.#receiver = this.#askForPictures();
    this.#counter = setInterval(() => void this.#count(), COUNT_MS);
    this.#signal().catch((error: unknown) => this.#end(explain(error), true));
  }

  /** Ends the session, also while the page goes away. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#counter);
    this.#leave.abort();
    this.#connection.close();
    if (!this.#location) return;
    const request = { method: "DELETE", headers: { authorization: `Bearer ${this.#token}` }, keepalive: true };
    // A server that is gone has ended it as well.
    fetch(this.#location, request).catch(() => undefined);
  }

  #onWorker(message: ToPeer): void {
    if (message.type === "close") this.close();
    else if (message.type === "control") {
      if (this.#control.readyState === "open") this.#control.send(message.text);
    } else if (this.#session.readyState === "open" && this.#session.bufferedAmount < UNSENT_BYTES) {
      this.#session.send(message.bytes);
    }
  }

  #listen(): void {
    const opened = (): void => {
      if (this.#open || this.#control.readyState !== "open" || this.#session.readyState !== "open") return;
      this.#open = true;
      this.#post({ type: "open" });
      this.#deliver();
    };
    this.#session.binaryType = "arraybuffer";
    for (const channel of [this.#control, this.#session]) {
      channel.onopen = opened;
      channel.onclose = () => this.#end("the server ended the session", false);
    }
    this.#control.onmessage = ({ data }: MessageEvent<string>) => this.#post({ type: "control", text: data });
    this.#session.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => this.#post({ type: "datagram", bytes: data }, [data]);
    this.#connection.onconnectionstatechange = () => {
      // Until the channels are open nothing of the server has come this way.
      if (this.#connection.connectionState === "failed") this.#end("the connection broke", !this.#open);
    };
  }

  #askForPictures(): RTCRtpReceiver {
    const transceiver = this.#connection.addTransceiver("video", { direction: "recvonly" });
    const known = RTCRtpReceiver.getCapabilities("video")?.codecs ?? [];
    const wanted = CODECS.flatMap((fits) => known.filter(fits));
    const auxiliary = known.filter(({ mimeType }) => /\/(rtx|red|ulpfec|flexfec-03)$/.test(mimeType));
    // A browser that has no such function has its own order, and the server takes what it has.
    if (wanted.length > 0) transceiver.setCodecPreferences?.([...new Set([...wanted, ...auxiliary])]);
    const { receiver } = transceiver;
    // The server's playout delay asks for the same; where a browser knows neither, it waits some milliseconds.
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
    return receiver;
  }

  /** Hands pictures over as they are decoded. */
  #deliver(): void {
    const { track } = this.#receiver;
    if ("MediaStreamTrackProcessor" in window) {
      const { readable } = new MediaStreamTrackProcessor({ track, maxBufferSize: WAITING_PICTURES });
      this.#post({ type: "pictures", readable }, [readable]);
    } else this.#film(track);
  }

  /** Takes pictures off a video element, which has them when it would show them. */
  #film(track: MediaStreamTrack): void {
    const video = document.createElement("video");
    video.muted = true;
    video.playsInline = true;
    video.srcObject = new MediaStream([track]);
    let taken: number | undefined;
    const take = (_now: number, metadata: VideoFrameCallbackMetadata): void => {
      if (this.#closed) {
        video.srcObject = null;
        return;
      }
      video.requestVideoFrameCallback(take);
      const picture = new VideoFrame(video, { timestamp: 0 });
      // The element may have moved on since the picture that it announces: where the browser says it, the picture's own name counts.
      const own = rtpTimestampOf(picture);
      const rtpTimestamp = own ?? metadata.rtpTimestamp;
      const receivedAt = own === undefined || own === metadata.rtpTimestamp ? (metadata.receiveTime ?? Number.NaN) : Number.NaN;
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
    const offer = await this.#connection.createOffer();
    const answer = await this.#ask(offer.sdp ?? "");
    if (!answer) {
      this.#end("the server cannot be reached", false);
      return;
    }
    const text = await answer.text();
    const reason = REFUSALS[answer.status];
    if (reason) {
      this.#post({ type: "refused", reason, message: text.trim() });
      return;
    }
    if (!answer.ok) {
      this.#end(`the server answers ${answer.status} to an offer of WebRTC`, true);
      return;
    }
    const location = answer.headers.get("location");
    if (location) this.#location = new URL(location, new URL(PATH, this.#origin));
    if (this.#closed) return;
    // Only now does gathering begin, so that it knows the server's helpers. The server needs none of our addresses: it answers to
    // those that it hears from.
    const iceServers = iceServersOf(answer.headers.get("link") ?? "");
    if (iceServers.length > 0) this.#connection.setConfiguration({ ...this.#connection.getConfiguration(), iceServers });
    await this.#connection.setLocalDescription(offer);
    await this.#connection.setRemoteDescription({ type: "answer", sdp: text });
  }

  /** None where nobody answers. */
  async #ask(offer: string): Promise<Response | null> {
    const headers = { "content-type": "application/sdp", authorization: `Bearer ${this.#token}` };
    const request = { method: "POST", headers, body: offer, signal: this.#leave.signal };
    return fetch(new URL(PATH, this.#origin), request).catch(() => null);
  }

  async #count(): Promise<void> {
    const report = await this.#connection.getStats().catch(() => null);
    const video = [...(report?.values() ?? [])].find(({ type, kind }) => type === "inbound-rtp" && kind === "video");
    if (!video || this.#closed) return;
    const number = (name: string): number => (typeof video[name] === "number" ? video[name] : 0);
    const counts = Float64Array.of(
      number("packetsLost"),
      number("packetsReceived"),
      number("bytesReceived") + number("headerBytesReceived"),
      number("retransmittedPacketsReceived"),
      number("retransmittedBytesReceived") + number("fecBytesReceived"),
      number("keyFramesDecoded"),
    );
    this.#post({ type: "counts", counts }, [counts.buffer]);
  }

  #end(why: string, blocked: boolean): void {
    if (this.#closed) return;
    this.#post({ type: "ended", why, blocked });
    this.close();
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

function explain(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
