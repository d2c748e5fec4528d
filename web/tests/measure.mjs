// What the benches of served programs have in common: the program that they serve, and what they read of the machine.

import { spawnSync } from "node:child_process";
import { readFile, readdir } from "node:fs/promises";
import { availableParallelism, cpus, loadavg } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** Load per processor over the last minute, above which other work distorts the figures. Guess. */
const MAX_LOAD = 0.3;
const here = path.dirname(fileURLToPath(import.meta.url));

/** Compiles `square.c` into the folder, and returns its path. */
export function compileSquare(folder) {
  const square = path.join(folder, "square");
  const built = spawnSync("cc", ["-O2", "-o", square, path.join(here, "programs/square.c"), "-ldl", "-lm"], { encoding: "utf8" });
  if (built.status !== 0) throw new Error(built.stderr);
  return square;
}

export const installed = (name) => spawnSync("sh", ["-c", `command -v ${name}`]).status === 0;

/** The first line that a command says of its version. */
export function version(command, ...words) {
  const { stdout, stderr } = spawnSync(command, words, { encoding: "utf8" });
  return `${stdout}${stderr}`.split("\n").find((line) => /\d\.\d/.test(line))?.trim();
}

/** Prints when, of what and on what machine the figures are, and a warning where others work on it. */
export function printCircumstances(what, versions) {
  const commit = spawnSync("git", ["-C", here, "describe", "--always", "--dirty"], { encoding: "utf8" }).stdout?.trim();
  console.log(`${new Date().toISOString()}, commit ${commit || "unknown"}, ${availableParallelism()} x ${cpus()[0]?.model}, ${what}`);
  console.log(versions.filter(Boolean).join("; "));
  const load = loadavg()[0] / availableParallelism();
  if (load > MAX_LOAD) console.log(`WARNING: ${load.toFixed(1)} processes wait for each processor. Figures from a busy machine are not to be published.`);
}

/** The processor time that these processes and all below them have had, in seconds. */
export async function processorTime(roots) {
  const table = new Map();
  for (const name of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const text = await readFile(`/proc/${name}/stat`, "utf8").catch(() => "");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    if (fields.length > 20) table.set(Number(name), { parent: Number(fields[1]), ticks: fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) });
  }
  const below = (process) => roots.includes(process) || (table.has(process) && below(table.get(process).parent));
  return [...table].filter(([process]) => below(process)).reduce((sum, [, { ticks }]) => sum + ticks, 0) / 100;
}
