// How loud something is: as a user wants it, and as it is measured.

export interface Volume {
  /** 0 to 1. */
  volume: number;
  muted: boolean;
}

/** A change of volume takes this long, in seconds: a jump would click. */
export const FADE = 0.02;

/** The amplitude. Loudness is heard by ratios: half the slider is a quarter of it. */
export function gainOf({ volume, muted }: Volume): number {
  return muted ? 0 : volume * volume;
}

/** What is kept of those who have left: names of as many people as rooms rarely have. */
const MOST_KEPT = 256;
const AS_IT_IS: Volume = { volume: 1, muted: false };

/** How loud the user wants each of the others, as long as the page is open. Whoever comes back with the same number and name is the one who left.
 *  Rooms give no number twice, so that others are known by name alone, where the first who comes with it is taken for the one who left. */
export class Volumes {
  /** By the members' numbers, where a user wants something else than `AS_IT_IS`. */
  readonly #present = new Map<number, Volume>();
  /** By the names of those who have left, the oldest first. */
  readonly #left = new Map<string, { member: number; volume: Volume }>();
  #names: ReadonlyMap<number, string> = new Map();

  of(member: number): Volume {
    return this.#present.get(member) ?? AS_IT_IS;
  }

  set(member: number, volume: Volume): void {
    if (volume.muted || volume.volume !== AS_IT_IS.volume) this.#present.set(member, volume);
    else this.#present.delete(member);
  }

  /** Who is there, with their names. */
  setMembers(names: ReadonlyMap<number, string>): void {
    for (const [member, name] of this.#names) if (!names.has(member)) this.#keep(member, name);
    const came = [...names].filter(([member]) => !this.#names.has(member));
    for (const [member, name] of came) if (this.#left.get(name)?.member === member) this.#give(member, name);
    for (const [member, name] of came) this.#give(member, name);
    this.#names = names;
  }

  #keep(member: number, name: string): void {
    const volume = this.#present.get(member);
    this.#present.delete(member);
    if (!volume) return;
    this.#left.delete(name);
    this.#left.set(name, { member, volume });
    const [oldest] = this.#left.keys();
    if (this.#left.size > MOST_KEPT && oldest !== undefined) this.#left.delete(oldest);
  }

  #give(member: number, name: string): void {
    const kept = this.#left.get(name);
    if (!kept) return;
    this.#left.delete(name);
    this.#present.set(member, kept.volume);
  }
}

/** The effective value of samples. */
export function loudnessOf(samples: Float32Array): number {
  return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
}
