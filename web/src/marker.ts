// The latency marker in the picture's top left corner: how large it is, and what is painted over it for people's eyes.

/** In pixels. */
export const MARKER_WIDTH = 192;
export const MARKER_HEIGHT = 32;
/** As much again beside and below is needed to cover it. */
export const COVER_WIDTH = 2 * MARKER_WIDTH;
export const COVER_HEIGHT = 2 * MARKER_HEIGHT;

/** Paints over the marker in RGBA pixels `COVER_WIDTH` wide and `COVER_HEIGHT` high, top row first: what lies below and beside it,
 *  mirrored, so that both seams are continuous. The shader's `covered` is the same. */
export function coverMarker(pixels: Uint8ClampedArray): void {
  const at = (x: number, y: number): number => (y * COVER_WIDTH + x) * 4;
  for (let y = 0; y < MARKER_HEIGHT; y += 1) {
    for (let x = 0; x < MARKER_WIDTH; x += 1) {
      const [right, down] = [MARKER_WIDTH - x, MARKER_HEIGHT - y];
      const [below, beside] = [at(x, MARKER_HEIGHT + down - 1), at(MARKER_WIDTH + right - 1, y)];
      const share = down / (right + down);
      for (let channel = 0; channel < 3; channel += 1) {
        const [lower, righter] = [pixels[below + channel] ?? 0, pixels[beside + channel] ?? 0];
        pixels[at(x, y) + channel] = lower + (righter - lower) * share;
      }
    }
  }
}
