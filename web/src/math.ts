// Quaternions as [x, y, z, w] and vectors as [x, y, z]; right-handed, y up, -z forward, as WebXR has it.

export type Vec3 = [number, number, number];
export type Quat = [number, number, number, number];

/** A position in metres and a rotation. */
export interface Pose {
  position: Vec3;
  orientation: Quat;
}

/** Tangents of the half angles; left and down are negative in a usual view. */
export interface Fov {
  left: number;
  right: number;
  down: number;
  up: number;
}

/** Looking `yaw` radians to the left of -z and `pitch` radians up. */
export function fromYawPitch(yaw: number, pitch: number): Quat {
  const [sy, cy] = [Math.sin(yaw / 2), Math.cos(yaw / 2)];
  const [sp, cp] = [Math.sin(pitch / 2), Math.cos(pitch / 2)];
  return [cy * sp, sy * cp, -sy * sp, cy * cp];
}

/** Which way a rotation looks: radians to the left of -z and up. */
export function yawPitchOf(q: Quat): { yaw: number; pitch: number } {
  const [x, y, z] = rotate(q, [0, 0, -1]);
  return { yaw: Math.atan2(-x, -z), pitch: Math.asin(clamp(y, -1, 1)) };
}

export function conjugate([x, y, z, w]: Quat): Quat {
  return [-x, -y, -z, w];
}

export function multiply(a: Quat, b: Quat): Quat {
  return [
    a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
    a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0],
    a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3],
    a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
  ];
}

export function rotate(q: Quat, v: Vec3): Vec3 {
  const [x, y, z, w] = q;
  // v + 2w(u × v) + 2(u × (u × v)) with u the vector part.
  const cx = y * v[2] - z * v[1];
  const cy = z * v[0] - x * v[2];
  const cz = x * v[1] - y * v[0];
  return [
    v[0] + 2 * (w * cx + y * cz - z * cy),
    v[1] + 2 * (w * cy + z * cx - x * cz),
    v[2] + 2 * (w * cz + x * cy - y * cx),
  ];
}

/** The rotation as a column-major 3×3 matrix, as WebGL takes it. */
export function toMatrix3(q: Quat): Float32Array<ArrayBuffer> {
  return new Float32Array([...rotate(q, [1, 0, 0]), ...rotate(q, [0, 1, 0]), ...rotate(q, [0, 0, 1])]);
}

/** The view that a column-major perspective matrix shows, also an asymmetric one. */
export function fovOfProjection(p: ArrayLike<number>): Fov {
  const at = (index: number): number => p[index] ?? 0;
  return {
    left: (at(8) - 1) / at(0),
    right: (at(8) + 1) / at(0),
    down: (at(9) - 1) / at(5),
    up: (at(9) + 1) / at(5),
  };
}

/** The view widened on each side by `margin` times its width and height. */
export function widened(fov: Fov, margin: number): Fov {
  const [across, along] = [(fov.right - fov.left) * margin, (fov.up - fov.down) * margin];
  return { left: fov.left - across, right: fov.right + across, down: fov.down - along, up: fov.up + along };
}

/** A symmetric view `vertical` radians high and `aspect` times as wide. */
export function symmetricFov(vertical: number, aspect: number): Fov {
  const up = Math.tan(vertical / 2);
  return { left: -up * aspect, right: up * aspect, down: -up, up };
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
