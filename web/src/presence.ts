// The user's presence and a picture's views as lists of numbers, in the core's layouts.

import { CONTROLLER_LAYOUT, type POSE_COLUMNS, PRESENCE_LAYOUT, VIEW_COLUMNS } from "./generated/core.ts";
import { HANDS, type Hand, MAX_CONTROLLERS } from "./generated/wire.ts";
import type { Fov, Pose } from "./math.ts";
import { pack, values } from "./packing.ts";

/** An eye's pose and field of view. */
export interface View extends Pose {
  fov: Fov;
}

/** A controller or hand: its poses, and its buttons and axes in the `xr-standard` mapping. */
export interface Controller {
  hand: Hand;
  aim: Pose;
  grip: Pose | null;
  buttons: readonly { value: number; pressed: boolean; touched: boolean }[];
  axes: readonly number[];
}

export interface Presence {
  head: Pose;
  views: readonly View[];
  /** Direction of the eyes, if the user allows it and the browser knows it. */
  gaze: Pose | null;
  controllers: readonly Controller[];
}

type ViewRow = Record<(typeof VIEW_COLUMNS)[number], number>;
type PoseRow = Record<(typeof POSE_COLUMNS)[number], number>;

/** Returns the presence and its controllers as the core reads them. Controllers beyond its limit are left out. */
export function presenceNumbers({ head, views, gaze, controllers }: Presence): Float32Array<ArrayBuffer> {
  const seen = views.map((view) => ({ ...poseRow(view), ...view.fov }));
  const presence = pack(PRESENCE_LAYOUT, { head: poseRow(head), views: seen, gaze: optional(gaze) });
  const held = controllers.slice(0, MAX_CONTROLLERS).flatMap(({ hand, aim, grip, buttons, axes }) => {
    const code = HANDS.indexOf(hand);
    return pack(CONTROLLER_LAYOUT, { hand: { code }, aim: poseRow(aim), grip: optional(grip), buttons, axes: values(axes) });
  });
  return new Float32Array([...presence, ...held]);
}

/** Returns the views of a picture. */
export function viewsOf(numbers: Float32Array): View[] {
  const views: View[] = [];
  for (let start = 0; start + VIEW_COLUMNS.length <= numbers.length; start += VIEW_COLUMNS.length) {
    const named = Object.fromEntries(VIEW_COLUMNS.map((name, index) => [name, numbers[start + index]])) as ViewRow;
    const { x, y, z, quaternionX, quaternionY, quaternionZ, quaternionW, left, right, down, up } = named;
    const orientation: View["orientation"] = [quaternionX, quaternionY, quaternionZ, quaternionW];
    views.push({ position: [x, y, z], orientation, fov: { left, right, down, up } });
  }
  return views;
}

export function poseRow({ position: [x, y, z], orientation }: Pose): PoseRow {
  const [quaternionX, quaternionY, quaternionZ, quaternionW] = orientation;
  return { x, y, z, quaternionX, quaternionY, quaternionZ, quaternionW };
}

function optional(pose: Pose | null): PoseRow[] {
  return pose ? [poseRow(pose)] : [];
}
