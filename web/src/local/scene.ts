// Renders the world of the server's glTF file with three.js: surroundings, objects, and the bodies of others.

import {
  CanvasTexture, Color, DirectionalLight, FogExp2, Group, HemisphereLight, type Material, Mesh, MeshStandardMaterial, type Object3D,
  PerspectiveCamera, Raycaster, Scene, SphereGeometry, Sprite, SpriteMaterial, SRGBColorSpace, TextureLoader, Vector2, WebGLRenderer,
} from "three";
import { type GLTF, GLTFLoader } from "three/examples/jsm/loaders/GLTFLoader.js";
import type { RoomPerson } from "../generated/core.ts";
import type { Pose, Vec3 } from "../math.ts";
import type { Body, RoomObject } from "./membership.ts";

/** Height of the view in radians, as the server's pictures have it. */
const VIEW_HEIGHT_DEGREES = 65;
/** What others move follows their updates with this rate, in 1/s; the server's own world does it with the same. */
const FOLLOW = 18;
/** Metres beyond which something is put in its place at once. */
const JUMP = 3;
/** Objects farther away, in metres, cannot be reached. */
const REACH = 14;
/** three.js divides light by π; the server compresses strong light, which is about this share of the sun's. */
const DOME = Math.PI;
const SUN = 0.55 * Math.PI;
/** Metres of a name above the head, and its height. */
const NAME_ABOVE = 0.32;
const NAME_HEIGHT = 0.14;

/** How the server lights what moves: linear light, and the air's display colour. */
interface Light {
  sun: { towards: Vec3; light: Vec3 };
  sky: Vec3;
  ground: Vec3;
  fog: { colour: Vec3; density: number };
}

interface Avatar {
  group: Group;
  head: Group;
  bust: Mesh;
  hands: Mesh[];
  name: Sprite;
}

export class LocalScene {
  readonly #renderer: WebGLRenderer;
  readonly #scene = new Scene();
  readonly #camera = new PerspectiveCamera(VIEW_HEIGHT_DEGREES, 16 / 9, 0.05, 900);
  readonly #objects = new Map<number, Object3D>();
  readonly #avatars = new Map<number, Avatar>();
  readonly #raycaster = new Raycaster();

  private constructor(canvas: HTMLCanvasElement, world: GLTF) {
    this.#renderer = new WebGLRenderer({ canvas, antialias: true });
    this.#scene.add(world.scene);
    const light = world.scene.userData as Partial<Light>;
    this.#light(light);
    world.scene.traverse((node) => {
      const { object } = node.userData as { object?: number };
      if (object !== undefined) this.#objects.set(object, node);
      if (node instanceof Mesh) fixMaterial(node.material as Material & { fog?: boolean });
    });
    // Balls that nobody has thrown lie far below until the room says more.
    for (const node of this.#objects.values()) node.visible = node.position.y > -10;
  }

  /** Loads the world that this server shows. */
  static async load(canvas: HTMLCanvasElement, address: URL, token: string, limit: AbortSignal): Promise<LocalScene> {
    const headers: HeadersInit = address.protocol === "https:" ? { Authorization: `Bearer ${token}` } : {};
    const answer = await fetch(address, { headers, signal: limit });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const loader = new GLTFLoader();
    loader.register((parser) => {
      // The page may show pictures that it has made, and fetch nothing but from its server.
      parser.textureLoader = new TextureLoader(loader.manager);
      return { name: "pictures" };
    });
    return new LocalScene(canvas, await loader.parseAsync(await answer.arrayBuffer(), ""));
  }

  /** Renders one picture; `seconds` have passed since the last. `held` are objects that this user moves. */
  render(seconds: number, head: Pose, objects: readonly RoomObject[], bodies: readonly Body[], held: ReadonlySet<number>): void {
    const share = 1 - Math.exp(-FOLLOW * Math.min(seconds, 0.25));
    for (const { object, pose } of objects) {
      const node = this.#objects.get(object);
      if (!node) continue;
      follow(node, pose, held.has(object) ? 1 : share);
      node.visible = node.position.y > -10;
    }
    for (const body of bodies) this.#pose(body, share);
    const { clientWidth: width, clientHeight: height } = this.#renderer.domElement;
    const size = this.#renderer.getSize(new Vector2());
    if (size.x !== width || size.y !== height) {
      this.#renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
      this.#renderer.setSize(width, height, false);
      this.#camera.aspect = width / Math.max(height, 1);
      this.#camera.updateProjectionMatrix();
    }
    this.#camera.position.set(...head.position);
    this.#camera.quaternion.set(...head.orientation);
    this.#renderer.render(this.#scene, this.#camera);
  }

  /** The object that a head points at, and how far away it is. */
  pick(head: Pose, objects: readonly RoomObject[]): { object: number; distance: number } | null {
    this.#camera.position.set(...head.position);
    this.#camera.quaternion.set(...head.orientation);
    this.#camera.updateMatrixWorld();
    this.#raycaster.setFromCamera(new Vector2(0, 0), this.#camera);
    this.#raycaster.far = REACH;
    const free = objects.filter(({ owner }) => owner === 0).map(({ object }) => object);
    let nearest: { object: number; distance: number } | null = null;
    for (const object of free) {
      const node = this.#objects.get(object);
      const distance = node?.visible ? this.#raycaster.intersectObject(node)[0]?.distance : undefined;
      if (distance !== undefined && distance < (nearest?.distance ?? Number.POSITIVE_INFINITY)) nearest = { object, distance };
    }
    return nearest;
  }

  /** Where an object is drawn. */
  placeOf(object: number): Pose | null {
    const node = this.#objects.get(object);
    return node ? { position: node.position.toArray(), orientation: node.quaternion.toArray() } : null;
  }

  /** Who is there, without this user. Whoever is seen gets a body when its place is known. */
  setPeople(people: readonly RoomPerson[]): void {
    const known = new Map(people.map((person) => [person.id, person]));
    for (const [member, avatar] of this.#avatars) {
      if (known.has(member)) continue;
      this.#scene.remove(avatar.group);
      this.#avatars.delete(member);
    }
    for (const [member, person] of known) {
      if (!this.#avatars.has(member)) this.#avatars.set(member, avatarOf(person));
    }
  }

  close(): void {
    this.#renderer.dispose();
  }

  #pose({ member, head, hands }: Body, share: number): void {
    const avatar = this.#avatars.get(member);
    if (!avatar) return;
    const isNew = avatar.group.parent === null;
    if (isNew) this.#scene.add(avatar.group);
    follow(avatar.head, head, isNew ? 1 : share);
    const { position } = avatar.head;
    avatar.bust.position.set(position.x, position.y - 0.42, position.z);
    avatar.name.position.set(position.x, position.y + NAME_ABOVE, position.z);
    for (const [index, mesh] of avatar.hands.entries()) {
      const hand = hands[index];
      mesh.visible = hand !== undefined;
      if (hand) follow(mesh, hand, share);
    }
  }

  #light({ sun, sky, ground, fog }: Partial<Light>): void {
    if (!sun || !sky || !ground || !fog) return;
    const direct = new DirectionalLight(new Color(...sun.light), SUN);
    direct.position.set(...sun.towards).multiplyScalar(100);
    const dome = new HemisphereLight(new Color(...sky), new Color(...ground), DOME);
    this.#scene.add(direct, dome);
    const air = new Color().setRGB(...fog.colour, SRGBColorSpace);
    this.#scene.fog = new FogExp2(air, fog.density);
    this.#scene.background = air;
  }
}

