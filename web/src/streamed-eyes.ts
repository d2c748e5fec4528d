// The server's pictures in a headset. Each is reprojected to the eyes' current direction.

import { type Eyes, poseOf } from "./headset.ts";
import { fovOfProjection } from "./math.ts";
import type { Crop, MarkerPixels, PictureKey } from "./picture.ts";
import { type Eye, Reprojection } from "./reprojection.ts";

interface ArrivedFrame {
  frame: PictureKey;
  picture: VideoFrame;
  crop: Crop;
  views: Float32Array;
}

/** The surface that a session draws on. */
interface Surface {
  canvas: HTMLCanvasElement;
  layer: XRWebGLLayer;
  reprojection: Reprojection;
}

/** The frame was drawn into the headset's layer; `marker` are the pixels below it in the same texture, null where it has no marker. */
type OnShown = (at: number, frame: PictureKey, marker: MarkerPixels | null) => void;

export class StreamedEyes implements Eyes {
  readonly #onShown: OnShown;
  #surface: Surface | null = null;
  #arrived: ArrivedFrame | null = null;
  #closed = false;

  constructor(onShown: OnShown) {
    this.#onShown = onShown;
  }

  async begin(session: XRSession, onFrame: (now: number, frame: XRFrame) => void): Promise<void> {
    const canvas = document.createElement("canvas");
    // An emulator shows it on the page, where people and tests look for it by this name.
    canvas.className = "headset";
    const gl = canvas.getContext("webgl2", { xrCompatible: true, alpha: false, antialias: false, depth: false });
    if (!gl) throw new Error("this browser gives the headset no WebGL2 context");
    const layer = new XRWebGLLayer(session, gl, { antialias: false, alpha: false, depth: false, stencil: false });
    await session.updateRenderState({ baseLayer: layer });
    this.#surface = { canvas, layer, reprojection: new Reprojection(gl) };
    const step = (now: number, frame: XRFrame): void => {
      if (this.#closed) return;
      session.requestAnimationFrame(step);
      onFrame(now, frame);
    };
    session.requestAnimationFrame(step);
  }

  /** Does nothing: pictures carry the views that they were rendered for. */
  setWorld(): void {}

  /** Takes ownership of a picture; the newest wins. */
  onPicture(frame: PictureKey, picture: VideoFrame, crop: Crop, views: Float32Array): void {
    this.#drop();
    this.#arrived = { frame, picture, crop, views };
    if (this.#closed) this.#drop();
  }

  draw(_now: number, pose: XRViewerPose): void {
    if (!this.#surface) return;
    const { layer, reprojection } = this.#surface;
    const eyes = pose.views.map((view) => eyeOf(layer, view));
    const arrived = this.#arrived;
    this.#arrived = null;
    if (arrived) {
      reprojection.upload(arrived.picture, arrived.crop, arrived.views);
      arrived.picture.close();
    }
    reprojection.draw(layer.framebuffer, eyes);
    if (!arrived) return;
    // Reading waits for the graphics queue: the eyes' pixels exist when it returns.
    const marker = reprojection.marker();
    this.#onShown(performance.now(), arrived.frame, marker);
  }

  close(): void {
    this.#closed = true;
    this.#drop();
    this.#surface?.reprojection.close();
    this.#surface?.canvas.remove();
  }

  #drop(): void {
    this.#arrived?.picture.close();
    this.#arrived = null;
  }
}

function eyeOf(layer: XRWebGLLayer, view: XRView): Eye {
  const viewport = layer.getViewport(view) ?? { x: 0, y: 0, width: 0, height: 0 };
  return { orientation: poseOf(view.transform).orientation, fov: fovOfProjection(view.projectionMatrix), viewport };
}
