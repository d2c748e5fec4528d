// The latency marker in the picture's top left corner: how large it is, and what is painted over it for people's eyes.

import { MARKER_SIZE } from "./generated/wire.ts";

export const [MARKER_WIDTH, MARKER_HEIGHT] = MARKER_SIZE;
/** What is painted over is larger by two pixels: half-size chroma and linear filtering carry its edge that far. */
export const COVERED_WIDTH = MARKER_WIDTH + 2;
export const COVERED_HEIGHT = MARKER_HEIGHT + 2;
/** As much again beside and below is needed for that. */
export const CORNER_WIDTH = 2 * COVERED_WIDTH;
export const CORNER_HEIGHT = 2 * COVERED_HEIGHT;

/** Paints over the marker in RGBA pixels `CORNER_WIDTH` wide and `CORNER_HEIGHT` high, top row first: what lies below and beside it,
 *  mirrored, so that both seams are continuous. The shader's `covered` is the same. */
export function coverMarker(pixels: Uint8ClampedArray): void {
  const at = (x: number, y: number): number => (y * CORNER_WIDTH + x) * 4;
  for (let y = 0; y < COVERED_HEIGHT; y += 1) {
    for (let x = 0; x < COVERED_WIDTH; x += 1) {
      const [right, down] = [COVERED_WIDTH - x, COVERED_HEIGHT - y];
      const [below, beside] = [at(x, COVERED_HEIGHT + down - 1), at(COVERED_WIDTH + right - 1, y)];
      const share = down / (right + down);
      for (let channel = 0; channel < 3; channel += 1) {
        const [lower, righter] = [pixels[below + channel] ?? 0, pixels[beside + channel] ?? 0];
        pixels[at(x, y) + channel] = lower + (righter - lower) * share;
      }
    }
  }
}
