// An immersive session: poses and controllers go out, stereo pictures come in and are drawn for where the eyes look now.

import { Locomotion } from "./locomotion.ts";
import { type Pose, type Quat, fovOfProjection, widened, yawPitchOf } from "./math.ts";
import type { Action, Hand } from "./messages.ts";
import type { PictureKey } from "./picture.ts";
import { presenceNumbers } from "./presence.ts";
import { type Eye, Reprojection } from "./reprojection.ts";
import type { VrOffer } from "./shell.ts";
import { hasWebGl2 } from "./support.ts";

/** Asked for beyond each edge of an eye's view, as a share of its size, for turning while a picture travels.
 *  Guess: 6 % of 100 degrees covers 60 ms at 100 degrees a second. */
const MARGIN = 0.06;
/** Where the runtime does not say. */
const USUAL_HZ = 72;
/** Button A or X in the gamepad of a tracked controller (xr-standard mapping). */
const THROW_BUTTON = 4;
/** The thumbstick's axes in that mapping. */
const [STICK_X, STICK_Y] = [2, 3];

export interface HeadsetOut {
  onBegin(displayHz: number): void;
  onPresence(at: number, values: Float32Array<ArrayBuffer>): void;
  onAction(at: number, hand: Hand, action: Action): void;
  /** The frame was drawn into the headset's layer; `pixels` are its marker's. */
  onShown(at: number, frame: PictureKey, pixels: Uint8Array<ArrayBuffer>): void;
  onEnd(): void;
}

interface Arrived {
  frame: PictureKey;
  picture: VideoFrame;
  views: Float32Array;
}

/** What one session is made of. */
interface Parts {
  session: XRSession;
  room: XRReferenceSpace;
  layer: XRWebGLLayer;
  canvas: HTMLCanvasElement;
  locomotion: Locomotion;
  reprojection: Reprojection;
}

/** What the page can offer: a headset's pictures are turned with WebGL2, which a browser may have switched off. */
export async function headsetOffer(): Promise<VrOffer> {
  const connected = (await navigator.xr?.isSessionSupported("immersive-vr").catch(() => false)) ?? false;
  if (!connected) return "none";
  return hasWebGl2() ? "ready" : "no-webgl2";
}

export class Headset {
  readonly #parts: Parts;
  readonly #out: HeadsetOut;
  #world: XRReferenceSpace;
  #arrived: Arrived | null = null;
  #throwing = new Set<Hand>();
  #steppedAt = 0;
  #ended = false;

  /** Begins a session where the user stands at `start`; call from a user's gesture. */
  static async enter(start: Pose, out: HeadsetOut): Promise<Headset> {
    if (!navigator.xr) throw new Error("this browser has no WebXR");
    const session = await navigator.xr.requestSession("immersive-vr", { requiredFeatures: ["local-floor"] });
    const canvas = document.createElement("canvas");
    // An emulator shows it on the page, where people and tests look for it by this name.
    canvas.className = "headset";
    const gl = canvas.getContext("webgl2", { xrCompatible: true, alpha: false, antialias: false, depth: false });
    if (!gl) throw new Error("this browser gives the headset no WebGL2 context");
    const layer = new XRWebGLLayer(session, gl, { antialias: false, alpha: false, depth: false, stencil: false });
    await session.updateRenderState({ baseLayer: layer });
    const room = await session.requestReferenceSpace("local-floor");
    const locomotion = new Locomotion(start.position, yawPitchOf(start.orientation).yaw);
    const headset = new Headset({ session, room, layer, canvas, locomotion, reprojection: new Reprojection(gl) }, out);
    out.onBegin(Math.round(session.frameRate ?? USUAL_HZ));
    return headset;
  }

