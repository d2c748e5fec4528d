// Decides when a page whose server is gone moves to another server of the fleet, which the front of its address names. Acts and reads the time
// through `RelocationOut` alone.

import { pageOf } from "./link.ts";

/** A server without an answer for this long is gone. Guess: longer than a hiccup, and short enough for a page to be on another server 3 s after
 *  its own was killed; a front names a killed server for 3 s. */
const GONE_MS = 2_000;
/** For this long after its goodbye a server counts as gone at the first question without an answer. It ends its sessions in less. */
const CLOSING_MS = 5_000;
/** First pause between two questions. Guess. */
const MIN_WAIT_MS = 500;
/** Maximum pause between two questions. Guess. */
const MAX_WAIT_MS = 10_000;
/** How long the page asks again when the front names a server that does not answer the page: a front forgets a killed server in 3 s. Then the page
 *  goes there, because the browser may have to ask its user about the certificate, which happens only when a page is opened. */
const DOUBTFUL_MS = 4_000;
/** Minimum stay before the second move in a row. It doubles with each further move, so that servers which turn their pages away do not send them
 *  round and round. Guess. */
const MIN_STAY_MS = 2_000;
/** Maximum of that stay. Guess. */
const MAX_STAY_MS = 60_000;
/** After the world was on display for this long, the next move counts as the first again. Guess. */
const SETTLED_MS = 10_000;

/** A front's answer: a page to go to, or words why there is none; null without an answer. */
export type Answer = { page: unknown } | { words: string } | null;

export interface RelocationOut {
  /** In milliseconds. */
  now(): number;
  sleep(milliseconds: number): Promise<void>;
  /** Asks a page's server whether it is there, for two seconds at most. */
  serverAnswers(page: URL): Promise<boolean>;
  askFront(): Promise<Answer>;
  /** Tells the user what the page does; null when the server is back. `byHand`: the user may open the front, which this page cannot ask. */
  say(words: string | null, byHand: boolean): void;
  go(page: URL, moves: number): void;
}

export class Relocation {
  readonly #own: URL;
  readonly #front: URL;
  readonly #out: RelocationOut;
  /** Moves in a row before this page. */
  readonly #moves: number;
  readonly #arrivedAt: number;
  #liveSince: number | null = null;
  /** Since when the server has not answered. */
  #silentSince: number | null = null;
  #closingUntil = Number.NEGATIVE_INFINITY;
  /** Since when the front has been asked. */
  #askedSince: number | null = null;
  #running = false;
  #closed = false;

  /** `own`: this page's address. */
  constructor(own: URL, front: URL, moves: number, out: RelocationOut) {
    this.#own = own;
    this.#front = front;
    this.#moves = moves;
    this.#out = out;
    this.#arrivedAt = out.now();
  }

  /** The world is on display. */
  onLive(): void {
    this.#liveSince ??= this.#out.now();
  }

  /** The server has been silent for this many milliseconds. */
  onSilence(milliseconds: number): void {
    this.#silentSince ??= this.#out.now() - milliseconds;
    void this.#run();
  }

  /** Asks the server whether it is there. */
  check(): void {
    void this.#run();
  }

  /** The server has said that it ends the session. */
  onGoodbye(): void {
    this.#closingUntil = this.#out.now() + CLOSING_MS;
    this.onSilence(0);
  }

  close(): void {
    this.#closed = true;
  }

  /** Asks the server, and then the front, until the server answers or the page goes. */
  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    let wait = MIN_WAIT_MS;
    while (!this.#closed) {
      const answers = await this.#out.serverAnswers(this.#own);
      if (this.#closed) break;
      const now = this.#out.now();
      if (answers) {
        if (this.#askedSince !== null) this.#out.say(null, false);
        [this.#silentSince, this.#askedSince, wait] = [null, null, MIN_WAIT_MS];
      } else {
        this.#silentSince ??= now;
        if (this.#isGone(now)) {
          if (await this.#ask(now)) return;
          if (now - (this.#askedSince ?? now) >= DOUBTFUL_MS) wait = Math.min(MAX_WAIT_MS, wait * 1.5);
        }
      }
      await this.#out.sleep(wait);
      if (answers && this.#silentSince === null && this.#out.now() >= this.#closingUntil) break;
    }
    this.#running = false;
  }

  #isGone(now: number): boolean {
    const since = this.#silentSince ?? now;
    return (now < this.#closingUntil || now - since >= GONE_MS) && now - this.#arrivedAt >= this.#stay(since);
  }

  #stay(until: number): number {
    const moves = this.#movesUntil(until);
    return moves === 0 ? 0 : Math.min(MAX_STAY_MS, MIN_STAY_MS * 2 ** (moves - 1));
  }

  #movesUntil(until: number): number {
    return this.#liveSince !== null && until - this.#liveSince >= SETTLED_MS ? 0 : this.#moves;
  }

  /** Asks the front. Returns whether the page goes. */
  async #ask(now: number): Promise<boolean> {
    const front = this.#front.host;
    if (this.#askedSince === null) this.#out.say(`Asking ${front} for another one…`, false);
    this.#askedSince ??= now;
    const answer = await this.#out.askFront();
    if (this.#closed) return false;
    const page = answer && "page" in answer ? pageOf(answer.page) : null;
    if (!answer) this.#out.say(`${front} does not answer this page either. Trying both again…`, true);
    else if ("words" in answer) this.#out.say(`${front} says: ${answer.words}`, false);
    else if (!page) this.#out.say(`${front} answers what this page does not understand. Trying again…`, true);
    else if (page.origin === this.#own.origin) this.#out.say(`${front} knows of no other one yet. Asking again…`, false);
    else if (await this.#isThere(page)) {
      this.#closed = true;
      this.#out.say(`Going to ${page.host}…`, false);
      this.#out.go(page, this.#movesUntil(this.#silentSince ?? now) + 1);
      return true;
    } else this.#out.say(`${page.host} does not answer. Asking ${front} again…`, false);
    return false;
  }

  async #isThere(page: URL): Promise<boolean> {
    if (await this.#out.serverAnswers(page)) return !this.#closed;
    return !this.#closed && this.#out.now() - (this.#askedSince ?? 0) >= DOUBTFUL_MS;
  }
}
