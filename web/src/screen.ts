// Shows pictures on the page's canvas, newest first, and reads the latency marker back from the canvas itself.

import { COVER_VERTEX, MARKER_HEIGHT, MARKER_WIDTH, pictureTexture, program } from "./gl.ts";

export interface ScreenOut {
  /** The frame was drawn and the graphics queue is empty. `pixels` are the marker's, RGBA, bottom row first. */
  onShown(frame: number, pixels: Uint8Array): void;
  /** A newer picture came before the display could take this one. */
  onSkipped(frame: number): void;
}

const FRAGMENT = `#version 300 es
precision mediump float;
uniform sampler2D picture;
in vec2 corner;
out vec4 colour;
void main() {
  colour = vec4(texture(picture, vec2(corner.x, -corner.y) * 0.5 + 0.5).rgb, 1.0);
}`;

export class Screen {
  readonly #canvas: OffscreenCanvas;
  readonly #out: ScreenOut;
  readonly #gl: WebGL2RenderingContext;
  readonly #marker = new Uint8Array(MARKER_WIDTH * MARKER_HEIGHT * 4);
  #waiting: { frame: number; picture: VideoFrame } | null = null;
  #scheduled: number | null = null;

  constructor(canvas: OffscreenCanvas, out: ScreenOut) {
    const gl = canvas.getContext("webgl2", {
      alpha: false,
      antialias: false,
      depth: false,
      desynchronized: true,
      powerPreference: "high-performance",
    });
    if (!gl) throw new Error("This browser gives the page no WebGL2 context; switch graphics acceleration on.");
    this.#canvas = canvas;
    this.#out = out;
    this.#gl = gl;
    // Everything lives in the context, and the context only does this: state is set once.
    this.#prepare();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.#prepare());
  }

  /** Takes the picture over and shows it at the display's next chance. */
  show(frame: number, picture: VideoFrame): void {
    if (this.#waiting) {
      this.#waiting.picture.close();
      this.#out.onSkipped(this.#waiting.frame);
    }
    this.#waiting = { frame, picture };
    this.#scheduled ??= requestAnimationFrame(() => this.#draw());
  }

  close(): void {
    if (this.#scheduled !== null) cancelAnimationFrame(this.#scheduled);
    this.#waiting?.picture.close();
    this.#waiting = null;
  }

  #prepare(): void {
    const gl = this.#gl;
    gl.useProgram(program(gl, COVER_VERTEX, FRAGMENT));
    pictureTexture(gl);
  }

  #draw(): void {
    this.#scheduled = null;
    const waiting = this.#waiting;
    if (!waiting) return;
    this.#waiting = null;
    const { frame, picture } = waiting;
    const gl = this.#gl;
    const canvas = this.#canvas;
    // One canvas pixel per picture pixel: the marker's cells stay exact, and the page's style does the scaling.
    if (canvas.width !== picture.displayWidth || canvas.height !== picture.displayHeight) {
      canvas.width = picture.displayWidth;
      canvas.height = picture.displayHeight;
      gl.viewport(0, 0, canvas.width, canvas.height);
    }
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, picture);
    picture.close();
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    // Reading waits for the graphics queue, so what follows happens when the pixels exist.
    gl.readPixels(0, canvas.height - MARKER_HEIGHT, MARKER_WIDTH, MARKER_HEIGHT, gl.RGBA, gl.UNSIGNED_BYTE, this.#marker);
    this.#out.onShown(frame, this.#marker);
  }
}