/** The sky is behind the air; its colours are final. */
function fixMaterial(material: Material & { fog?: boolean }): void {
  const { fog } = material.userData as { fog?: boolean };
  if (fog === false) {
    material.fog = false;
    material.depthWrite = false;
  }
}

function follow(node: Object3D, { position, orientation }: Pose, share: number): void {
  const [x, y, z] = position;
  const far = Math.hypot(node.position.x - x, node.position.y - y, node.position.z - z) > JUMP;
  const part = far ? 1 : share;
  node.position.set(node.position.x + (x - node.position.x) * part, node.position.y + (y - node.position.y) * part, node.position.z + (z - node.position.z) * part);
  const target = node.quaternion.clone().set(...orientation);
  node.quaternion.slerp(target, part);
}

/** A head with a visor, a bust and hands, in the member's colour, under its name. */
function avatarOf({ name, colour: [red, green, blue] }: RoomPerson): Avatar {
  const tint = new Color().setRGB(red / 255, green / 255, blue / 255, SRGBColorSpace);
  const ball = new SphereGeometry(1, 24, 16);
  const part = (colour: Color, size: Vec3, at: Vec3 = [0, 0, 0]): Mesh => {
    const mesh = new Mesh(ball, new MeshStandardMaterial({ color: colour, roughness: 0.7 }));
    mesh.scale.set(...size);
    mesh.position.set(...at);
    return mesh;
  };
  const [group, head] = [new Group(), new Group()];
  head.add(part(tint, [0.115, 0.145, 0.13]), part(new Color(0x1a1c29), [0.095, 0.055, 0.075], [0, 0.015, -0.075]));
  const bust = part(tint.clone().multiplyScalar(0.8), [0.2, 0.28, 0.13]);
  const hands = [0, 1].map(() => part(tint, [0.042, 0.032, 0.075]));
  const label = nameOf(name, `rgb(${red} ${green} ${blue})`);
  group.add(head, bust, label, ...hands);
  return { group, head, bust, hands, name: label };
}

function nameOf(name: string, colour: string): Sprite {
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
    [context.font, context.fillStyle, context.textBaseline] = [font, colour, "middle"];
    context.fillText(name, 24, 38);
  }
  const texture = new CanvasTexture(canvas);
  texture.colorSpace = SRGBColorSpace;
  const sprite = new Sprite(new SpriteMaterial({ map: texture, fog: false }));
  sprite.scale.set((NAME_HEIGHT * width) / 72, NAME_HEIGHT, 1);
  return sprite;
}
