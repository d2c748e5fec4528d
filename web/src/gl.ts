// WebGL2 helpers that several parts share.

import type { Crop, MarkerPixels } from "./picture.ts";

/** Returns whether a graphics card draws. Asks a context of its own, because a canvas gives only one kind of context. */
export function webGl2Support(): "accelerated" | "emulated" | "none" {
  const gl = new OffscreenCanvas(1, 1).getContext("webgl2");
  if (!gl) return "none";
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(gl.getParameter(info?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|softpipe|basic render|software/i.test(renderer) ? "emulated" : "accelerated";
}

export function program(gl: WebGL2RenderingContext, vertex: string, fragment: string): WebGLProgram {
  const linked = gl.createProgram();
  for (const [kind, text] of [
    [gl.VERTEX_SHADER, vertex],
    [gl.FRAGMENT_SHADER, fragment],
  ] as const) {
    const shader = gl.createShader(kind);
    if (!shader) throw new Error("the graphics context is lost");
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(linked, shader);
    gl.deleteShader(shader);
  }
  gl.linkProgram(linked);
  if (!gl.getProgramParameter(linked, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`the page's shader does not link: ${gl.getProgramInfoLog(linked) ?? "no log"}`);
  }
  return linked;
}

/** A texture for pictures: its first row is the picture's top row. */
export function pictureTexture(gl: WebGL2RenderingContext): WebGLTexture {
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  for (const [name, value] of [
    [gl.TEXTURE_MIN_FILTER, gl.LINEAR],
    [gl.TEXTURE_MAG_FILTER, gl.LINEAR],
    [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
    [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
  ] as const) {
    gl.texParameteri(gl.TEXTURE_2D, name, value);
  }
  return texture;
}

/** One triangle that covers the viewport; `corner` runs from -1 to 1 across it. */
export const COVER_VERTEX = `#version 300 es
out vec2 corner;
void main() {
  corner = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
  gl_Position = vec4(corner, 0.0, 1.0);
}`;

/** Reads markers from the texture that pictures are drawn from. */
export class MarkerReader {
  readonly #gl: WebGL2RenderingContext;
  readonly #texture: WebGLTexture;
  readonly #framebuffer: WebGLFramebuffer;

  constructor(gl: WebGL2RenderingContext, texture: WebGLTexture) {
    this.#gl = gl;
    this.#texture = texture;
    this.#framebuffer = gl.createFramebuffer();
  }

  /** The pixels of the newest picture's marker; null where it has none. Reading waits for the graphics queue, so whatever was drawn
   *  before exists when this returns. */
  read({ height: top, marker }: Crop): MarkerPixels | null {
    const gl = this.#gl;
    // Without a marker a single pixel is awaited, so that a time read afterwards means the same.
    const { width, height } = marker ?? { width: 1, height: 1 };
    const rgba = new Uint8Array(width * height * 4);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.#framebuffer);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.#texture, 0);
    gl.readPixels(0, marker ? top : 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, rgba);
    // A headset's runtime may clear whatever is bound before the next frame.
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    return marker && { rgba, width };
  }

  close(): void {
    this.#gl.deleteFramebuffer(this.#framebuffer);
  }
}
