// Where the page goes when its server has gone: the front by which it came names another server of the fleet. Decides when to ask and whether
// to go; what it does, it does through `RelocationOut`, and reads the time there.

import { pageOf } from "./link.ts";

/** A server that has answered nothing for so long is gone. Guess: longer than a hiccup, and short enough for a page to be on another
 *  server 3 s after its own was killed; a front names a killed server for 3 s. */
const GONE_MS = 2_000;
/** Within this time of its goodbye a server is expected to go: then the first question without an answer is enough. It ends its sessions in less. */
const CLOSING_MS = 5_000;
/** Between two questions at first, and at the most. */
const FIRST_WAIT_MS = 500;
const LAST_WAIT_MS = 10_000;
/** For so long the page asks again where the front names a server that does not answer the page: a front forgets a killed server in 3 s. Later
 *  the page goes there: the browser may have to ask its user about the certificate, which only happens when a page is opened. */
const DOUBTFUL_MS = 4_000;
/** How long a page stays at least before the second move in a row, doubling with each further one up to the second value: servers that turn
 *  their pages away must not make them go round and round. */
const FIRST_STAY_MS = 2_000;
const LAST_STAY_MS = 60_000;
/** A page that has shown the world for so long has arrived: its next move is the first one again. */
const SETTLED_MS = 10_000;

/** What a front says: where to go, or in words why there is nothing. None: nothing. */
export type Answer = { page: unknown } | { words: string } | null;

export interface RelocationOut {
  /** In milliseconds. */
  now(): number;
  sleep(milliseconds: number): Promise<void>;
  /** Whether the server of this page answers, which takes a second or two at the most. */
  serverAnswers(page: URL): Promise<boolean>;
  askFront(): Promise<Answer>;
  /** What is being done, for the user; none: the server is there again. `byHand`: the user may open the front, which this page cannot ask. */
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

  /** Nothing has come from the server for so many milliseconds. */
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
    let wait = FIRST_WAIT_MS;
    while (!this.#closed) {
      const answers = await this.#out.serverAnswers(this.#own);
      if (this.#closed) break;
      const now = this.#out.now();
      if (answers) {
        if (this.#askedSince !== null) this.#out.say(null, false);
        [this.#silentSince, this.#askedSince, wait] = [null, null, FIRST_WAIT_MS];
      } else {
        this.#silentSince ??= now;
        if (this.#isGone(now)) {
          if (await this.#ask(now)) return;
          if (now - (this.#askedSince ?? now) >= DOUBTFUL_MS) wait = Math.min(LAST_WAIT_MS, wait * 1.5);
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
    return moves === 0 ? 0 : Math.min(LAST_STAY_MS, FIRST_STAY_MS * 2 ** (moves - 1));
  }

  #movesUntil(until: number): number {
    return this.#liveSince !== null && until - this.#liveSince >= SETTLED_MS ? 0 : this.#moves;
  }

  /** True where the page goes. */
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
