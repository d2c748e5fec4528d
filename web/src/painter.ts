// Puts a picture on the canvas and reads the marker back from it: with WebGL2 where there is a graphics card, else in 2D, which
// costs an eighth of what WebGL2 costs on a processor (1280×720 in headless Chromium 156: 11 against 91 ms a frame, and 2 of 5 ms
// where the browser converts pictures into memory of ours rather than drawing them).

import { COVERED_PICTURE, COVER_VERTEX, pictureTexture, program } from "./gl.ts";
import { CORNER_HEIGHT, CORNER_WIDTH, COVERED_HEIGHT, COVERED_WIDTH, MARKER_HEIGHT, MARKER_WIDTH, coverMarker } from "./marker.ts";
import type { PainterChoice } from "./messages.ts";

/** The marker's pixels, RGBA, until the next picture is painted. */
export interface Canvassed {
  pixels: Uint8Array;
  bottomUp: boolean;
}

export interface Painter {
  /** For people: what draws. */
  readonly name: string;
  /** Draws the picture over the whole canvas, which takes its size. Answers with the marker's pixels as they stood on the canvas. One
   *  picture at a time. */
  paint(picture: VideoFrame): Promise<Canvassed> | Canvassed;
}

/** The painter, and why it is not WebGL2 or was chosen by hand. `cover`: paint over the marker once it was read. */
export function painterFor(canvas: OffscreenCanvas, choice: PainterChoice, cover: boolean): { painter: Painter; why: string } {
  const support = webGl2Support();
  const wanted = choice === "webgl2" ? support !== "none" : choice === "auto" && support === "accelerated";
  const gl = wanted
    ? canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, desynchronized: true, powerPreference: "high-performance" })
    : null;
  if (gl) return { painter: new CardPainter(canvas, gl, cover), why: choice === "webgl2" ? "as asked" : "" };
  const context = canvas.getContext("2d", { alpha: false, desynchronized: true });
  if (!context) throw new Error("This browser lets the page draw neither with WebGL2 nor in 2D.");
  const lacking = choice === "auto" && support === "emulated" ? "no graphics card for WebGL2" : "this browser has no WebGL2";
  return { painter: new ProcessorPainter(canvas, context, cover), why: choice === "2d" ? "as asked" : lacking };
}

