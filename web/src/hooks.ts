// The page's interface for tests and curious people.

import type { DeviceInput } from "./input/devices.ts";
import type { LocalWorld } from "./local-world.ts";
import type { Pose } from "./math.ts";
import type { Marker, Statistics, StreamDescription } from "./messages.ts";

/** The object at `window.nearlight`, for tests and curious people. */
export interface Hooks {
  /** `connecting`, `waiting`, `live`, `stalled`, `reconnecting`, `refused`, `failed`, `unsupported` or `unpaired`. */
  readonly state: string;
  /** The marker of the newest displayed pixels, if it was readable. */
  readonly lastMarker: Marker | null;
  readonly stream: StreamDescription | null;
  readonly statistics: Statistics | null;
  /** Summary of the session so far, as `nearlight view --json` prints it; null before there is one. */
  summary(): Promise<unknown>;
  /** The newest events of the session as lines of JSON (docs/json.md). */
  events(): Promise<string>;
  /** RMS of the last 40 ms at the left and the right ear, before volume and mute; null before the sound was started. */
  loudness(): [number, number] | null;
  /** The newest 2,048 samples at 48 kHz of the other members' voices, each as loud as the user wants; null before anybody has spoken. */
  heard(): Float32Array | null;
  /** Simulates input from one of the user's devices. */
  device(input: DeviceInput): void;
  /** Sends a message to the application: reliably and in order, or at once but possibly lost. Throws when it is too long. */
  send(data: string | ArrayBuffer | Uint8Array, options?: { reliable?: boolean }): void;
  /** `message` events deliver the application's messages. */
  addEventListener(name: "message", listener: (event: CustomEvent<ReceivedMessage>) => void): void;
  removeEventListener(name: "message", listener: (event: CustomEvent<ReceivedMessage>) => void): void;
  /** The page's room; null without one. Objects are known only while the page renders the world. */
  readonly room: LocalWorld["room"] | null;
  /** Where the user's head is. */
  readonly head: Pose;
  /** Moves the screen's user: metres, and radians to the left of -z and up. */
  setPose(pose: { position: [number, number, number]; yaw?: number; pitch?: number }): void;
}

/** A message from the application. */
export interface ReceivedMessage {
  data: Uint8Array;
  reliable: boolean;
}

declare global {
  interface Window {
    nearlight: Hooks;
  }
}
