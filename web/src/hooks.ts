// What the page offers to tests and curious people.

import type { DeviceInput } from "./input/devices.ts";
import type { LocalWorld } from "./local-world.ts";
import type { Marker, Statistics, StreamDescription } from "./messages.ts";

/** The object at `window.nearlight`, for tests and curious people. */
export interface Hooks {
  /** `connecting`, `waiting`, `live`, `stalled`, `reconnecting`, `refused`, `failed`, `unsupported` or `unpaired`. */
  readonly state: string;
  /** The marker of the newest displayed pixels, if it was readable. */
  readonly lastMarker: Marker | null;
  readonly stream: StreamDescription | null;
  readonly statistics: Statistics | null;
  /** The session so far, as `nearlight view --json` prints it; none before there is one. */
  summary(): Promise<unknown>;
  /** The newest events of the session as lines of JSON (docs/json.md). */
  events(): Promise<string>;
  /** How loud the last moments were for the left and the right ear, before volume and mute; none before the sound was started. */
  loudness(): [number, number] | null;
  /** The newest 2,048 moments at 48 kHz of what others in the room say, each as loud as the user wants; none before anybody has spoken. */
  heard(): Float32Array | null;
  /** Simulates input from one of the user's devices. */
  device(input: DeviceInput): void;
  /** Sends a message to the application: reliably and in order, or at once but possibly lost. Throws for one that is too long. */
  send(data: string | ArrayBuffer | Uint8Array, options?: { reliable?: boolean }): void;
  /** `message` events deliver the application's messages. */
  addEventListener(name: "message", listener: (event: CustomEvent<Received>) => void): void;
  removeEventListener(name: "message", listener: (event: CustomEvent<Received>) => void): void;
  /** What the page knows of its room, of whose objects only while it renders the world itself; none where it is in no room. */
  readonly room: LocalWorld["room"] | null;
  /** Moves the screen's user: metres, and radians to the left of -z and up. */
  setPose(pose: { position: [number, number, number]; yaw?: number; pitch?: number }): void;
}

/** A message from the application. */
export interface Received {
  data: Uint8Array;
  reliable: boolean;
}

declare global {
  interface Window {
    nearlight: Hooks;
  }
}
