// Puts a picture on the page and reads the marker below it, which is not shown. With WebGL2 on a canvas where there is a graphics card.
// Without one, in a video element where the browser takes pictures for it one by one: nothing is drawn by the page then, and the picture
// does not wait for the worker's next animation frame. Else on a canvas in 2D, which costs an eighth of what WebGL2 costs on a
// processor (1280×720 in headless Chromium 156: 11 against 91 ms a frame, and 2 of 5 ms where the browser converts pictures into memory
// of ours rather than drawing them).

import { COVER_VERTEX, MarkerReader, pictureTexture, program } from "./gl.ts";
import type { Crop, MarkerPixels } from "./picture.ts";
import type { Surface } from "./surface.ts";

export interface Painter {
  /** What draws, for the panel. */
  readonly name: string;
  /** Shows the rows above the marker, and returns the marker's pixels, or null without a marker. Takes one picture at a time. */
  paint(picture: VideoFrame, crop: Crop): Promise<MarkerPixels | null> | MarkerPixels | null;
  /** Ends the painter, if it holds anything. */
  close?(): void;
}

/** Returns the painter for the surface and the reason for it. `why` is the reason for the surface. */
export function painterFor({ kind, target }: Surface, why: string): { painter: Painter; why: string } {
  if (kind === "video") return { painter: new VideoPainter(target), why };
  if (kind === "webgl2") {
    const options = { alpha: false, antialias: false, depth: false, desynchronized: true, powerPreference: "high-performance" } as const;
    const gl = target.getContext("webgl2", options);
    if (gl) return { painter: new CardPainter(target, gl), why };
  }
  const context = target.getContext("2d", { alpha: false, desynchronized: true });
  if (!context) throw new Error("This browser lets the page draw neither with WebGL2 nor in 2D.");
  return { painter: new ProcessorPainter(target, context), why: kind === "webgl2" ? "this browser has no WebGL2" : why };
}

