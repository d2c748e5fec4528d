// Bundles the page into dist/, which the server binary embeds. Nothing in dist/ loads anything from another origin.
import { build } from "esbuild";
import { cp, mkdir, rm } from "node:fs/promises";

const dist = new URL("./dist/", import.meta.url).pathname;
const source = (name) => new URL(`./src/${name}`, import.meta.url).pathname;

await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });
await build({
  entryPoints: ["main", "device-pairing", "local-world", "worker", "line-worker", "voice-worker", "worklet"].map((name) => source(`${name}.ts`)),
  outdir: dist,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
});
await cp(new URL("./public/", import.meta.url).pathname, dist, { recursive: true });
await cp(source("core/core_bg.wasm"), `${dist}core.wasm`);
// local-world.js contains three.js.
await cp(new URL("./node_modules/three/LICENSE", import.meta.url).pathname, `${dist}three-license.txt`);
