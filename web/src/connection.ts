// Keeps one session with the server alive: dials, watches, and dials again with back-off, over the transport that gets through.

import { Blocked, type Carrier, type CarrierOut, Refused, explain } from "./carrier.ts";
import { TRANSPORTS } from "./generated/core.ts";
import type { ConnectionState, RefusalReason, TransportChoice, TransportName } from "./messages.ts";
import { type Browser, TRANSPORT } from "./transports.ts";

/** Waits before a new attempt: doubling, so that a server that restarts is found soon and a dead one is not flooded. */
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 5_000;
/** A session that lasted this long was stable: the next loss restarts the back-off. */
const SETTLED_MS = 5_000;
/** A live server sends frames and clock answers many times in this period. Guess. */
const STALL_MS = 1_000;
/** After this silence the session is given up. An outage of two seconds must not cost a new session. */
const GIVE_UP_MS = 4_000;
/** An attempt that takes longer gets no answer from the network. */
const DIAL_MS = 6_000;
/** The same where another transport can be tried instead. Guess: three lost handshake packets. */
const FIRST_DIAL_MS = 3_000;
const WATCH_MS = 250;

export interface ConnectionOptions extends Browser {
  /** Base of `session.json` and `whep`. */
  origin: string;
  token: string;
  /** The certificate that the link names, until a session has proved that the server knows the token. */
  certificate: string | null;
  transport: TransportChoice;
}

export interface ConnectionOut extends CarrierOut {
  /** The window is to open a peer connection, which communicates through the other end of the port. */
  askForPeer(port: MessagePort): void;
  /** `why` says why this transport was chosen; it is empty where there is nothing to say. */
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
  /** The first is tried next. */
  readonly #candidates: Candidate[];
  #certificate: string | null;
  #wanted = true;
  #carrier: Carrier | null = null;
  #attempt = 0;
  /** Advice for a network that lets nothing through; the first that a transport gave. */
  #advice = "";
  /** Transports that have been blocked since a session last came up. */
  #blocked = 0;
  #heardAt = 0;
  #watchedAt = 0;
  #shown = false;
  #shownAt = 0;
  #wake: (() => void) | null = null;
  /** Why the current session must end, where this side decided that. */
  #reason: string | null = null;

  constructor(options: ConnectionOptions, out: ConnectionOut) {
    this.#options = options;
    this.#out = out;
    this.#certificate = options.certificate;
    this.#candidates = candidates(options);
    void this.#run();
  }

  /** A frame of this session is on the display. */
  onShown(): void {
    // Between sessions it is a picture of the previous one.
    if (this.#shown || !this.#carrier) return;
    this.#shown = true;
    this.#shownAt = performance.now();
    this.#out.onState({ state: "live" });
  }

  /** The server has proved the token. After a restart it shows another certificate than the link names, and proves it for that one. */
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
      const wait = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#attempt);
      this.#attempt += 1;
      this.#out.onState({ state: "reconnecting", attempt: this.#attempt, retryInMs: wait, why, advice });
      await this.#sleep(wait);
    }
  }

  /** One session from dialling to its end; returns why it ended, and whether another is tried at once. */
  async #session(): Promise<{ why: string; at: "once" | "later"; advice?: string }> {
    this.#shown = false;
    this.#reason = null;
    let carrier: Carrier;
    try {
      carrier = await this.#dial();
    } catch (error) {
      if (error instanceof Refused) this.#out.onRefused(error.reason, error.message);
      if (!(error instanceof Blocked)) return { why: explain(error), at: "later" };
      if (error.advice) this.#advice = error.advice;
      return { why: explain(error), at: this.#turnAway(error) ? "once" : "later", advice: this.#advice };
    }
    this.#carrier = carrier;
    try {
      if (!this.#wanted) return { why: "closed", at: "later" };
      this.#blocked = 0;
      this.#advice = "";
      this.#heardAt = performance.now();
      this.#out.onState({ state: "waiting" });
      this.#out.onOpen(carrier, this.#candidates[0]?.why ?? "");
      const why = await Promise.race([carrier.run(this.#listener()), this.#watch(carrier)]);
      return { why: this.#reason ?? why, at: "later" };
    } finally {
      carrier.close();
      this.#carrier = null;
      // If this side closed the connection there is a new one already, whose session this is not.
      if (this.#wanted) this.#out.onLost();
    }
  }

  async #dial(): Promise<Carrier> {
    const { origin, token } = this.#options;
    const patience = this.#candidates.length > 1 && this.#blocked === 0 ? FIRST_DIAL_MS : DIAL_MS;
    const limit = AbortSignal.timeout(patience);
    const name = this.#candidates[0]?.name ?? TRANSPORTS[0];
    const askForPeer = (port: MessagePort): void => this.#out.askForPeer(port);
    return TRANSPORT[name].dial({ origin, token, certificate: this.#certificate, askForPeer }, limit);
  }

  /** Switches to the next transport; true where it has not been tried yet. */
  #turnAway(error: Blocked): boolean {
    const [first, second] = this.#candidates;
    if (!first || !second) return false;
    second.why = `${TRANSPORT[first.name].label} does not get through: ${error.message}`;
    this.#candidates.push(...this.#candidates.splice(0, 1));
    this.#blocked += 1;
    return this.#blocked < this.#candidates.length;
  }

  /** Any arriving data proves that the server is alive. */
  #listener(): CarrierOut {
    const heard = <Argument>(pass: (argument: Argument) => void): ((argument: Argument) => void) => {
      return (argument) => {
        this.#heardAt = performance.now();
        pass(argument);
      };
    };
    const out = this.#out;
    return {
      onControl: (bytes) => out.onControl(bytes),
      onDatagram: heard((bytes) => out.onDatagram(bytes)),
      onPicture: heard((received) => out.onPicture(received)),
      onCounts: (counts) => out.onCounts(counts),
      onSoundCounts: (counts) => out.onSoundCounts(counts),
    };
  }

  /** A server that died sends no goodbye, and QUIC alone would wait for half a minute. */
  async #watch(carrier: Carrier): Promise<string> {
    let stalled = false;
    this.#watchedAt = performance.now();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
      if (!this.#wanted || this.#carrier !== carrier) return "replaced";
      const now = performance.now();
      // A suspended page received nothing because it was not running.
      if (now - this.#watchedAt > STALL_MS) this.#heardAt = now;
      this.#watchedAt = now;
      const silence = now - this.#heardAt;
      if (silence > GIVE_UP_MS) return "the server fell silent";
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

/** The best first, of those that the browser supports, unless the user chooses one. */
function candidates({ transport, webrtc }: ConnectionOptions): Candidate[] {
  const isAvailable = (name: TransportName): boolean => TRANSPORT[name].isAvailable({ webrtc });
  if (transport !== "auto" && isAvailable(transport)) return [{ name: transport, why: "as asked" }];
  const missed = transport === "auto" ? TRANSPORTS[0] : transport;
  const why = isAvailable(missed) ? "" : `this browser lacks ${TRANSPORT[missed].label}`;
  return TRANSPORTS.filter(isAvailable).map((name) => ({ name, why }));
}
