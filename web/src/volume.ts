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

/** The effective value of samples. */
export function loudnessOf(samples: Float32Array): number {
  return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
}
