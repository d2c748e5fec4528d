// A page of a fleet: it moves to another server when its own is gone, and keeps its user's state across the move. Does nothing when the
// page's address names no front.

import { Disposables } from "./disposables.ts";
import type { Loudspeaker } from "./loudspeaker.ts";
import { type MovedPage, frontOf, linkBy, questionTo, withFragment } from "./link.ts";
import { type Pose, fromYawPitch, yawPitchOf } from "./math.ts";
import type { ConnectionState } from "./messages.ts";
import { type Answer, Relocation } from "./relocation.ts";
import type { Shell } from "./shell.ts";
import type { Walker } from "./walker.ts";

/** Timeout of a server's health check. Guess: two lost packets of a handshake. */
const HEALTH_TIMEOUT_MS = 1_500;
/** Timeout of a front's answer. Guess: it asks nobody else. */
const FRONT_TIMEOUT_MS = 3_000;
/** Interval at which a page that renders the world checks its server: a room in which nothing changes is silent. */
const CHECK_INTERVAL_MS = 2_000;

/** The parts of the page whose state moves with it. */
export interface FleetPage {
  shell: Shell;
  walker: Walker;
  loudspeaker: Loudspeaker;
  /** Where the user is, and whether the page renders the world. */
  user(): { head: Pose; local: boolean };
  /** The user has done something, so that sound may begin. */
  onGesture(): void;
}

export class Fleet {
  readonly #page: FleetPage;
  readonly #moved: MovedPage | null;
  readonly #relocation: Relocation | null;
  readonly #disposables = new Disposables();
  /** Proves the right to a seat in the room, here or on another server: 16 random bytes. */
  readonly seat: Uint8Array;
  /** The user's pose on the server that is gone, or null when the page has not moved. */
  readonly start: Pose | null;

  constructor(movedPage: MovedPage | null, page: FleetPage) {
    this.#page = page;
    this.#moved = movedPage;
    this.#relocation = this.#open(movedPage?.moves ?? 0);
    this.seat = bytesOf(movedPage?.seat ?? null) ?? crypto.getRandomValues(new Uint8Array(16));
    this.start = movedPage && { position: movedPage.position, orientation: fromYawPitch(movedPage.yaw, movedPage.pitch) };
  }

  /** Restores the state that the page has brought along. Call it once the page is set up. */
  restore(): void {
    if (!this.#moved) return;
    const { name, position, yaw, pitch, inside, sound } = this.#moved;
    const { shell, walker, loudspeaker, onGesture } = this.#page;
    shell.userName = name;
    walker.place(position, yaw, pitch);
    [loudspeaker.volume, loudspeaker.muted] = [sound.volume, sound.muted];
    shell.onSound(sound.volume, sound.muted);
    shell.onNotice(`Your server is gone, and this is another one: ${location.host}.${inside ? " Click for sound." : ""}`);
    if (!inside) return;
    shell.view = "world";
    walker.focus();
    const { signal } = this.#disposables;
    for (const gesture of ["pointerdown", "keydown"]) window.addEventListener(gesture, () => onGesture(), { once: true, signal });
  }

  onState(state: ConnectionState): void {
    if (state.state === "live") this.#relocation?.onLive();
    if (state.state === "stalled") this.#relocation?.onSilence(state.sinceMs);
    if (state.state === "reconnecting") this.#relocation?.onSilence(0);
  }

  /** The server has said that it ends the session or the membership. */
  onGoodbye(): void {
    this.#relocation?.onGoodbye();
  }

  close(): void {
    this.#disposables.close();
    this.#relocation?.close();
  }

  #open(moves: number): Relocation | null {
    const { shell, user } = this.#page;
    const front = frontOf(location.search);
    if (front === "unsafe") {
      shell.onNotice("The front in this page's address is not used, because it is not an origin with https: when this server is gone, no other one is looked for.");
    }
    if (front === null || front === "unsafe") return null;
    const relocation = new Relocation(new URL(location.href), front, moves, {
      now: () => performance.now(),
      sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
      serverAnswers,
      askFront: () => ask(questionTo(front, location.search)),
      say: (words, byHand) => shell.onRelocation(words, byHand ? { name: front.host, link: linkBy(front, location.search, location.hash).href } : null),
      // In place of this page: going back would lead to the server that is gone.
      go: (page, moves) => location.replace(withFragment(page, location.hash, this.#movedPage(moves))),
    });
    this.#disposables.every(CHECK_INTERVAL_MS, () => {
      if (user().local) relocation.check();
    });
    return relocation;
  }

  #movedPage(moves: number): MovedPage {
    const { shell, loudspeaker, user } = this.#page;
    const { position, orientation } = user().head;
    const seat = [...this.seat].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const sound = { volume: loudspeaker.volume, muted: loudspeaker.muted };
    return { moves, name: shell.userName, seat, position, ...yawPitchOf(orientation), inside: shell.view === "world", sound };
  }
}

async function serverAnswers(page: URL): Promise<boolean> {
  try {
    const { ok } = await fetch(new URL("healthz", page), { cache: "no-store", signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS) });
    return ok;
  } catch {
    return false;
  }
}

async function ask(question: URL): Promise<Answer> {
  try {
    const answer = await fetch(question, { cache: "no-store", signal: AbortSignal.timeout(FRONT_TIMEOUT_MS) });
    if (!answer.ok) return { words: (await answer.text()).slice(0, 200) };
    return { page: ((await answer.json()) as { page?: unknown } | null)?.page };
  } catch {
    return null;
  }
}

function bytesOf(digits: string | null): Uint8Array | null {
  return digits === null ? null : Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
