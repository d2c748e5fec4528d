// Runs a WebAssembly program with WASI in node and exits as it does: node wasi.mjs FILE [ARGUMENTS]

import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [, , file, ...rest] = process.argv;
const wasi = new WASI({ version: "preview1", args: [file, ...rest] });
const { instance } = await WebAssembly.instantiate(await readFile(file), { wasi_snapshot_preview1: wasi.wasiImport });
process.exitCode = wasi.start(instance);
