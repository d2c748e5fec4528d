// Volume as a user sets it, and loudness as it is measured.

export interface Volume {
  /** 0 to 1. */
  volume: number;
  muted: boolean;
}

/** Time constant of a change of volume, in seconds: a jump would click. */
export const FADE_SECONDS = 0.02;

/** Returns the factor of the amplitude. Loudness is perceived by ratios, so half the slider is a quarter of the amplitude. */
export function gainOf({ volume, muted }: Volume): number {
  return muted ? 0 : volume * volume;
}

/** Maximum members who have left and whose volume is remembered. Guess: rooms rarely have more. */
const MAX_REMEMBERED = 256;
const FULL_VOLUME: Volume = { volume: 1, muted: false };

/** The volume that the user has set for each other member, as long as the page is open. A member who returns with the same number and name gets
 *  the volume back. Rooms give no number twice, so otherwise the first member with the name gets it. */
export class Volumes {
  /** By member number, unless it is `FULL_VOLUME`. */
  readonly #present = new Map<number, Volume>();
  /** By the names of members who have left, oldest first. */
  readonly #left = new Map<string, { member: number; volume: Volume }>();
  #names: ReadonlyMap<number, string> = new Map();

  of(member: number): Volume {
    return this.#present.get(member) ?? FULL_VOLUME;
  }

  set(member: number, volume: Volume): void {
    if (volume.muted || volume.volume !== FULL_VOLUME.volume) this.#present.set(member, volume);
    else this.#present.delete(member);
  }

  /** The members of the room and their names. */
  setMembers(names: ReadonlyMap<number, string>): void {
    for (const [member, name] of this.#names) if (!names.has(member)) this.#remember(member, name);
    const came = [...names].filter(([member]) => !this.#names.has(member));
    for (const [member, name] of came) if (this.#left.get(name)?.member === member) this.#restore(member, name);
    for (const [member, name] of came) this.#restore(member, name);
    this.#names = names;
  }

  #remember(member: number, name: string): void {
    const volume = this.#present.get(member);
    this.#present.delete(member);
    if (!volume) return;
    this.#left.delete(name);
    this.#left.set(name, { member, volume });
    const [oldest] = this.#left.keys();
    if (this.#left.size > MAX_REMEMBERED && oldest !== undefined) this.#left.delete(oldest);
  }

  #restore(member: number, name: string): void {
    const kept = this.#left.get(name);
    if (!kept) return;
    this.#left.delete(name);
    this.#present.set(member, kept.volume);
  }
}

/** Returns the RMS of samples. */
export function loudnessOf(samples: Float32Array): number {
  return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
}
