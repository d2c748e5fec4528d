// The bodies of the others in the room. There may be hundreds: two calls draw them all, few triangles those far away, and who is near has a name.

import {
  type Camera, CanvasTexture, Color, DynamicDrawUsage, Frustum, Group, InstancedMesh, Matrix4, MeshStandardMaterial, Object3D, Sphere,
  SphereGeometry, Sprite, SpriteMaterial, SRGBColorSpace, Vector3,
} from "three";
import type { RoomPerson } from "../generated/core.ts";
import type { Vec3 } from "../math.ts";
import type { Body } from "./membership.ts";

/** Rate at which others follow their updates, in 1/s. The server's own world uses the same. */
const FOLLOW_RATE = 18;
/** A body that is farther from its update, in metres, moves there at once. Guess: nobody walks that far between two updates. */
const MAX_FOLLOW_DISTANCE = 3;
/** Maximum bodies drawn with many triangles. Guess: others are behind these. */
const MAX_DETAILED_BODIES = 16;
/** Maximum distance of such a body in metres: a head is 2 degrees wide there. */
const MAX_DETAIL_DISTANCE = 6;
/** Distance in metres beyond which no hands are drawn: they are a tenth of a degree wide there. */
const MAX_HAND_DISTANCE = 40;
/** Maximum names drawn, nearest first: each is a texture of its own. Guess: more cannot be read. */
const MAX_NAMES = 24;
/** Seconds between two rankings by distance. Guess. */
const RANK_INTERVAL_SECONDS = 0.25;
/** Distance of a name above the head, in metres. */
const NAME_OFFSET = 0.32;
/** Height of a name in metres. */
const NAME_HEIGHT = 0.14;
/** Instances that are allocated first: six bodies. */
const INITIAL_CAPACITY = 32;
/** Radius in metres of a ball around a body without far-reaching hands. */
const BODY_RADIUS = 1;
/** Distance in metres of the ball's centre below the head. */
const BODY_OFFSET = 0.3;

const SKULL = ball([0.115, 0.145, 0.13]);
const VISOR = ball([0.095, 0.055, 0.075], [0, 0.015, -0.075]);
const BUST = ball([0.2, 0.28, 0.13]);
export const HAND_SIZE: Vec3 = [0.042, 0.032, 0.075];
const HAND = ball(HAND_SIZE);
const BUST_OFFSET = 0.42;
const VISOR_COLOUR = new Color(0x1a1c29);
const BUST_SHADE = 0.8;

interface Avatar {
  person: RoomPerson;
  tint: Color;
  bustTint: Color;
  head: Object3D;
  hands: Object3D[];
  /** Number of tracked hands. */
  handCount: number;
  /** Its pose is known. */
  isPlaced: boolean;
  name: Sprite | null;
  /** Distance from the user in metres. */
  distance: number;
  /** It is one of the nearest. */
  isDetailed: boolean;
}

export class Crowd {
  /** The objects that the scene draws. */
  readonly group = new Group();
  readonly #avatars = new Map<number, Avatar>();
  readonly #near = new Balls(this.group, ballGeometry());
  readonly #far = new Balls(this.group, new SphereGeometry(1, 8, 6));
  #sinceRanked = Number.POSITIVE_INFINITY;

