// Draws a received stereo picture for where the eyes look now: each eye's half is turned from the view that it was rendered for
// to the present one. Only rotation is corrected; what a step moved meanwhile would need depth.

import { COVER_VERTEX, MarkerReader, pictureTexture, program } from "./gl.ts";
import { type Fov, type Quat, conjugate, multiply, toMatrix3 } from "./math.ts";
import type { Crop, MarkerPixels } from "./picture.ts";
import { type View, viewsOf } from "./presence.ts";

const FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D picture;
uniform mat3 turn;      // direction in the present eye to direction in the rendered eye
uniform vec4 present;   // tangents: left, down, right, up
uniform vec4 rendered;
uniform vec4 part;      // of the texture: left edge, width, half a texel across and along
uniform float shown;    // share of its rows that are shown; the marker lies below
in vec2 corner;
out vec4 colour;
void main() {
  vec3 ray = turn * vec3(mix(present.xy, present.zw, corner * 0.5 + 0.5), -1.0);
  vec2 place = (ray.xy / -ray.z - rendered.xy) / (rendered.zw - rendered.xy);
  // Beyond the rendered margin the border fades instead of smearing.
  vec2 beyond = max(max(-place, place - 1.0), 0.0);
  float seen = ray.z < 0.0 ? 1.0 - smoothstep(0.0, 0.02, max(beyond.x, beyond.y)) : 0.0;
  // Half a texel from each edge, filtering mixes nothing in from beyond it.
  vec2 least = vec2(part.x + part.z, part.w);
  vec2 most = vec2(part.x + part.y - part.z, shown - part.w);
  vec2 at = clamp(vec2(part.x + place.x * part.y, (1.0 - place.y) * shown), least, most);
  colour = vec4(texture(picture, at).rgb * seen, 1.0);
}`;

/** One eye as the headset shows it now. */
export interface Eye {
  orientation: Quat;
  fov: Fov;
  viewport: { x: number; y: number; width: number; height: number };
}

export class Reprojection {
  readonly #gl: WebGL2RenderingContext;
  readonly #program: WebGLProgram;
  readonly #texture: WebGLTexture;
  readonly #marker: MarkerReader;
  readonly #places: Record<"turn" | "present" | "rendered" | "part" | "shown", WebGLUniformLocation | null>;
  #views: View[] = [];
  #size = { width: 1, height: 1 };
  #crop: Crop = { height: 1, marker: null };

  constructor(gl: WebGL2RenderingContext) {
    this.#gl = gl;
    this.#program = program(gl, COVER_VERTEX, FRAGMENT);
    this.#texture = pictureTexture(gl);
    this.#marker = new MarkerReader(gl, this.#texture);
    const place = (name: string): WebGLUniformLocation | null => gl.getUniformLocation(this.#program, name);
    this.#places = {
      turn: place("turn"),
      present: place("present"),
      rendered: place("rendered"),
      part: place("part"),
      shown: place("shown"),
    };
  }

  /** Takes a new picture's pixels; `views` says what each half shows. The caller closes the picture. */
  upload(picture: VideoFrame, crop: Crop, views: Float32Array): void {
    const gl = this.#gl;
    gl.bindTexture(gl.TEXTURE_2D, this.#texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, picture);
    this.#size = { width: picture.displayWidth, height: picture.displayHeight };
    this.#crop = crop;
    this.#views = viewsOf(views);
  }

  /** Draws all eyes into the framebuffer that the headset shows (null: the canvas). */
  draw(framebuffer: WebGLFramebuffer | null, eyes: readonly Eye[]): void {
    const gl = this.#gl;
    gl.bindFramebuffer(gl.FRAMEBUFFER, framebuffer);
    gl.disable(gl.SCISSOR_TEST);
    gl.clearColor(0, 0, 0, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (this.#views.length === 0) return;
    gl.useProgram(this.#program);
    gl.bindTexture(gl.TEXTURE_2D, this.#texture);
    for (const [index, eye] of eyes.entries()) {
      // Until the server has switched to stereo, both eyes see the one view that there is.
      const half = Math.min(index, this.#views.length - 1);
      const view = this.#views[half];
      if (view) this.#drawEye(eye, view, half);
    }
  }

  /** The pixels of the newest picture's marker. Reading waits for the graphics queue: what was drawn exists when it returns. */
  marker(): MarkerPixels | null {
    return this.#marker.read(this.#crop);
  }

  close(): void {
    const gl = this.#gl;
    gl.deleteProgram(this.#program);
    gl.deleteTexture(this.#texture);
    this.#marker.close();
  }

  #drawEye(eye: Eye, view: View, half: number): void {
    const gl = this.#gl;
    const { x, y, width, height } = eye.viewport;
    gl.viewport(x, y, width, height);
    gl.uniformMatrix3fv(this.#places.turn, false, toMatrix3(multiply(conjugate(view.orientation), eye.orientation)));
    const edges = ({ left, right, down, up }: Fov): [number, number, number, number] => [left, down, right, up];
    gl.uniform4f(this.#places.present, ...edges(eye.fov));
    gl.uniform4f(this.#places.rendered, ...edges(view.fov));
    const share = 1 / this.#views.length;
    gl.uniform4f(this.#places.part, half * share, share, 0.5 / this.#size.width, 0.5 / this.#size.height);
    gl.uniform1f(this.#places.shown, this.#crop.height / this.#size.height);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }
}
