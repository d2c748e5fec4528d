// Keeps one session with the server alive: dials, watches, and dials again with back-off, over the transport that gets through.

import { Blocked, type Carrier, type CarrierOut, Refused, explain } from "./carrier.ts";
import { TRANSPORTS } from "./generated/core.ts";
import type { ConnectionState, RefusalReason, TransportChoice, TransportName } from "./messages.ts";
import { type Browser, TRANSPORT } from "./transports.ts";

/** First pause before a new attempt. It doubles up to the maximum: a server that restarts is found soon, and a dead one is not flooded. Guess. */
const MIN_RETRY_MS = 250;
const MAX_RETRY_MS = 5_000;
/** After a session that lasted this long, the pauses begin again with the first. Guess. */
const SETTLED_MS = 5_000;
/** A session without any sign of life for this long is stalled: live servers send many times in this period. Guess. */
const STALL_MS = 1_000;
/** The session is given up after this silence. Guess: an outage of two seconds must not cost a new session. */
const GIVE_UP_MS = 4_000;
/** Timeout of an attempt over the last transport. Guess: longer than any handshake that still succeeds. */
const DIAL_TIMEOUT_MS = 6_000;
/** Timeout of an attempt while another transport has not been tried. It is the same for each of them: a network that drops UDP silently
 *  costs two of these before the WebSocket's turn. Guess: three lost handshake packets. */
const NEXT_DIAL_TIMEOUT_MS = 3_000;
const WATCH_INTERVAL_MS = 250;

export interface ConnectionOptions extends Browser {
  /** Base of `session.json` and `whep`. */
  origin: string;
  token: string;
  /** The certificate that the link names, or null once a session has proved that the server knows the token. */
  certificate: string | null;
  transport: TransportChoice;
}

export interface ConnectionOut extends CarrierOut {
  /** The window is to open a peer connection, which communicates through the other end of the port. */
  askForPeer(port: MessagePort): void;
  /** `why`: the reason for this transport, or "" when it is the first choice. */
  onOpen(carrier: Carrier, why: string): void;
  onRefused(reason: RefusalReason, message: string): void;
  /** The carrier of the last `onOpen` is no longer usable. */
  onLost(): void;
  onState(state: ConnectionState): void;
}

