// Where the user is and what a picture shows, as lists of numbers: the layouts are the core's.

import { MAX_CONTROLLERS, MAX_VIEWS, POSE_COLUMNS, VIEW_COLUMNS } from "./generated/core.ts";
import { HANDS, type Hand, MAX_CONTROLLER_AXES, MAX_CONTROLLER_BUTTONS } from "./generated/wire.ts";
import type { Fov, Pose } from "./math.ts";

/** Where an eye is and what it sees. */
export interface View extends Pose {
  fov: Fov;
}

/** What points in space, and its buttons and axes in the `xr-standard` mapping. */
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
  controllers: readonly Controller[];
}

type Numbers = Record<(typeof VIEW_COLUMNS)[number], number>;
const NO_FOV: Fov = { left: 0, right: 0, down: 0, up: 0 };

/** Head, count of views and views, count of controllers and controllers, as the core reads them; more than it takes are left out. */
export function presenceNumbers({ head, views, controllers }: Presence): Float32Array<ArrayBuffer> {
  const [seen, held] = [views.slice(0, MAX_VIEWS), controllers.slice(0, MAX_CONTROLLERS)];
  return new Float32Array([
    ...poseNumbers(head),
    seen.length,
    ...seen.flatMap((view) => viewNumbers(view)),
    held.length,
    ...held.flatMap((controller) => controllerNumbers(controller)),
  ]);
}

/** The views of a picture. */
export function viewsOf(numbers: Float32Array): View[] {
  const views: View[] = [];
  for (let start = 0; start + VIEW_COLUMNS.length <= numbers.length; start += VIEW_COLUMNS.length) {
    const named = Object.fromEntries(VIEW_COLUMNS.map((name, index) => [name, numbers[start + index]])) as Numbers;
    const { x, y, z, quaternionX, quaternionY, quaternionZ, quaternionW, left, right, down, up } = named;
    const orientation: View["orientation"] = [quaternionX, quaternionY, quaternionZ, quaternionW];
    views.push({ position: [x, y, z], orientation, fov: { left, right, down, up } });
  }
  return views;
}

function viewNumbers(view: View): number[] {
  const numbers = named(view, view.fov);
  return VIEW_COLUMNS.map((name) => numbers[name]);
}

function controllerNumbers({ hand, aim, grip, buttons, axes }: Controller): number[] {
  const [told, ways] = [buttons.slice(0, MAX_CONTROLLER_BUTTONS), axes.slice(0, MAX_CONTROLLER_AXES)];
  return [
    HANDS.indexOf(hand),
    ...poseNumbers(aim),
    ...(grip ? [1, ...poseNumbers(grip)] : [0]),
    told.length,
    ...told.flatMap(({ value, pressed, touched }) => [value, Number(pressed), Number(touched)]),
    ways.length,
    ...ways,
  ];
}

export function poseNumbers(pose: Pose): number[] {
  const numbers = named(pose, NO_FOV);
  return POSE_COLUMNS.map((name) => numbers[name]);
}

function named({ position: [x, y, z], orientation }: Pose, fov: Fov): Numbers {
  const [quaternionX, quaternionY, quaternionZ, quaternionW] = orientation;
  return { x, y, z, quaternionX, quaternionY, quaternionZ, quaternionW, ...fov };
}
