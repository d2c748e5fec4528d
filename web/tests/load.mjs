// The page's own TypeScript for tests without a browser: Node reads it through esbuild.

import { build } from "esbuild";

/** What these files of `src` export, as one module: a part that two of them use is the same for both. */
export async function load(...names) {
  const contents = names.map((name) => `export * from "./${name}";`).join("\n");
  const resolveDir = new URL("../src", import.meta.url).pathname;
  const { outputFiles } = await build({ stdin: { contents, resolveDir }, bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