/** A transport that may be tried, and the reason to try it. */
interface Candidate {
  name: TransportName;
  why: string;
}

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #out: ConnectionOut;
  /** Best first. */
  readonly #candidates: Candidate[];
  /** Index of the candidate that a round of attempts begins with: the one of the last session. */
  #first = 0;
  /** Candidates that have been blocked in this round. */
  #blocked = 0;
  #certificate: string | null;
  #wanted = true;
  #carrier: Carrier | null = null;
  #attempt = 0;
  /** Advice for a network that lets nothing through: the newest that a transport gave. */
  #advice = "";
  /** When something last arrived from the server. */
  #aliveAt = 0;
  #watchedAt = 0;
  #shown = false;
  #shownAt = 0;
  #wake: (() => void) | null = null;
  /** Why this side ends the current session, or null. */
  #reason: string | null = null;

  constructor(options: ConnectionOptions, out: ConnectionOut) {
    this.#options = options;
    this.#out = out;
    this.#certificate = options.certificate;
    this.#candidates = candidates(options);
    void this.#run();
  }

  /** A frame is on the display. */
  onShown(): void {
    // Between sessions it belongs to the previous one.
    if (this.#shown || !this.#carrier) return;
    this.#shown = true;
    this.#shownAt = performance.now();
    this.#out.onState({ state: "live" });
  }

  /** The server has proved that it knows the token. After a restart it may show another certificate than the link names. */
  onProven(): void {
    this.#certificate = null;
  }

  /** Ends the session in favour of a new one. */
  restart(why: string): void {
    this.#reason = why;
    this.#carrier?.close();
  }

  close(): void {
    this.#wanted = false;
    this.#carrier?.close();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    while (this.#wanted) {
      if (this.#attempt === 0) this.#out.onState({ state: "connecting", attempt: 1 });
      const { why, at, advice = "" } = await this.#session();
      if (!this.#wanted) return;
      if (at === "once") continue;
      if (this.#shown && performance.now() - this.#shownAt > SETTLED_MS) this.#attempt = 0;
      const wait = Math.min(MAX_RETRY_MS, MIN_RETRY_MS * 2 ** this.#attempt);
      this.#attempt += 1;
      this.#out.onState({ state: "reconnecting", attempt: this.#attempt, retryInMs: wait, why, advice });
      await this.#sleep(wait);
    }
  }

  /** Runs one session from dialling to its end. Returns why it ended, and when to try another. */
  async #session(): Promise<{ why: string; at: "once" | "later"; advice?: string }> {
    this.#shown = false;
    this.#reason = null;
    let carrier: Carrier;
    try {
      carrier = await this.#dial();
    } catch (error) {
      if (error instanceof Refused) this.#out.onRefused(error.reason, error.message);
      if (!(error instanceof Blocked)) {
        // The server is away or refuses. That says nothing about transports, so the next attempt begins with the proven one.
        this.#blocked = 0;
        return { why: explain(error), at: "later" };
      }
      if (error.advice) this.#advice = error.advice;
      return { why: explain(error), at: this.#onBlocked(error) ? "once" : "later", advice: this.#advice };
    }
    this.#carrier = carrier;
    try {
      if (!this.#wanted) return { why: "closed", at: "later" };
      this.#first = this.#index;
      this.#blocked = 0;
      this.#advice = "";
      this.#aliveAt = performance.now();
      this.#out.onState({ state: "waiting" });
      this.#out.onOpen(carrier, this.#candidates[this.#first]?.why ?? "");
      const why = await Promise.race([carrier.run(this.#listener()), this.#watch(carrier)]);
      return { why: this.#reason ?? why, at: "later" };
    } finally {
      carrier.close();
      this.#carrier = null;
      // If this side closed the connection there is a new one already, whose session this is not.
      if (this.#wanted) this.#out.onLost();
    }
  }

  get #index(): number {
    return (this.#first + this.#blocked) % this.#candidates.length;
  }

  async #dial(): Promise<Carrier> {
    const { origin, token } = this.#options;
    const hasNext = this.#blocked < this.#candidates.length - 1;
    const limit = AbortSignal.timeout(hasNext ? NEXT_DIAL_TIMEOUT_MS : DIAL_TIMEOUT_MS);
    const name = this.#candidates[this.#index]?.name ?? TRANSPORTS[0];
    const askForPeer = (port: MessagePort): void => this.#out.askForPeer(port);
    return TRANSPORT[name].dial({ origin, token, certificate: this.#certificate, askForPeer }, limit);
  }

  /** Switches to the next transport. Returns whether that one has not been tried in this round. */
  #onBlocked(error: Blocked): boolean {
    const blocked = this.#candidates[this.#index];
    this.#blocked += 1;
    const next = this.#candidates[this.#index];
    if (!blocked || !next || next === blocked) return false;
    next.why = `${TRANSPORT[blocked.name].label} does not get through: ${error.message}`;
    return this.#blocked < this.#candidates.length;
  }

  /** Whatever the server sends is a sign of life. Counters are the browser's own, and none. */
  #listener(): CarrierOut {
    const alive = <Argument>(pass: (argument: Argument) => void): ((argument: Argument) => void) => {
      return (argument) => {
        this.#aliveAt = performance.now();
        pass(argument);
      };
    };
    const out = this.#out;
    return {
      onControl: alive((bytes) => out.onControl(bytes)),
      onDatagram: alive((bytes) => out.onDatagram(bytes)),
      onPicture: alive((received) => out.onPicture(received)),
      onCounts: (counts) => out.onCounts(counts),
      onSoundCounts: (counts) => out.onSoundCounts(counts),
      onUndecodable: () => out.onUndecodable(),
    };
  }

  /** A server that died sends no goodbye, and QUIC alone would wait for half a minute. */
  async #watch(carrier: Carrier): Promise<string> {
    let stalled = false;
    this.#watchedAt = performance.now();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_INTERVAL_MS));
      if (!this.#wanted || this.#carrier !== carrier) return "replaced";
      const now = performance.now();
      // A suspended page received nothing because it was not running.
      if (now - this.#watchedAt > STALL_MS) this.#aliveAt = now;
      this.#watchedAt = now;
      const silence = now - this.#aliveAt;
      if (silence > GIVE_UP_MS) return `nothing came from the server for ${GIVE_UP_MS / 1_000} s`;
      if (silence > STALL_MS) {
        stalled = true;
        this.#out.onState({ state: "stalled", sinceMs: silence });
      } else if (stalled) {
        stalled = false;
        this.#out.onState(this.#shown ? { state: "live" } : { state: "waiting" });
      }
    }
  }

  #sleep(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Returns the transports that the browser supports, best first, or only the one that the user has chosen. */
function candidates({ transport, webrtc }: ConnectionOptions): Candidate[] {
  const isAvailable = (name: TransportName): boolean => TRANSPORT[name].isAvailable({ webrtc });
  if (transport !== "auto" && isAvailable(transport)) return [{ name: transport, why: "as asked" }];
  const missed = transport === "auto" ? TRANSPORTS[0] : transport;
  const why = isAvailable(missed) ? "" : `this browser lacks ${TRANSPORT[missed].label}`;
  return TRANSPORTS.filter(isAvailable).map((name) => ({ name, why }));
}
