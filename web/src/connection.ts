// Keeps one session with the server alive: dials, watches, and dials again with back-off, over the transport that gets through.

import { type Carrier, type CarrierOut, SessionRefused, TransportBlocked, explain } from "./carrier.ts";
import { TRANSPORTS } from "./generated/core.ts";
import type { ConnectionState, RefusalReason, TransportChoice, TransportName } from "./messages.ts";
import { type Winner, race } from "./race.ts";
import { type WebTransportEnd, webTransportEndOf } from "./session-info.ts";
import { REMEMBERED_MS, type RememberedTransport } from "./transport-memory.ts";
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
/** Timeout of an attempt over one transport, and of the request before all of them. Guess: longer than any handshake that still succeeds. */
const DIAL_TIMEOUT_MS = 6_000;
const WATCH_INTERVAL_MS = 250;

export interface ConnectionOptions extends Browser {
  /** Base of `session.json` and `whep`. */
  origin: string;
  token: string;
  /** The certificate that the link names, or null once a session has proved that the server knows the token. */
  certificate: string | null;
  transport: TransportChoice;
  /** The transport of the last visit, if a better one did not get through then. */
  remembered: RememberedTransport | null;
}

export interface ConnectionOut extends CarrierOut {
  /** The window is to open a peer connection, which communicates through the other end of the port. */
  askForPeer(port: MessagePort): void;
  /** `why`: the reason for this transport, or "" when it is the first choice. `remembered`: what to begin with on the next visit; null for the
   *  best transport, and undefined where the user has chosen this one. */
  onOpen(carrier: Carrier, why: string, remembered: RememberedTransport | null | undefined): void;
  onRefused(reason: RefusalReason, message: string): void;
  /** The carrier of the last `onOpen` is no longer usable. */
  onLost(): void;
  onState(state: ConnectionState): void;
}

/** A transport that a round of attempts begins with, until some time. */
interface FirstChoice {
  name: TransportName;
  until: number;
}

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #out: ConnectionOut;
  /** The transports that may be tried, best first. */
  readonly #candidates: readonly TransportName[];
  /** The reason not to begin with the best of all transports, or "". */
  readonly #limited: string;
  /** The transport that got through where better ones did not. */
  #first: FirstChoice | null;
  #certificate: string | null;
  #wanted = true;
  /** Ends the attempts in progress. */
  readonly #stop = new AbortController();
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
    ({ candidates: this.#candidates, why: this.#limited } = candidatesFor(options));
    const { remembered } = options;
    this.#first = remembered && { name: remembered.name, until: performance.now() + remembered.forMs };
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
    void this.#carrier?.close();
  }

  close(): void {
    this.#wanted = false;
    this.#stop.abort();
    void this.#carrier?.close();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    while (this.#wanted) {
      if (this.#attempt === 0) this.#out.onState({ state: "connecting", attempt: 1 });
      const { why, advice = "" } = await this.#session();
      if (!this.#wanted) return;
      if (this.#shown && performance.now() - this.#shownAt > SETTLED_MS) this.#attempt = 0;
      const wait = Math.min(MAX_RETRY_MS, MIN_RETRY_MS * 2 ** this.#attempt);
      this.#attempt += 1;
      this.#out.onState({ state: "reconnecting", attempt: this.#attempt, retryInMs: wait, why, advice });
      await this.#sleep(wait);
    }
  }

  /** Runs one session from dialling to its end. Returns why it ended. */
  async #session(): Promise<{ why: string; advice?: string }> {
    this.#shown = false;
    this.#reason = null;
    let winner: Winner<Carrier>;
    try {
      winner = await this.#dial();
    } catch (error) {
      if (error instanceof SessionRefused && this.#wanted) this.#out.onRefused(error.reason, error.message);
      // A server that is away or refuses says nothing about transports.
      if (!(error instanceof TransportBlocked)) return { why: explain(error) };
      if (error.advice) this.#advice = error.advice;
      return { why: explain(error), advice: this.#advice };
    }
    const carrier = winner.opened;
    this.#carrier = carrier;
    try {
      if (!this.#wanted) return { why: "closed" };
      this.#advice = "";
      this.#aliveAt = performance.now();
      this.#out.onState({ state: "waiting" });
      const why = this.#reasonFor(winner);
      this.#out.onOpen(carrier, why, this.#remember(winner.name));
      const ended = await Promise.race([carrier.run(this.#listener()), this.#watch(carrier)]);
      return { why: this.#reason ?? ended };
    } finally {
      void carrier.close();
      this.#carrier = null;
      // If this side closed the connection there is a new one already, whose session this is not.
      if (this.#wanted) this.#out.onLost();
    }
  }

  /** The transport that got through before, while better ones need not be tried again. */
  get #firstChoice(): TransportName | null {
    const first = this.#first;
    return first && performance.now() < first.until && this.#candidates.includes(first.name) ? first.name : null;
  }

  /** Opens a session over the first transport that gets through. */
  async #dial(): Promise<Winner<Carrier>> {
    const { origin, token } = this.#options;
    const first = this.#firstChoice;
    const order = first ? [first, ...this.#candidates.filter((name) => name !== first)] : this.#candidates;
    // Over WebRTC alone the offer asks everything that this request would.
    const asks = order.some((name) => name !== "webrtc");
    const limit = AbortSignal.timeout(DIAL_TIMEOUT_MS);
    const end: WebTransportEnd = asks ? await webTransportEndOf(origin, token, this.#certificate, limit) : { certificate: null, port: null };
    const askForPeer = (port: MessagePort): void => this.#out.askForPeer(port);
    const entrants = order.map((name) => ({
      name,
      rank: this.#candidates.indexOf(name),
      dial: (limit: AbortSignal) => TRANSPORT[name].dial({ origin, end, askForPeer }, limit),
    }));
    return race(entrants, DIAL_TIMEOUT_MS, this.#stop.signal);
  }

  /** Says why the session has this transport, or "" where it has the best of all. */
  #reasonFor({ name, failures }: Winner<Carrier>): string {
    const [best] = this.#candidates;
    if (this.#limited || !best || name === best) return this.#limited;
    if (name === this.#firstChoice) return `${TRANSPORT[best].label} did not get through before; it is tried again later`;
    const failure = failures.get(best);
    return `${TRANSPORT[best].label} does not get through: ${failure === undefined ? "it was not ready in time" : explain(failure)}`;
  }

  /** Remembers a transport that is not the best, from the time that it first won. */
  #remember(name: TransportName): RememberedTransport | null | undefined {
    if (this.#options.transport !== "auto") return undefined;
    const now = performance.now();
    if (name === this.#candidates[0]) this.#first = null;
    else if (name !== this.#firstChoice) this.#first = { name, until: now + REMEMBERED_MS };
    return this.#first && { name: this.#first.name, forMs: this.#first.until - now };
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

/** Returns the transports that the browser supports, best first, or only the one that the user has chosen; and why those, "" for all. */
function candidatesFor({ transport, webrtc }: ConnectionOptions): { candidates: TransportName[]; why: string } {
  const isAvailable = (name: TransportName): boolean => TRANSPORT[name].isAvailable({ webrtc });
  if (transport !== "auto" && isAvailable(transport)) return { candidates: [transport], why: "as asked" };
  const missed = transport === "auto" ? TRANSPORTS[0] : transport;
  const why = isAvailable(missed) ? "" : `this browser lacks ${TRANSPORT[missed].label}`;
  return { candidates: TRANSPORTS.filter(isAvailable), why };
}
