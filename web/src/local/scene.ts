// Renders the world of the server's glTF file with three.js: surroundings, objects, and the bodies of others.

import {
  Box3, Color, DirectionalLight, FogExp2, HemisphereLight, type Material, Mesh, MeshStandardMaterial, type Object3D, PerspectiveCamera,
  Quaternion, Raycaster, Scene, SRGBColorSpace, TextureLoader, Vector2, Vector3, WebGLRenderer,
} from "three";
import { type GLTF, GLTFLoader } from "three/examples/jsm/loaders/GLTFLoader.js";
import type { RoomPerson } from "../generated/core.ts";
import { webGl2Support } from "../gl.ts";
import type { Pose, Vec3 } from "../math.ts";
import { ballGeometry, colourOf, Crowd, follow, followed, HAND_SIZE } from "./crowd.ts";
import type { Target, User } from "./interaction.ts";
import type { Body, RoomObject } from "./membership.ts";
import { Resolution } from "./resolution.ts";

/** Vertical field of view in degrees, as in the server's pictures. */
const VERTICAL_FOV_DEGREES = 65;
/** Distance of the near plane in metres. */
const NEAR_PLANE = 0.05;
/** Distance of the far plane in metres. */
const FAR_PLANE = 900;
/** Maximum distance in metres at which an object can be reached. */
const MAX_REACH = 14;
/** Margin around objects when pointing at them, in metres: the server's. */
const AIM_MARGIN = 0.06;
/** Glow of objects that a hand points at: the server's. */
const POINTED_GLOW = 0.28;
/** Intensity of the dome's light: three.js divides light by π. */
const DOME_INTENSITY = Math.PI;
/** Intensity of the sun. The server compresses strong light to about this share. */
const SUN_INTENSITY = 0.55 * Math.PI;

/** How the server lights what moves: linear light, and the air's display colour. */
interface Light {
  sun: { towards: Vec3; light: Vec3 };
  sky: Vec3;
  ground: Vec3;
  fog: { colour: Vec3; density: number };
}

/** What one picture shows. */
export interface Picture {
  /** Seconds since the last one. */
  seconds: number;
  user: User;
  objects: readonly RoomObject[];
  bodies: readonly Body[];
  /** Objects that this user moves. */
  held: ReadonlySet<number>;
  /** Objects that shine because a hand points at them. */
  pointed: ReadonlySet<number>;
}

export class LocalScene {
  /** Where users start, in the order in which they take the places. */
  readonly places: readonly Pose[];
  readonly #renderer: WebGLRenderer;
  readonly #scene = new Scene();
  readonly #camera = new PerspectiveCamera(VERTICAL_FOV_DEGREES, 16 / 9, NEAR_PLANE, FAR_PLANE);
  /** A headset's eyes; three.js puts them where they are. */
  readonly #eyes = new PerspectiveCamera(VERTICAL_FOV_DEGREES, 1, NEAR_PLANE, FAR_PLANE);
  /** The user's own hands, which only a headset has. */
  #hands: Mesh[] = [];
  readonly #objects = new Map<number, Object3D>();
  readonly #crowd = new Crowd();
  readonly #resolution = new Resolution();
  readonly #raycaster = new Raycaster();