/** Asks a context of its own: a canvas that has given one kind of context gives no other. */
function webGl2Support(): "accelerated" | "emulated" | "none" {
  const gl = new OffscreenCanvas(1, 1).getContext("webgl2");
  if (!gl) return "none";
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(gl.getParameter(info?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|softpipe|basic render|software/i.test(renderer) ? "emulated" : "accelerated";
}

const FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D picture;
uniform bool cover;
in vec2 corner;
out vec4 colour;
${COVERED_PICTURE}
void main() {
  vec2 at = vec2(corner.x, -corner.y) * 0.5 + 0.5;
  colour = vec4(cover ? covered(picture, at, vec2(textureSize(picture, 0))) : texture(picture, at).rgb, 1.0);
}`;

class CardPainter implements Painter {
  readonly name = "WebGL2";
  readonly #canvas: OffscreenCanvas;
  readonly #gl: WebGL2RenderingContext;
  readonly #cover: boolean;
  readonly #pixels = new Uint8Array(MARKER_WIDTH * MARKER_HEIGHT * 4);
  #coverSwitch: WebGLUniformLocation | null = null;

  constructor(canvas: OffscreenCanvas, gl: WebGL2RenderingContext, cover: boolean) {
    this.#canvas = canvas;
    this.#gl = gl;
    this.#cover = cover;
    this.#prepare();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.#prepare());
  }

  paint(picture: VideoFrame): Canvassed {
    const gl = this.#gl;
    if (fit(this.#canvas, picture)) gl.viewport(0, 0, this.#canvas.width, this.#canvas.height);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, picture);
    gl.uniform1i(this.#coverSwitch, 0);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    const bottom = this.#canvas.height - MARKER_HEIGHT;
    // Reading waits for the graphics queue, so what follows happens when the pixels exist.
    gl.readPixels(0, bottom, MARKER_WIDTH, MARKER_HEIGHT, gl.RGBA, gl.UNSIGNED_BYTE, this.#pixels);
    if (this.#cover) {
      gl.enable(gl.SCISSOR_TEST);
      gl.scissor(0, this.#canvas.height - COVERED_HEIGHT, COVERED_WIDTH, COVERED_HEIGHT);
      gl.uniform1i(this.#coverSwitch, 1);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
      gl.disable(gl.SCISSOR_TEST);
    }
    return { pixels: this.#pixels, bottomUp: true };
  }

  /** Everything lives in the context, and the context does nothing else: program and texture stay bound. */
  #prepare(): void {
    const gl = this.#gl;
    const linked = program(gl, COVER_VERTEX, FRAGMENT);
    gl.useProgram(linked);
    this.#coverSwitch = gl.getUniformLocation(linked, "cover");
    pictureTexture(gl);
    gl.viewport(0, 0, this.#canvas.width, this.#canvas.height);
  }
}

class ProcessorPainter implements Painter {
  readonly name = "canvas 2D";
  readonly #canvas: OffscreenCanvas;
  readonly #context: OffscreenCanvasRenderingContext2D;
  readonly #cover: boolean;
  readonly #pixels = new Uint8Array(MARKER_WIDTH * MARKER_HEIGHT * 4);
  #image: ImageData | null = null;
  #converts = true;

  constructor(canvas: OffscreenCanvas, context: OffscreenCanvasRenderingContext2D, cover: boolean) {
    this.#canvas = canvas;
    this.#context = context;
    this.#cover = cover;
  }

  async paint(picture: VideoFrame): Promise<Canvassed> {
    const context = this.#context;
    const pixels = await this.#converted(picture);
    fit(this.#canvas, picture);
    if (pixels) context.putImageData(pixels, 0, 0);
    else context.drawImage(picture, 0, 0);
    const corner = context.getImageData(0, 0, CORNER_WIDTH, CORNER_HEIGHT);
    for (let row = 0; row < MARKER_HEIGHT; row += 1) {
      const start = row * CORNER_WIDTH * 4;
      this.#pixels.set(corner.data.subarray(start, start + MARKER_WIDTH * 4), row * MARKER_WIDTH * 4);
    }
    if (this.#cover) {
      coverMarker(corner.data);
      context.putImageData(corner, 0, 0, 0, 0, COVERED_WIDTH, COVERED_HEIGHT);
    }
    return { pixels: this.#pixels, bottomUp: false };
  }

  /** The picture as the canvas wants it, in memory that is used again; null where the browser does not convert. */
  async #converted(picture: VideoFrame): Promise<ImageData | null> {
    const { displayWidth: width, displayHeight: height, visibleRect } = picture;
    if (visibleRect?.width !== width || visibleRect.height !== height) return null;
    if (!this.#converts) return null;
    const wish = { format: "RGBA", colorSpace: "srgb" } as const;
    try {
      // Browsers that do not know the wish leave it out, and would hand over the planes as they are; those that cannot fulfil it throw.
      if (picture.allocationSize(wish) !== width * height * 4) return null;
      if (this.#image?.width !== width || this.#image.height !== height) this.#image = new ImageData(width, height);
      await picture.copyTo(this.#image.data, wish);
    } catch {
      this.#converts = false;
      return null;
    }
    return this.#image;
  }
}

/** One canvas pixel per picture pixel: the marker's cells stay exact, and the page's style does the scaling. True where it changed. */
function fit(canvas: OffscreenCanvas, { displayWidth, displayHeight }: VideoFrame): boolean {
  if (canvas.width === displayWidth && canvas.height === displayHeight) return false;
  canvas.width = displayWidth;
  canvas.height = displayHeight;
  return true;
}
