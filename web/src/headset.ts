// An immersive session: reports head, hands and controllers, and moves the user. Others draw for the eyes.

import { Locomotion } from "./locomotion.ts";
import { type Pose, fovOfProjection, widened, yawPitchOf } from "./math.ts";
import { HAND_LAYOUT } from "./generated/core.ts";
import type { ControllerDescription } from "./generated/wire.ts";
import type { DeviceInput } from "./input/devices.ts";
import type { Hand, Haptics } from "./messages.ts";
import { pack } from "./packing.ts";
import { type Controller, type Presence, poseRow } from "./presence.ts";
import type { VrOffer } from "./shell.ts";
import { hasWebGl2 } from "./support.ts";

/** Margin that is requested beyond each edge of an eye's view, as a share of its size, for turning while a picture travels.
 *  Guess: 6 % of 100 degrees covers 60 ms at 100 degrees a second. */
const VIEW_MARGIN = 0.06;
/** Refresh rate when the runtime does not report it: the lowest of common headsets. */
const DEFAULT_HZ = 72;
/** Buttons of a tracked controller's gamepad (xr-standard mapping). A source without a gamepad has only events. */
const TRIGGER = 0;
const SQUEEZE = 1;
/** The feature with which emulators offer a source that follows the eyes. No browser of 2026 has it. */
const EYE_TRACKING = "eye-tracking";
/** How long, and in how many samples at least, the ray of a glance is reported. The server takes the newest of the samples that arrive before a
 *  picture, so one sample alone is lost with its datagram or among others. Guess: six pictures at 60 Hz. */
const GLANCE_MS = 100;
const MIN_GLANCE_SAMPLES = 4;
/** The thumbstick's axes (xr-standard mapping). */
const [STICK_X, STICK_Y] = [2, 3];

export interface HeadsetOut {
  onBegin(displayHz: number): void;
  onPresence(at: number, presence: Presence): void;
  onDevice(at: number, input: DeviceInput): void;
  /** The controllers have changed. */
  onControllers(controllers: ControllerDescription[]): void;
  onEnd(): void;
}

/** Draws for the eyes of a session. */
export interface Eyes {
  /** Gives the session its layer, and calls `onFrame` within each of its frames until it ends. */
  begin(session: XRSession, onFrame: (now: number, frame: XRFrame) => void): Promise<void>;
  /** The room has moved in the world. */
  setWorld(world: XRReferenceSpace): void;
  /** Called within a frame, after the user's pose has been reported. */
  draw(now: number, pose: XRViewerPose): void;
  /** The session has ended. */
  close(): void;
}

/** The parts of one session. */
interface Parts {
  session: XRSession;
  room: XRReferenceSpace;
  eyes: Eyes;
  locomotion: Locomotion;
}

/** Returns what the page can offer. Pictures are reprojected with WebGL2, which may be switched off. */
export async function headsetOffer(): Promise<VrOffer> {
  const connected = (await navigator.xr?.isSessionSupported("immersive-vr").catch(() => false)) ?? false;
  if (!connected) return "none";
  return hasWebGl2() ? "ready" : "no-webgl2";
}

export class Headset {
  readonly #parts: Parts;
  readonly #out: HeadsetOut;
  #world: XRReferenceSpace;
  /** Sources that are selecting or squeezing, from the events that all sources send. */
  readonly #selecting = new Set<XRInputSource>();
  readonly #squeezing = new Set<XRInputSource>();
  /** Pointers whose first ray was reported as the gaze; later ones follow the hand. */
  readonly #glances = new Set<XRInputSource>();
  /** The ray of the latest of them, as long as it is being reported. */
  #glance: { ray: Pose; until: number; samples: number } | null = null;
  /** Hands whose joints are being reported. */
  readonly #jointed = new Set<Hand>();
  #steppedAt = 0;
  #ended = false;

