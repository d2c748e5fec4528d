// The few lines of WebGL2 that the screen and the headset share.

import { COVERED_HEIGHT, COVERED_WIDTH } from "./marker.ts";

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

/** `covered(picture, at, size)`: the picture's colour at `at` (from the top left, 0 to 1), with the marker painted over by what
 *  lies below and beside it, mirrored, so that both seams are continuous. */
export const COVERED_PICTURE = `
const vec2 COVERED = vec2(${COVERED_WIDTH}.0, ${COVERED_HEIGHT}.0);
vec3 covered(sampler2D picture, vec2 at, vec2 size) {
  vec2 place = at * size;
  vec2 left = COVERED - place;
  if (min(left.x, left.y) <= 0.0) return texture(picture, at).rgb;
  vec3 below = texture(picture, vec2(place.x, COVERED.y + left.y) / size).rgb;
  vec3 beside = texture(picture, vec2(COVERED.x + left.x, place.y) / size).rgb;
  return mix(below, beside, left.y / (left.x + left.y));
}`;
