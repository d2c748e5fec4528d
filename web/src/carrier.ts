// The transport of a session: control messages in order, datagrams as they arrive, and over WebRTC the decoded pictures as well.

import type { PageTime } from "./clock.ts";
import type { PictureCounts, SoundCounts } from "./generated/core.ts";
import type { RefusalReason, TransportName } from "./messages.ts";
import type { RtpTimestamp } from "./picture.ts";

/** One session with the server, as long as it lasts. */
export interface Carrier {
  readonly name: TransportName;
  /** Null over WebRTC, where the offer was made with the token. */
  readonly challenge: Challenge | null;
  /** May be lost, and is when the send queue is full. */
  sendDatagram(bytes: Uint8Array): void;
  /** Bytes of the control stream, one complete message at a time. Resolves once there is room for more: what may wait, waits for that. */
  sendControl(bytes: Uint8Array): Promise<void>;
  /** Delivers what arrives until the session ends; returns why it ended. */
  run(out: CarrierOut): Promise<string>;
  /** Completes, where that is known, once the server has ended the session. */
  close(): void | Promise<void>;
}

/** The values over which both ends prove that they know the token. */
export interface Challenge {
  /** The server's, as received on its stream. */
  bytes: Uint8Array;
  /** Hash of the only certificate that the browser accepts for this session; null when an authority vouches for it. */
  certificate: string | null;
}

export interface CarrierOut {
  onControl(bytes: Uint8Array): void;
  onDatagram(bytes: Uint8Array): void;
  /** The browser's own receiver decoded a picture; the recipient must close it. */
  onPicture(received: ReceivedPicture): void;
  /** Counters of the browser's receiver since the session began. */
  onCounts(counts: PictureCounts): void;
  /** The receiver's counters of the sound. */
  onSoundCounts(counts: SoundCounts): void;
  /** The browser's own receiver decodes none of the frames that arrive. */
  onUndecodable(): void;
}

export interface ReceivedPicture {
  picture: VideoFrame;
  rtpTimestamp: RtpTimestamp;
  /** When its last packet arrived; null when the browser does not report it. */
  receivedAt: PageTime | null;
}

/** Returns the RTP timestamp of a picture's packets, if the browser reports it. */
export function rtpTimestampOf(picture: VideoFrame): RtpTimestamp | undefined {
  // Not yet in TypeScript's declarations of browsers.
  const described = picture as VideoFrame & { metadata?: () => { rtpTimestamp?: RtpTimestamp } };
  return described.metadata?.().rtpTimestamp;
}

/** This transport does not get through to the server; another may. */
export class TransportBlocked extends Error {
  override readonly name = "TransportBlocked";
  /** For the user: what blocks it and what to do. */
  readonly advice: string;

  constructor(message: string, advice = "") {
    super(message);
    this.advice = advice;
  }
}

/** The server refuses this session. */
export class SessionRefused extends Error {
  override readonly name = "SessionRefused";
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Returns an error's words for the user. Errors of requests have their own (http.ts); for others the browser's message is all that is known. */
export function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || error.name;
}
