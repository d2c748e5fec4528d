// The room's panel: who is in the room, hearing them and speaking to them.

import { Disposables } from "./disposables.ts";
import type { SoundOutput } from "./loudspeaker.ts";
import type { Pose } from "./math.ts";
import { Microphone, packetOf } from "./microphone.ts";
import { element } from "./page.ts";
import { People, type PeopleList } from "./people.ts";
import { Voices } from "./voices.ts";

/** How often the list shows who speaks. Guess: a syllable. */
const SPEAKING_INTERVAL_MS = 200;
/** How many of the user's own former members are known. Guess: more changes than fit into the time that a session lingers. */
const MAX_FORMER_MEMBERS = 4;
/** After this time without a room the microphone is given back. Guess: a session that follows another takes less. */
const MAX_CHANGE_MS = 10_000;

export interface RoomPanelOut {
  /** Ten milliseconds of the user's voice: the packet's number, and Opus. */
  onSaid(packet: Uint8Array): void;
  onNotice(words: string): void;
  /** The user has done something, so that sound may begin. */
  onGesture(): void;
  output(): SoundOutput | null;
}

export class RoomPanel {
  readonly #out: RoomPanelOut;
  readonly #voices: Voices;
  readonly #people: People;
  readonly #microphone: Microphone;
  readonly #talk = element("talk", HTMLButtonElement);
  readonly #disposables = new Disposables();
  #known: PeopleList | null = null;
  /** The user's own members of sessions before this one, which may be in the room for a moment longer. */
  #former: readonly number[] = [];
  /** Ends the user's talking when no other session follows. */
  #silencing: ReturnType<typeof setTimeout> | undefined;

  constructor(out: RoomPanelOut) {
    this.#out = out;
    this.#voices = new Voices(() => out.output());
    this.#people = new People({
      onNotice: (words) => out.onNotice(words),
      volumeOf: (member) => this.#voices.volumeOf(member),
      onVolume: (member, volume) => this.#voices.setVolume(member, volume),
    });
    this.#microphone = new Microphone({
      onPacket: (packet) => out.onSaid(packet),
      onEnded: (why) => {
        void this.#setTalking(false);
        out.onNotice(`Others no longer hear you: ${why}.`);
      },
    });
    const onClick = (): void => {
      // The next key walks again.
      this.#talk.blur();
      this.toggleTalking();
    };
    this.#talk.addEventListener("click", onClick, { signal: this.#disposables.signal });
    this.#disposables.every(SPEAKING_INTERVAL_MS, () => this.#people.setSpeaking(this.#voices.speaking()));
  }

  close(): void {
    this.#hide();
    clearTimeout(this.#silencing);
    void this.#setTalking(false);
    this.#disposables.close();
  }

  /** Who is in the room, or null when that is not known. */
  get known(): PeopleList | null {
    return this.#known;
  }

  /** Call it from a user's gesture. */
  toggleTalking(): void {
    if (this.#talk.hidden) return;
    this.#out.onGesture();
    void this.#setTalking(this.#talk.getAttribute("aria-pressed") !== "true");
  }

  show(all: PeopleList): void {
    if (this.#known && this.#known.you !== all.you) this.#keepFormer(this.#known.you);
    const list = { ...all, people: all.people.filter(({ id }) => id === all.you || !this.#former.includes(id)) };
    this.#known = list;
    clearTimeout(this.#silencing);
    this.#voices.setMembers(new Map(list.people.map(({ id, name }) => [id, name])));
    this.#people.show(list);
    const own = list.people.find(({ id }) => id === list.you);
    this.#talk.hidden = own === undefined || own.role === "spectator";
    if (this.#talk.hidden) void this.#setTalking(false);
  }

  /** The user has left the room for a moment. Whoever is there on return is not announced. */
  onAway(): void {
    this.#people.forget();
  }

  /** The user changes to another session, which tells who is in the room. Whoever talks goes on there. */
  onSessionChange(): void {
    this.#hide();
    clearTimeout(this.#silencing);
    this.#silencing = setTimeout(() => void this.#setTalking(false), MAX_CHANGE_MS);
  }

  #hide(): void {
    if (this.#known) this.#keepFormer(this.#known.you);
    this.#known = null;
    this.#people.hide();
    this.#voices.close();
    this.#talk.hidden = true;
  }

  #keepFormer(member: number): void {
    this.#former = [...this.#former, member].slice(-MAX_FORMER_MEMBERS);
  }

  /** A voice packet: member, packet number, position, and Opus. */
  onHeard(message: Uint8Array): void {
    this.#voices.onHeard(message);
  }

  /** A message of the server's world. */
  onMessage(data: Uint8Array, reliable: boolean): void {
    if (!reliable) {
      const heard = packetOf(data);
      if (heard) this.onHeard(heard);
      return;
    }
    const list = parse(data);
    if (list) this.show(list);
  }

  /** Where the user is. */
  setHead(head: Pose): void {
    this.#voices.setListener(head);
  }

  /** For tests. */
  heard(): Float32Array | null {
    return this.#voices.heard();
  }

  async #setTalking(talking: boolean): Promise<void> {
    if (talking === (this.#talk.getAttribute("aria-pressed") === "true")) return;
    this.#talk.setAttribute("aria-pressed", String(talking));
    this.#microphone.live = talking;
    if (!talking) return this.#microphone.stop();
    try {
      // False when the user has stopped talking before giving the permission.
      if (await this.#microphone.start()) this.#out.onNotice("Others in the room hear you.");
    } catch (error) {
      await this.#setTalking(false);
      this.#out.onNotice(`Others cannot hear you: ${error instanceof Error ? error.message : String(error)}.`);
    }
  }
}

/** Returns the list in the world's message, or null for messages of other applications. */
function parse(data: Uint8Array): PeopleList | null {
  try {
    return (JSON.parse(new TextDecoder().decode(data)) as { room?: PeopleList } | null)?.room ?? null;
  } catch {
    return null;
  }
}