  private constructor(parts: Parts, out: HeadsetOut) {
    const { session, room, locomotion } = parts;
    this.#parts = parts;
    this.#out = out;
    this.#world = room.getOffsetReferenceSpace(locomotion.offset());
    const act = (name: "selectstart" | "squeezestart" | "squeezeend", action: Action): void =>
      session.addEventListener(name, (event) => out.onAction(event.timeStamp, handOf(event.inputSource), action));
    act("selectstart", "push");
    act("squeezestart", "grab");
    act("squeezeend", "release");
    session.addEventListener("end", () => this.#onEnd());
    session.requestAnimationFrame((now, frame) => this.#onFrame(now, frame));
  }

  /** Takes a picture over; the newest wins. */
  onPicture(frame: PictureKey, picture: VideoFrame, views: Float32Array): void {
    this.#arrived?.picture.close();
    this.#arrived = { frame, picture, views };
    if (this.#ended) this.#drop();
  }

  close(): void {
    if (!this.#ended) void this.#parts.session.end();
  }

  #onFrame(now: number, frame: XRFrame): void {
    if (this.#ended) return;
    this.#parts.session.requestAnimationFrame((next, nextFrame) => this.#onFrame(next, nextFrame));
    const pose = frame.getViewerPose(this.#world);
    if (!pose) return;
    this.#out.onPresence(performance.now(), this.#presence(frame, pose));
    const eyes = pose.views.map((view) => this.#eye(view));
    const arrived = this.#arrived;
    this.#arrived = null;
    if (arrived) {
      this.#parts.reprojection.upload(arrived.picture, arrived.views);
      arrived.picture.close();
    }
    this.#parts.reprojection.draw(this.#parts.layer.framebuffer, eyes);
    if (arrived) {
      // Reading waits for the graphics queue: the eyes' pixels exist when it returns.
      const pixels = this.#parts.reprojection.marker();
      this.#out.onShown(performance.now(), arrived.frame, pixels);
    }
    this.#buttons(now);
    this.#walk(now, pose);
  }

  #eye(view: XRView): Eye {
    const viewport = this.#parts.layer.getViewport(view) ?? { x: 0, y: 0, width: 0, height: 0 };
    return { orientation: quat(view.transform), fov: fovOfProjection(view.projectionMatrix), viewport };
  }

  /** Head, both eyes with their widened views, and the tracked hands. */
  #presence(frame: XRFrame, pose: XRViewerPose): Float32Array<ArrayBuffer> {
    const views = pose.views.map((view) => {
      return { ...poseOf(view.transform), fov: widened(fovOfProjection(view.projectionMatrix), MARGIN) };
    });
    const hands = [...this.#parts.session.inputSources].flatMap((source) => {
      const hand = handOf(source);
      const where = hand === "gaze" ? undefined : frame.getPose(source.targetRaySpace, this.#world);
      return where ? [{ hand, ...poseOf(where.transform) }] : [];
    });
    return presenceNumbers({ head: poseOf(pose.transform), views, hands });
  }

  /** Buttons beyond trigger and squeeze have no events. */
  #buttons(now: number): void {
    for (const source of this.#parts.session.inputSources) {
      const hand = handOf(source);
      const pressed = source.gamepad?.buttons[THROW_BUTTON]?.pressed ?? false;
      if (pressed && !this.#throwing.has(hand)) this.#out.onAction(Math.max(now, performance.now()), hand, "throw");
      if (pressed) this.#throwing.add(hand);
      else this.#throwing.delete(hand);
    }
  }

  #walk(now: number, pose: XRViewerPose): void {
    const seconds = this.#steppedAt > 0 ? (now - this.#steppedAt) / 1000 : 0;
    this.#steppedAt = now;
    const axes = (handedness: XRHandedness): readonly number[] =>
      [...this.#parts.session.inputSources].find((source) => source.handedness === handedness)?.gamepad?.axes ?? [];
    const [left, right] = [axes("left"), axes("right")];
    const { x, y, z } = pose.transform.position;
    const sticks = { walk: [left[STICK_X] ?? 0, left[STICK_Y] ?? 0] as const, turn: right[STICK_X] ?? 0 };
    const moved = this.#parts.locomotion.step(sticks, seconds, [x, y, z], yawPitchOf(quat(pose.transform)).yaw);
    if (moved) this.#world = this.#parts.room.getOffsetReferenceSpace(this.#parts.locomotion.offset());
  }

  #onEnd(): void {
    this.#ended = true;
    this.#drop();
    this.#parts.reprojection.close();
    this.#parts.canvas.remove();
    this.#out.onEnd();
  }

  #drop(): void {
    this.#arrived?.picture.close();
    this.#arrived = null;
  }
}

function handOf(source: XRInputSource): Hand {
  return source.handedness === "none" ? "gaze" : source.handedness;
}

function quat({ orientation: { x, y, z, w } }: XRRigidTransform): Quat {
  return [x, y, z, w];
}

function poseOf(transform: XRRigidTransform): Pose {
  const { x, y, z } = transform.position;
  return { position: [x, y, z], orientation: quat(transform) };
}
