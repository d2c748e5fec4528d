// The transport of a session: control messages in order, datagrams as they arrive, and over WebRTC the decoded pictures as well.

import type { PageTime } from "./clock.ts";
import type { PictureCounts, SoundCounts } from "./generated/core.ts";
import type { RefusalReason, TransportName } from "./messages.ts";
import type { RtpTimestamp } from "./picture.ts";

/** One session with the server, as long as it lasts. */
export interface Carrier {
  readonly name: TransportName;
  /** None over WebRTC, where the offer was made with the token. */
  readonly challenge: Challenge | null;
  /** May be lost, and is when the send queue is full. */
  sendDatagram(bytes: Uint8Array): void;
  /** Bytes of the control stream, one complete message at a time. */
  sendControl(bytes: Uint8Array): void;
  /** Delivers what arrives until the session ends; returns why it ended. */
  run(out: CarrierOut): Promise<string>;
  close(): void;
}

/** The values over which both ends prove over WebTransport that they know the token. */
export interface Challenge {
  /** The server's, as received on its stream. */
  bytes: Uint8Array;
  /** The hash of the one certificate that the browser accepts for this session; none where it relies on its authorities. */
  certificate: string | null;
}

export interface CarrierOut {
  onControl(bytes: Uint8Array): void;
  onDatagram(bytes: Uint8Array): void;
  /** The browser's own receiver decoded a picture; the recipient must close it. */
  onPicture(received: ReceivedPicture): void;
  /** What the browser's receiver counted since the session began. */
  onCounts(counts: PictureCounts): void;
  /** The same for the sound. */
  onSoundCounts(counts: SoundCounts): void;
}

export interface ReceivedPicture {
  picture: VideoFrame;
  rtpTimestamp: RtpTimestamp;
  /** When its last packet arrived; none where the browser does not report it. */
  receivedAt: PageTime | null;
}

/** The timestamp of a picture's packets, where the browser reports it. */
export function rtpTimestampOf(picture: VideoFrame): RtpTimestamp | undefined {
  // Not yet in TypeScript's declarations of browsers.
  const described = picture as VideoFrame & { metadata?: () => { rtpTimestamp?: RtpTimestamp } };
  return described.metadata?.().rtpTimestamp;
}

/** The server answers, but this transport does not get through to it. */
export class Blocked extends Error {
  override readonly name = "Blocked";
  /** For the user: what blocks it and what to do. */
  readonly advice: string;

  constructor(message: string, advice = "") {
    super(message);
    this.advice = advice;
  }
}

/** The server refuses this session. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Why something that was asked of the server failed, in words for the user. */
export function explain(error: unknown): string {
  if (error instanceof TypeError) return "the server cannot be reached";
  if (error instanceof DOMException && error.name === "TimeoutError") return "the server does not answer";
  return error instanceof Error ? error.message : String(error);
}