  /** Starts a session with the user at `start`; call from a user's gesture. */
  static async enter(start: Pose, eyes: Eyes, out: HeadsetOut): Promise<Headset> {
    if (!navigator.xr) throw new Error("this browser has no WebXR");
    const session = await navigator.xr.requestSession("immersive-vr", {
      requiredFeatures: ["local-floor"],
      optionalFeatures: ["hand-tracking", EYE_TRACKING],
    });
    try {
      const room = await session.requestReferenceSpace("local-floor");
      const locomotion = new Locomotion(start.position, yawPitchOf(start.orientation).yaw);
      const headset = new Headset({ session, room, eyes, locomotion }, out);
      await eyes.begin(session, (now, frame) => headset.#onFrame(now, frame));
      eyes.setWorld(headset.#world);
      out.onBegin(Math.round(session.frameRate ?? DEFAULT_HZ));
      headset.#reportControllers();
      return headset;
    } catch (error) {
      await session.end();
      throw error;
    }
  }

  private constructor(parts: Parts, out: HeadsetOut) {
    const { session, room, locomotion } = parts;
    this.#parts = parts;
    this.#out = out;
    this.#world = room.getOffsetReferenceSpace(locomotion.offset());
    const note = (name: "selectstart" | "selectend" | "squeezestart" | "squeezeend", change: (source: XRInputSource) => void): void =>
      session.addEventListener(name, (event) => change(event.inputSource));
    note("selectstart", (source) => this.#selecting.add(source));
    note("selectend", (source) => this.#selecting.delete(source));
    note("squeezestart", (source) => this.#squeezing.add(source));
    note("squeezeend", (source) => this.#squeezing.delete(source));
    session.addEventListener("inputsourceschange", () => this.#reportControllers());
    session.addEventListener("end", () => this.#onEnd());
  }

  close(): void {
    if (!this.#ended) void this.#parts.session.end();
  }

  #onFrame(now: number, frame: XRFrame): void {
    if (this.#ended) return;
    const pose = frame.getViewerPose(this.#world);
    if (!pose) return;
    this.#out.onPresence(performance.now(), this.#presence(now, frame, pose));
    this.#parts.eyes.draw(now, pose);
    this.#reportJoints(frame);
    this.#walk(now, pose);
  }

  /** Returns the head, both eyes with their widened views, the gaze and the controllers. */
  #presence(now: number, frame: XRFrame, pose: XRViewerPose): Presence {
    const views = pose.views.map((view) => {
      return { ...poseOf(view.transform), fov: widened(fovOfProjection(view.projectionMatrix), VIEW_MARGIN) };
    });
    const sources = [...this.#parts.session.inputSources];
    const controllers = sources.filter((source) => !this.#followsEyes(source)).flatMap((source) => this.#controller(frame, source));
    return { head: poseOf(pose.transform), views, gaze: this.#gaze(now, frame, sources), controllers };
  }

  /** Without eye tracking a ray of the mode `gaze` only follows the head, and counts as a pointer. */
  #followsEyes({ targetRayMode }: XRInputSource): boolean {
    return targetRayMode === "gaze" && (this.#parts.session.enabledFeatures ?? []).includes(EYE_TRACKING);
  }

  /** Returns the gaze: a source that follows the eyes, or the first ray of a pointer that exists only while the user pinches. */
  #gaze(now: number, frame: XRFrame, sources: readonly XRInputSource[]): Pose | null {
    for (const known of this.#glances) if (!sources.includes(known)) this.#glances.delete(known);
    for (const source of sources) {
      const glances = source.targetRayMode === "transient-pointer" && !this.#glances.has(source);
      if (!this.#followsEyes(source) && !glances) continue;
      const ray = frame.getPose(source.targetRaySpace, this.#world);
      if (!ray) continue;
      if (!glances) return poseOf(ray.transform);
      this.#glances.add(source);
      this.#glance = { ray: poseOf(ray.transform), until: now + GLANCE_MS, samples: 0 };
    }
    const glance = this.#glance;
    if (glance && now >= glance.until && glance.samples >= MIN_GLANCE_SAMPLES) this.#glance = null;
    else if (glance) glance.samples += 1;
    return this.#glance?.ray ?? null;
  }

  #controller(frame: XRFrame, source: XRInputSource): Controller[] {
    const aim = frame.getPose(source.targetRaySpace, this.#world);
    if (!aim) return [];
    const grip = source.gripSpace ? frame.getPose(source.gripSpace, this.#world) : undefined;
    const buttons = (source.gamepad?.buttons ?? []).map(({ value, pressed, touched }) => ({ value, pressed, touched }));
    for (const [index, held] of [[TRIGGER, this.#selecting.has(source)], [SQUEEZE, this.#squeezing.has(source)]] as const) {
      while (buttons.length <= index && (held || buttons.length === index)) buttons.push({ value: 0, pressed: false, touched: false });
      const button = buttons[index];
      if (held && button && !button.pressed) buttons[index] = { value: 1, pressed: true, touched: true };
    }
    const axes = source.gamepad?.axes ?? [];
    return [{ hand: handOf(source), aim: poseOf(aim.transform), grip: grip ? poseOf(grip.transform) : null, buttons, axes }];
  }

  /** Reports tracked hands joint by joint. */
  #reportJoints(frame: XRFrame): void {
    const tracked = new Set<Hand>();
    for (const source of this.#parts.session.inputSources) {
      const hand = handOf(source);
      if (!source.hand || hand === "none") continue;
      const joints = [...source.hand.values()].map((joint) => frame.getJointPose?.(joint, this.#world));
      if (joints.some((joint) => !joint)) continue;
      const rows = joints.flatMap((joint) => (joint ? [{ ...poseRow(poseOf(joint.transform)), radius: joint.radius ?? 0 }] : []));
      const values = pack(HAND_LAYOUT, { joints: rows });
      tracked.add(hand);
      this.#jointed.add(hand);
      this.#out.onDevice(performance.now(), { device: "joints", hand, values });
    }
    for (const hand of this.#jointed) {
      if (tracked.has(hand)) continue;
      this.#jointed.delete(hand);
      this.#out.onDevice(performance.now(), { device: "joints", hand, values: [] });
    }
  }

  #reportControllers(): void {
    const controllers = [...this.#parts.session.inputSources].filter((source) => !this.#followsEyes(source)).map((source) => {
      return { hand: handOf(source), profiles: [...source.profiles], haptics: actuatorOf(source) !== undefined };
    });
    this.#out.onControllers(controllers);
  }

  /** Shakes the controller of this hand, if it can. */
  shake(hand: Hand, { milliseconds, strong, weak }: Haptics): void {
    const source = [...this.#parts.session.inputSources].find((one) => handOf(one) === hand);
    // A controller that is gone no longer vibrates, which is not an error.
    if (source) void actuatorOf(source)?.pulse(Math.max(strong, weak), milliseconds).catch(() => undefined);
  }

  #walk(now: number, pose: XRViewerPose): void {
    const seconds = this.#steppedAt > 0 ? (now - this.#steppedAt) / 1000 : 0;
    this.#steppedAt = now;
    const axes = (handedness: XRHandedness): readonly number[] =>
      [...this.#parts.session.inputSources].find((source) => source.handedness === handedness)?.gamepad?.axes ?? [];
    const [left, right] = [axes("left"), axes("right")];
    const { position, orientation } = poseOf(pose.transform);
    const sticks = { walk: [left[STICK_X] ?? 0, left[STICK_Y] ?? 0] as const, turn: right[STICK_X] ?? 0 };
    const moved = this.#parts.locomotion.step(sticks, seconds, position, yawPitchOf(orientation).yaw);
    if (!moved) return;
    this.#world = this.#parts.room.getOffsetReferenceSpace(this.#parts.locomotion.offset());
    this.#parts.eyes.setWorld(this.#world);
  }

  #onEnd(): void {
    this.#ended = true;
    this.#parts.eyes.close();
    this.#out.onEnd();
  }
}

function handOf(source: XRInputSource): Hand {
  return source.handedness;
}

/** An actuator, which TypeScript's declarations lack. */
interface PulseActuator {
  pulse(value: number, duration: number): Promise<boolean>;
}

function actuatorOf({ gamepad }: XRInputSource): PulseActuator | undefined {
  const described = gamepad as (Gamepad & { hapticActuators?: readonly PulseActuator[] }) | undefined;
  return described?.hapticActuators?.[0];
}

export function poseOf({ position, orientation: { x, y, z, w } }: XRRigidTransform): Pose {
  return { position: [position.x, position.y, position.z], orientation: [x, y, z, w] };
}