/** Draws one canvas pixel for each picture pixel, so that the rows below are not mixed in. */
const FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D picture;
uniform int rows; // that are shown
out vec4 colour;
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  colour = vec4(texelFetch(picture, ivec2(at.x, rows - 1 - at.y), 0).rgb, 1.0);
}`;

class CardPainter implements Painter {
  readonly name = "WebGL2";
  readonly #canvas: OffscreenCanvas;
  readonly #gl: WebGL2RenderingContext;
  #rows: WebGLUniformLocation | null = null;
  #marker: MarkerReader;

  constructor(canvas: OffscreenCanvas, gl: WebGL2RenderingContext) {
    this.#canvas = canvas;
    this.#gl = gl;
    this.#marker = this.#prepare();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.#marker = this.#prepare();
    });
  }

  paint(picture: VideoFrame, crop: Crop): MarkerPixels | null {
    const gl = this.#gl;
    if (fit(this.#canvas, picture, crop)) gl.viewport(0, 0, this.#canvas.width, this.#canvas.height);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, picture);
    gl.uniform1i(this.#rows, crop.height);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    return this.#marker.read(crop);
  }

  /** Program and texture stay bound, because the context does nothing else. */
  #prepare(): MarkerReader {
    const gl = this.#gl;
    const linked = program(gl, COVER_VERTEX, FRAGMENT);
    gl.useProgram(linked);
    this.#rows = gl.getUniformLocation(linked, "rows");
    gl.viewport(0, 0, this.#canvas.width, this.#canvas.height);
    return new MarkerReader(gl, pictureTexture(gl));
  }
}

class ProcessorPainter implements Painter {
  readonly name = "canvas 2D";
  readonly #canvas: OffscreenCanvas;
  readonly #context: OffscreenCanvasRenderingContext2D;
  #image: ImageData | null = null;
  #converts = true;

  constructor(canvas: OffscreenCanvas, context: OffscreenCanvasRenderingContext2D) {
    this.#canvas = canvas;
    this.#context = context;
  }

  async paint(picture: VideoFrame, crop: Crop): Promise<MarkerPixels | null> {
    const image = await this.#converted(picture);
    fit(this.#canvas, picture, crop);
    // The canvas ends above the marker's rows, so neither call puts them there.
    if (image) this.#context.putImageData(image, 0, 0);
    else this.#context.drawImage(picture, 0, 0);
    return image ? markerOf(image, crop) : unconvertedMarker(picture, crop);
  }

  /** Converts the picture for the canvas into reused memory. Returns null when the browser does not convert. */
  async #converted(picture: VideoFrame): Promise<ImageData | null> {
    const { displayWidth: width, displayHeight: height, visibleRect } = picture;
    if (visibleRect?.width !== width || visibleRect.height !== height) return null;
    if (!this.#converts) return null;
    const options = { format: "RGBA", colorSpace: "srgb" } as const;
    try {
      // Browsers that do not know these options ignore them and would return the planes as they are; those that cannot convert throw.
      if (picture.allocationSize(options) !== width * height * 4) return null;
      if (this.#image?.width !== width || this.#image.height !== height) this.#image = new ImageData(width, height);
      await picture.copyTo(this.#image.data, options);
    } catch {
      this.#converts = false;
      return null;
    }
    return this.#image;
  }
}

class VideoPainter implements Painter {
  readonly name = "video element";
  readonly #writer: WritableStreamDefaultWriter<VideoFrame>;

  constructor(pictures: WritableStream<VideoFrame>) {
    this.#writer = pictures.getWriter();
  }

  async paint(picture: VideoFrame, crop: Crop): Promise<MarkerPixels | null> {
    const { displayWidth: width, timestamp, visibleRect } = picture;
    const { x = 0, y = 0 } = visibleRect ?? {};
    const shown = new VideoFrame(picture, { visibleRect: { x, y, width, height: crop.height }, displayWidth: width, displayHeight: crop.height, timestamp });
    // Writing gives the picture away. A refusal means that the page is ending.
    this.#writer.write(shown).catch(() => shown.close());
    return unconvertedMarker(picture, crop);
  }

  close(): void {
    this.#writer.close().catch(() => undefined);
  }
}

/** Reads the marker of a picture in the decoder's format. Copying is cheaper than drawing, but not every browser copies. */
async function unconvertedMarker(picture: VideoFrame, crop: Crop): Promise<MarkerPixels | null> {
  return (await copiedMarker(picture, crop)) ?? drawnMarker(picture, crop);
}

/** Copies the marker's pixels and nothing else. Returns null when the browser does not copy them, or without a marker. */
async function copiedMarker(picture: VideoFrame, { height: top, marker }: Crop): Promise<MarkerPixels | null> {
  // Brightness comes first in the planes of these formats, which decoders put out.
  if (!marker || !picture.visibleRect || !/^(I4|NV12)/.test(picture.format ?? "")) return null;
  const { width, height } = marker;
  const { x, y } = picture.visibleRect;
  const rect = { x, y: y + top, width, height };
  const rgba = new Uint8Array(width * height * 4);
  try {
    const planes = new Uint8Array(picture.allocationSize({ rect }));
    const [luma] = await picture.copyTo(planes, { rect });
    if (!luma) return null;
    for (let pixel = 0; pixel < width * height; pixel += 1) {
      const level = planes[luma.offset + Math.floor(pixel / width) * luma.stride + (pixel % width)] ?? 0;
      rgba.fill(level, pixel * 4, pixel * 4 + 4);
    }
  } catch {
    return null;
  }
  return { rgba, width };
}

/** Returns the marker's pixels of a converted picture. */
function markerOf({ data, width: columns }: ImageData, { height: top, marker }: Crop): MarkerPixels | null {
  if (!marker) return null;
  const { width, height } = marker;
  const rgba = new Uint8Array(width * height * 4);
  for (let row = 0; row < height; row += 1) {
    const start = (top + row) * columns * 4;
    rgba.set(data.subarray(start, start + width * 4), row * width * 4);
  }
  return { rgba, width };
}

/** Draws the marker on a canvas of its own and reads it back: the visible canvas may be displayed at any moment. */
function drawnMarker(picture: VideoFrame, { height: top, marker }: Crop): MarkerPixels | null {
  if (!marker) return null;
  const { width, height } = marker;
  const context = new OffscreenCanvas(width, height).getContext("2d", { alpha: false, willReadFrequently: true });
  if (!context) return null;
  // Not by a source rectangle: WebKit takes it relative to something else than the picture.
  context.drawImage(picture, 0, -top);
  return { rgba: new Uint8Array(context.getImageData(0, 0, width, height).data), width };
}

/** Gives the canvas one pixel per picture pixel; the page's style scales it. Returns whether the canvas changed. */
function fit(canvas: OffscreenCanvas, { displayWidth: width }: VideoFrame, { height }: Crop): boolean {
  if (canvas.width === width && canvas.height === height) return false;
  canvas.width = width;
  canvas.height = height;
  return true;
}