  /** The members of the room. They get their bodies once their poses are known. */
  setPeople(people: readonly RoomPerson[]): void {
    const known = new Map(people.map((person) => [person.id, person]));
    for (const [member, avatar] of this.#avatars) {
      if (known.has(member)) continue;
      this.#unname(avatar);
      this.#avatars.delete(member);
    }
    for (const [member, person] of known) {
      if (!this.#avatars.has(member)) this.#avatars.set(member, avatarOf(person));
    }
  }

  /** Moves everybody on by `seconds`. Bodies outside the view of `eyes` are not drawn; null when there are several. */
  place(bodies: readonly Body[], seconds: number, from: Vec3, eyes: Camera | null): void {
    const share = followed(seconds);
    for (const body of bodies) this.#pose(body, share);
    const place = new Vector3(...from);
    const seen = eyes && new Frustum().setFromProjectionMatrix(new Matrix4().multiplyMatrices(eyes.projectionMatrix, eyes.matrixWorldInverse));
    for (const balls of [this.#near, this.#far]) balls.begin();
    for (const avatar of this.#avatars.values()) {
      if (!avatar.isPlaced) continue;
      const { position } = avatar.head;
      avatar.distance = position.distanceTo(place);
      avatar.name?.position.set(position.x, position.y + NAME_OFFSET, position.z);
      BOUNDS.center.set(position.x, position.y - BODY_OFFSET, position.z);
      if (!seen || seen.intersectsSphere(BOUNDS)) draw(avatar, avatar.isDetailed ? this.#near : this.#far);
    }
    for (const balls of [this.#near, this.#far]) balls.end();
    this.#sinceRanked += seconds;
    if (this.#sinceRanked >= RANK_INTERVAL_SECONDS) this.#rank();
  }

  dispose(): void {
    for (const avatar of this.#avatars.values()) this.#unname(avatar);
    for (const balls of [this.#near, this.#far]) balls.dispose();
  }

  #pose({ member, head, hands }: Body, share: number): void {
    const avatar = this.#avatars.get(member);
    if (!avatar) return;
    follow(avatar.head, head, avatar.isPlaced ? share : 1);
    for (const [index, hand] of hands.slice(0, avatar.hands.length).entries()) {
      const shown = avatar.hands[index];
      if (shown) follow(shown, hand, index < avatar.handCount ? share : 1);
    }
    avatar.handCount = Math.min(hands.length, avatar.hands.length);
    if (!avatar.isPlaced) this.#sinceRanked = Number.POSITIVE_INFINITY;
    avatar.isPlaced = true;
  }

  /** The nearest get names and many triangles. */
  #rank(): void {
    this.#sinceRanked = 0;
    const placed = [...this.#avatars.values()].filter(({ isPlaced }) => isPlaced).sort((one, other) => one.distance - other.distance);
    for (const [index, avatar] of placed.entries()) {
      avatar.isDetailed = index < MAX_DETAILED_BODIES && avatar.distance < MAX_DETAIL_DISTANCE;
      if (index >= MAX_NAMES) this.#unname(avatar);
      else if (!avatar.name) {
        avatar.name = nameOf(avatar.person);
        const { x, y, z } = avatar.head.position;
        avatar.name.position.set(x, y + NAME_OFFSET, z);
        this.group.add(avatar.name);
      }
    }
  }

  #unname(avatar: Avatar): void {
    if (!avatar.name) return;
    this.group.remove(avatar.name);
    avatar.name.material.map?.dispose();
    avatar.name.material.dispose();
    avatar.name = null;
  }
}

/** Balls of any size and colour, drawn by one call. */
class Balls {
  readonly #group: Group;
  #mesh: InstancedMesh;
  #used = 0;

  constructor(group: Group, geometry: SphereGeometry) {
    this.#group = group;
    this.#mesh = this.#meshOf(geometry, new MeshStandardMaterial({ roughness: 0.7 }), INITIAL_CAPACITY);
  }

  begin(): void {
    this.#used = 0;
  }

  add(matrix: Matrix4, colour: Color): void {
    if (this.#used === this.#mesh.instanceMatrix.count) this.#grow();
    this.#mesh.setMatrixAt(this.#used, matrix);
    this.#mesh.setColorAt(this.#used, colour);
    this.#used += 1;
  }

  end(): void {
    this.#mesh.count = this.#used;
    this.#mesh.instanceMatrix.needsUpdate = true;
    if (this.#mesh.instanceColor) this.#mesh.instanceColor.needsUpdate = true;
  }

  dispose(): void {
    this.#mesh.dispose();
    this.#mesh.geometry.dispose();
    (this.#mesh.material as MeshStandardMaterial).dispose();
  }

  #meshOf(geometry: SphereGeometry, material: MeshStandardMaterial, capacity: number): InstancedMesh {
    const mesh = new InstancedMesh(geometry, material, capacity);
    mesh.instanceMatrix.setUsage(DynamicDrawUsage);
    // Its bounds would be those of the first picture. It has colours from the beginning, so that its shader is compiled once.
    mesh.frustumCulled = false;
    mesh.setColorAt(0, VISOR_COLOUR);
    mesh.count = 0;
    this.#group.add(mesh);
    return mesh;
  }

  #grow(): void {
    const small = this.#mesh;
    const large = this.#meshOf(small.geometry as SphereGeometry, small.material as MeshStandardMaterial, 2 * small.instanceMatrix.count);
    large.instanceMatrix.array.set(small.instanceMatrix.array);
    if (small.instanceColor) large.instanceColor?.array.set(small.instanceColor.array);
    this.#group.remove(small);
    small.dispose();
    this.#mesh = large;
  }
}

const BOUNDS = new Sphere(new Vector3(), BODY_RADIUS);
const MATRIX = new Matrix4();

/** A head with a visor, a bust and hands, in the member's colour. */
function draw({ tint, bustTint, head, hands, handCount, distance }: Avatar, balls: Balls): void {
  head.updateMatrix();
  balls.add(MATRIX.multiplyMatrices(head.matrix, SKULL), tint);
  balls.add(MATRIX.multiplyMatrices(head.matrix, VISOR), VISOR_COLOUR);
  const { x, y, z } = head.position;
  balls.add(MATRIX.copy(BUST).setPosition(x, y - BUST_OFFSET, z), bustTint);
  for (const hand of hands.slice(0, distance < MAX_HAND_DISTANCE ? handCount : 0)) {
    hand.updateMatrix();
    balls.add(MATRIX.multiplyMatrices(hand.matrix, HAND), tint);
  }
}

function avatarOf(person: RoomPerson): Avatar {
  const tint = colourOf(person);
  const hands = [new Object3D(), new Object3D()];
  const bustTint = tint.clone().multiplyScalar(BUST_SHADE);
  return { person, tint, bustTint, head: new Object3D(), hands, handCount: 0, isPlaced: false, name: null, distance: 0, isDetailed: false };
}

function ball(size: Vec3, at: Vec3 = [0, 0, 0]): Matrix4 {
  return new Matrix4().makeScale(...size).setPosition(...at);
}

export function ballGeometry(): SphereGeometry {
  return new SphereGeometry(1, 24, 16);
}

export function colourOf({ colour: [red, green, blue] }: RoomPerson): Color {
  return new Color().setRGB(red / 255, green / 255, blue / 255, SRGBColorSpace);
}

/** Returns the share of the distance that is covered in `seconds`. */
export function followed(seconds: number): number {
  return 1 - Math.exp(-FOLLOW_RATE * Math.min(seconds, 0.25));
}

/** Moves by this share of the way to a pose. */
export function follow(node: Object3D, { position: [x, y, z], orientation }: Body["head"], share: number): void {
  const to = TO.set(x, y, z);
  const part = node.position.distanceTo(to) > MAX_FOLLOW_DISTANCE ? 1 : share;
  node.position.lerp(to, part);
  node.quaternion.slerp(node.quaternion.clone().set(...orientation), part);
}

const TO = new Vector3();

function nameOf({ name, colour: [red, green, blue] }: RoomPerson): Sprite {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  const font = "600 44px system-ui, sans-serif";
  if (context) context.font = font;
  const width = Math.ceil(context?.measureText(name).width ?? 100) + 48;
  [canvas.width, canvas.height] = [width, 72];
  if (context) {
    context.fillStyle = "rgb(9 13 22 / 0.78)";
    context.beginPath();
    context.roundRect(0, 0, width, 72, 36);
    context.fill();
    [context.font, context.fillStyle, context.textBaseline] = [font, `rgb(${red} ${green} ${blue})`, "middle"];
    context.fillText(name, 24, 38);
  }
  const texture = new CanvasTexture(canvas);
  texture.colorSpace = SRGBColorSpace;
  const sprite = new Sprite(new SpriteMaterial({ map: texture, fog: false }));
  sprite.scale.set((NAME_HEIGHT * width) / 72, NAME_HEIGHT, 1);
  return sprite;
}
