// Opens a session over the transport that gets through first. Attempts begin one after the other and continue side by side, as RFC 8305 has it for
// addresses: an attempt that the network swallows silently costs a fraction of a second and not its whole time limit.

import { TransportBlocked } from "./carrier.ts";
import type { TransportName } from "./generated/core.ts";

/** Pause before the next attempt begins, unless all earlier ones have failed. RFC 8305, section 8, recommends 250 ms. */
const STAGGER_MS = 250;
/** How long after the race began an open transport still waits for a better one. Guess: WebRTC, which begins last but one, has the time for seven
 * round trips of 60 ms. */
const PATIENCE_MS = 700;
/** How long the winner waits for the losers to give back what they hold at the server. Guess: a round trip, and no user notices more. */
const FAREWELL_MS = 500;

/** Something opened. It may complete once the server knows that it is closed. */
interface Closable {
  close(): void | Promise<void>;
}

/** A transport in the race. */
export interface Entrant<Opened> {
  name: TransportName;
  /** 0 is the best transport. */
  rank: number;
  /** Opens a session before `limit` aborts. After that it closes what it has opened and rejects, once the server knows. */
  dial(limit: AbortSignal): Promise<Opened>;
}

/** The transport that was ready first, and why the better ones were not. */
export interface Winner<Opened> {
  opened: Opened;
  name: TransportName;
  /** Failures so far by transport. A transport without an entry was not ready in time. */
  failures: Map<TransportName, unknown>;
}

/** An attempt, from its turn to its end. */
interface Attempt<Opened> {
  entrant: Entrant<Opened>;
  controller: AbortController;
  opened: Opened | null;
  failed: boolean;
  settled: Promise<unknown>;
}

/** Runs the race. The first entrant wins as soon as it is open; others wait for better ones that are still on their way. Each attempt takes at
 *  most `limitMs`; `stop` ends all of them. Throws what `failureOf` makes of the failures when nobody gets through. */
export async function race<Opened extends Closable>(entrants: readonly Entrant<Opened>[], limitMs: number, stop?: AbortSignal): Promise<Winner<Opened>> {
  const { winner, attempts, failures } = await new Race(entrants, limitMs).run(stop);
  const losers = attempts.filter((attempt) => attempt !== winner);
  const farewells = losers.map(({ controller, opened, settled }) => {
    controller.abort();
    return opened ? opened.close() : settled;
  });
  if (!winner?.opened) throw failureOf([...failures.values()]);
  await Promise.race([Promise.all(farewells), new Promise((resolve) => setTimeout(resolve, FAREWELL_MS))]);
  return { opened: winner.opened, name: winner.entrant.name, failures };
}

class Race<Opened extends Closable> {
  readonly #entrants: readonly Entrant<Opened>[];
  readonly #limitMs: number;
  readonly #begun = performance.now();
  readonly #attempts: Attempt<Opened>[] = [];
  readonly #failures = new Map<TransportName, unknown>();
  #stagger: ReturnType<typeof setTimeout> | undefined;
  #finish: (winner: Attempt<Opened> | null) => void = () => undefined;
  #over = false;

  constructor(entrants: readonly Entrant<Opened>[], limitMs: number) {
    this.#entrants = entrants;
    this.#limitMs = limitMs;
  }

  async run(stop?: AbortSignal): Promise<{ winner: Attempt<Opened> | null; attempts: Attempt<Opened>[]; failures: Map<TransportName, unknown> }> {
    const patience = setTimeout(() => this.#decide(), PATIENCE_MS);
    const winner = await new Promise<Attempt<Opened> | null>((resolve) => {
      this.#finish = resolve;
      stop?.addEventListener("abort", () => resolve(null));
      if (stop?.aborted) resolve(null);
      else this.#startNext();
    });
    this.#over = true;
    clearTimeout(patience);
    clearTimeout(this.#stagger);
    // Attempts that are given up now have not failed.
    return { winner, attempts: this.#attempts, failures: new Map(this.#failures) };
  }

  #startNext(): void {
    clearTimeout(this.#stagger);
    const entrant = this.#entrants[this.#attempts.length];
    if (!entrant || this.#over) return;
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), this.#limitMs);
    const attempt: Attempt<Opened> = { entrant, controller, opened: null, failed: false, settled: Promise.resolve() };
    this.#attempts.push(attempt);
    attempt.settled = entrant.dial(controller.signal).then(
      (opened) => {
        clearTimeout(timer);
        if (this.#over) return opened.close();
        attempt.opened = opened;
        return this.#decide();
      },
      (error: unknown) => {
        clearTimeout(timer);
        attempt.failed = true;
        this.#failures.set(entrant.name, error);
        if (this.#attempts.every(({ failed }) => failed)) this.#startNext();
        this.#decide();
      },
    );
    this.#stagger = setTimeout(() => this.#startNext(), STAGGER_MS);
  }

  #decide(): void {
    if (this.#over) return;
    const open = this.#attempts.filter(({ opened }) => opened !== null).sort((one, other) => one.entrant.rank - other.entrant.rank);
    const [best] = open;
    if (!best) {
      if (this.#failures.size === this.#entrants.length) this.#finish(null);
      return;
    }
    const isHopeful = ({ name, rank }: Entrant<Opened>): boolean => rank < best.entrant.rank && !this.#failures.has(name);
    const waits = best.entrant !== this.#entrants[0] && this.#entrants.some(isHopeful);
    if (!waits || performance.now() - this.#begun >= PATIENCE_MS) this.#finish(best);
  }
}

/** Returns the failure to report: the server's refusal or an error rather than a network that lets nothing through, whose advice is joined. */
function failureOf(failures: readonly unknown[]): unknown {
  const blocked = failures.filter((failure) => failure instanceof TransportBlocked);
  const last = blocked.at(-1);
  if (failures.length === 0) return new Error("the connection was closed");
  if (!last || blocked.length < failures.length) return failures.find((failure) => !(failure instanceof TransportBlocked));
  return new TransportBlocked(last.message, blocked.map(({ advice }) => advice).filter(Boolean).join(" "));
}