  private constructor(canvas: HTMLCanvasElement, world: GLTF) {
    // Without a graphics card smooth edges take several times as long.
    this.#renderer = new WebGLRenderer({ canvas, antialias: webGl2Support() === "accelerated" });
    this.#scene.add(world.scene, this.#crowd.group);
    const { places, ...light } = world.scene.userData as Partial<Light> & { places?: Pose[] };
    this.places = places ?? [];
    this.#light(light);
    world.scene.traverse((node) => {
      const { object } = node.userData as { object?: number };
      if (object !== undefined) this.#objects.set(object, node);
      // Each shines by itself.
      if (object !== undefined && node instanceof Mesh) node.material = (node.material as Material).clone();
      if (node instanceof Mesh) fixMaterial(node.material as Material & { fog?: boolean });
    });
    // Balls that nobody has thrown lie far below until the room says more.
    for (const node of this.#objects.values()) node.visible = node.position.y > -10;
  }

  /** Loads the world that this server shows. */
  static async load(canvas: HTMLCanvasElement, file: ArrayBuffer): Promise<LocalScene> {
    const loader = new GLTFLoader();
    loader.register((parser) => {
      // The page may show pictures that it has made, and fetch nothing but from its server.
      parser.textureLoader = new TextureLoader(loader.manager);
      return { name: "pictures" };
    });
    return new LocalScene(canvas, await loader.parseAsync(file, ""));
  }

  /** Calls `step` before each refresh of the display, or of the headset, whose frame it is given. */
  setLoop(step: (now: number, frame?: XRFrame) => void): void {
    this.#renderer.setAnimationLoop(step);
  }

  /** From now on the pictures are the headset's, until the session ends. */
  async enter(session: XRSession): Promise<void> {
    const { xr, domElement } = this.#renderer;
    xr.enabled = true;
    // An emulator shows it on the page, where people and tests look for it by this name.
    domElement.classList.add("headset");
    session.addEventListener("end", () => {
      xr.enabled = false;
      domElement.classList.remove("headset");
    });
    await xr.setSession(session);
  }

  /** The world as seen from the headset's room. */
  setWorld(world: XRReferenceSpace): void {
    this.#renderer.xr.setReferenceSpace(world);
  }

  /** Renders one picture. */
  render({ seconds, user, objects, bodies, held, pointed }: Picture): void {
    const share = followed(seconds);
    for (const { object, pose } of objects) {
      const node = this.#objects.get(object);
      if (!node) continue;
      follow(node, pose, held.has(object) ? 1 : share);
      node.visible = node.position.y > -10;
      shine(node, pointed.has(object) && !held.has(object) ? POINTED_GLOW : 0);
    }
    // Other rooms have fewer objects than the world's own. Before the room is known, all are drawn, so that their shaders are compiled.
    if (objects.length > 0) {
      const known = new Set(objects.map(({ object }) => object));
      for (const [object, node] of this.#objects) node.visible &&= known.has(object);
    }
    for (const [index, hand] of this.#hands.entries()) {
      const aim = user.controllers[index]?.aim;
      hand.visible = aim !== undefined;
      if (aim) follow(hand, aim, 1);
    }
    if (this.#renderer.xr.isPresenting) {
      this.#crowd.place(bodies, seconds, user.head.position, null);
      this.#renderer.render(this.#scene, this.#eyes);
      return;
    }
    this.#resolution.onPicture(seconds);
    this.#fit();
    this.#camera.position.set(...user.head.position);
    this.#camera.quaternion.set(...user.head.orientation);
    this.#camera.updateMatrixWorld();
    this.#crowd.place(bodies, seconds, user.head.position, this.#camera);
    this.#renderer.render(this.#scene, this.#camera);
  }

  /** The nearest object that a ray meets. */
  pick(ray: Pose, objects: readonly RoomObject[]): Target | null {
    const direction = new Vector3(0, 0, -1).applyQuaternion(new Quaternion(...ray.orientation));
    this.#raycaster.set(new Vector3(...ray.position), direction);
    this.#raycaster.far = MAX_REACH;
    let nearest: Target | null = null;
    for (const { object, owner } of objects) {
      const node = this.#objects.get(object);
      if (!node?.visible || owner !== 0) continue;
      const size = new Box3().setFromObject(node).getSize(new Vector3());
      const distance = this.#distance(node, Math.min(...size) / 2);
      if (distance < (nearest?.distance ?? MAX_REACH)) nearest = { object, distance, reach: Math.max(...size) / 2 };
    }
    return nearest;
  }

  /** Where an object is drawn. */
  placeOf(object: number): Pose | null {
    const node = this.#objects.get(object);
    return node ? { position: node.position.toArray(), orientation: node.quaternion.toArray() } : null;
  }

  /** The members of the room. Others get a body once their pose is known; this user has only hands. */
  setPeople(people: readonly RoomPerson[], you: number): void {
    const own = people.find(({ id }) => id === you);
    if (own && this.#hands.length === 0) {
      this.#hands = handsOf(colourOf(own));
      this.#scene.add(...this.#hands);
    }
    this.#crowd.setPeople(people.filter((person) => person !== own));
  }

  close(): void {
    const free = (): void => {
      this.#renderer.setAnimationLoop(null);
      this.#crowd.dispose();
      this.#renderer.dispose();
    };
    const session = this.#renderer.xr.getSession();
    // three.js goes on with the screen when a session ends.
    if (session) void session.end().finally(free);
    else free();
  }

  /** The picture has its element's size, and as many pixels as come in time. */
  #fit(): void {
    const { clientWidth: width, clientHeight: height } = this.#renderer.domElement;
    const size = this.#renderer.getSize(new Vector2());
    const ratio = Math.min(devicePixelRatio, 2) * this.#resolution.scale;
    if (size.x === width && size.y === height && this.#renderer.getPixelRatio() === ratio) return;
    this.#renderer.setPixelRatio(ratio);
    this.#renderer.setSize(width, height, false);
    this.#camera.aspect = width / Math.max(height, 1);
    this.#camera.updateProjectionMatrix();
  }

  /** To where the ray meets an object, or passes close to the ball of this radius within it. */
  #distance(node: Object3D, radius: number): number {
    const met = this.#raycaster.intersectObject(node)[0]?.distance;
    if (met !== undefined) return met;
    const { ray } = this.#raycaster;
    const close = ray.distanceToPoint(node.position) < radius + AIM_MARGIN;
    return close ? ray.origin.distanceTo(node.position) : Number.POSITIVE_INFINITY;
  }

  #light({ sun, sky, ground, fog }: Partial<Light>): void {
    if (!sun || !sky || !ground || !fog) return;
    const direct = new DirectionalLight(new Color(...sun.light), SUN_INTENSITY);
    direct.position.set(...sun.towards).multiplyScalar(100);
    const dome = new HemisphereLight(new Color(...sky), new Color(...ground), DOME_INTENSITY);
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

/** How much of its colour an object gives off by itself. */
function shine(node: Object3D, glow: number): void {
  if (!(node instanceof Mesh && node.material instanceof MeshStandardMaterial)) return;
  node.material.emissive.copy(node.material.color).multiplyScalar(glow);
}

function handsOf(colour: Color): Mesh[] {
  const [geometry, material] = [ballGeometry(), new MeshStandardMaterial({ color: colour, roughness: 0.7 })];
  return [0, 1].map(() => {
    const hand = new Mesh(geometry, material);
    hand.scale.set(...HAND_SIZE);
    return hand;
  });
}
