// Lists what the commands are made of: their licence texts, and a bill of materials (CycloneDX 1.5, JSON).
//
//   node scripts/list-parts.mjs LICENCES SBOM [--features NAME] CRATE...     the two files to write, and what is built, such as nearlight-cli
//
// It reads the sources that cargo and npm have downloaded for the build, and asks no network. VPX_LICENCE names the licence of libvpx, which comes
// from the system; SOURCE_DATE_EPOCH is the time that the bill of materials gets.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";

const [licencesFile, billFile, ...words] = process.argv.slice(2);
const features = words[0] === "--features" ? words.splice(0, 2) : [];
const built = words;
if (built.length === 0) {
  console.error("usage: node scripts/list-parts.mjs LICENCES SBOM [--features NAME] CRATE...");
  process.exit(2);
}
const root = dirname(import.meta.dirname ?? dirname(new URL(import.meta.url).pathname));
const NATIVE = "x86_64-unknown-linux-gnu";
// The core of the page.
const WEB = ["nearlight-web-core", "wasm32-unknown-unknown"];

const cargo = (...words) => execFileSync("cargo", [...words, "--locked"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });
const unique = (texts) => [...new Set(texts)].sort();

// --- which crates ---------------------------------------------------------------------------------------------------------------
// `cargo tree` chooses the features as the build does; `cargo metadata` has those of the whole workspace.
const linked = (packages, target) =>
  cargo("tree", ...packages.flatMap((name) => ["-p", name]), ...(target === NATIVE ? features : []), "--target", target, "-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}")
    .split("\n")
    .filter(Boolean)
    .map((line) => line.split(" ").slice(0, 2).join(" "));
const native = linked(built, NATIVE);
const has = (crate) => native.some((name) => name.startsWith(`${crate} v`));
const withPage = has("nearlight-server");
const withVpx = has("nearlight-codec");
const names = new Set([...native, ...(withPage ? linked([WEB[0]], WEB[1]) : [])]);
const metadata = JSON.parse(cargo("metadata", "--format-version", "1"));
const crates = metadata.packages
  .filter((part) => names.has(`${part.name} v${part.version}`))
  .sort((one, other) => (one.name === other.name ? (one.version < other.version ? -1 : 1) : one.name < other.name ? -1 : 1));
const foreign = crates.filter((part) => part.source);

// "MIT/Apache-2.0" is how older crates write it.
const expression = (licence) => licence?.replaceAll(/\s*\/\s*/g, " OR ");
const isLicence = (file) => /(^(licen[cs]e|copying|notice|unlicense|copyright)[^/]*|LICENSES\/[^/]*)$/i.test(file) && !/\.(rs|html|py)$/.test(file);
function licenceFiles(folder) {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && (isLicence(entry.name) || isLicence(join(entry.parentPath ?? entry.path, entry.name))))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

// Crates without a licence's text say its name; this is the text of that name, with their authors.
const standard = {
  "Apache-2.0": () => readFileSync(join(root, "LICENSE-APACHE"), "utf8"),
  MIT: (authors) => readFileSync(join(root, "LICENSE-MIT"), "utf8").replace(/^Copyright.*$/m, `Copyright (c) ${authors}`),
};

// --- the licences' texts ----------------------------------------------------------------------------------------------------
const parts = [];
const withoutText = [];
for (const part of foreign) {
  const folder = dirname(part.manifest_path);
  let texts = licenceFiles(folder).map((file) => readFileSync(file, "utf8"));
  if (!texts.length) {
    const name = unique(expression(part.license).split(/ OR | AND /)).find((known) => known in standard);
    const authors = part.authors.join(", ") || `the authors of ${part.name}`;
    if (name) texts = [standard[name](authors)];
  }
  // The crate of a C library has no file of its own where it has that library's.
  if (!texts.length) withoutText.push(part);
  parts.push({ title: `${part.name} ${part.version}`, licence: expression(part.license), texts });
}
// One project publishes these, and the text is in one of them.
for (const part of withoutText) {
  const sibling = foreign.find((other) => other !== part && other.repository === part.repository && !withoutText.includes(other));
  const entry = parts.find((one) => one.title === `${part.name} ${part.version}`);
  if (!sibling) throw new Error(`no licence text for ${part.name} ${part.version} (${part.license})`);
  entry.texts = licenceFiles(dirname(sibling.manifest_path)).map((file) => readFileSync(file, "utf8"));
}

const three = JSON.parse(readFileSync(join(root, "web/node_modules/three/package.json"), "utf8"));
if (withPage) parts.push({ title: `three.js ${three.version} (in the page)`, licence: three.license, texts: [readFileSync(join(root, "web/node_modules/three/LICENSE"), "utf8")] });

const vpxVersion = execFileSync("pkg-config", ["--modversion", "vpx"], { encoding: "utf8" }).trim();
if (withVpx) parts.push({ title: `libvpx ${vpxVersion}`, licence: "BSD-3-Clause", texts: [readFileSync(process.env.VPX_LICENCE ?? "/usr/share/doc/libvpx-dev/copyright", "utf8")] });

const rustc = execFileSync("rustc", ["--version"], { cwd: root, encoding: "utf8" }).split(" ")[1];
const sysroot = execFileSync("rustc", ["--print", "sysroot"], { cwd: root, encoding: "utf8" }).trim();
const ofRust = join(sysroot, "share/doc/rust/COPYRIGHT-library.html");
const plain = (html) =>
  html
    .replaceAll(/<style[\s\S]*?<\/style>|<[^>]+>/g, "")
    .replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&#39;", "'").replaceAll("&amp;", "&")
    .replaceAll(/[ \t]+$/gm, "")
    .replaceAll(/\n{3,}/g, "\n\n");
parts.push({
  title: `Rust's standard library ${rustc}`,
  licence: "MIT OR Apache-2.0",
  texts: existsSync(ofRust) ? [plain(readFileSync(ofRust, "utf8"))] : [standard["Apache-2.0"]()],
});

// Each text once, with the parts that have it.
const byText = new Map();
for (const part of parts) {
  for (const text of part.texts) {
    const key = text.replaceAll("\r\n", "\n").trim();
    const same = key.replaceAll(/\s+/g, " ");
    if (!byText.has(same)) byText.set(same, { text: key, titles: [] });
    byText.get(same).titles.push(part.title);
  }
}
const rule = "=".repeat(100);
writeFileSync(
  licencesFile,
  [
    "Nearlight contains the following, under these licences. Where there is a choice, each is used under any of its licences.",
    "",
    ...parts.map((part) => `${part.title}: ${part.licence}`),
    ...[...byText.values()].flatMap(({ text, titles }) => ["", rule, unique(titles).join(", "), rule, "", text]),
    "",
  ].join("\n"),
);

// --- the bill of materials -----------------------------------------------------------------------------------------------------
const checksums = new Map();
for (const block of readFileSync(join(root, "Cargo.lock"), "utf8").split("[[package]]")) {
  const field = (name) => block.match(new RegExp(`^${name} = "(.*)"$`, "m"))?.[1];
  if (field("checksum")) checksums.set(`${field("name")} ${field("version")}`, field("checksum"));
}
const address = (part) => `pkg:cargo/${part.name}@${part.version.replaceAll("+", "%2B")}`;
const kept = new Map(crates.map((part) => [part.id, part]));
const component = (part) => ({
  type: "library",
  "bom-ref": address(part),
  name: part.name,
  version: part.version,
  purl: address(part),
  ...(checksums.has(`${part.name} ${part.version}`) && { hashes: [{ alg: "SHA-256", content: checksums.get(`${part.name} ${part.version}`) }] }),
  ...(part.license && { licenses: [{ expression: expression(part.license) }] }),
});
const other = (purl, name, version, licence) => ({ type: "library", "bom-ref": purl, name, version, purl, licenses: [{ expression: licence }] });
const components = [
  ...crates.map(component),
  ...(withPage ? [other(`pkg:npm/three@${three.version}`, "three", three.version, three.license)] : []),
  ...(withVpx ? [other(`pkg:generic/libvpx@${vpxVersion}`, "libvpx", vpxVersion, "BSD-3-Clause")] : []),
  other(`pkg:generic/rust-std@${rustc}`, "rust-std", rustc, "MIT OR Apache-2.0"),
];
const version = metadata.packages.find((part) => part.name === built[0]).version;
const dependencies = metadata.resolve.nodes
  .filter((node) => kept.has(node.id))
  .map((node) => ({
    ref: address(kept.get(node.id)),
    dependsOn: unique(node.deps.filter((dep) => kept.has(dep.pkg) && dep.dep_kinds.some((kind) => kind.kind === null)).map((dep) => address(kept.get(dep.pkg)))),
  }))
  .sort((one, another) => (one.ref < another.ref ? -1 : 1));
// A number that follows from the content, so that two builds agree.
const digest = createHash("sha256").update(JSON.stringify([components, dependencies])).digest("hex");
const serial = [digest.slice(0, 8), digest.slice(8, 12), `5${digest.slice(13, 16)}`, `8${digest.slice(17, 20)}`, digest.slice(20, 32)].join("-");
writeFileSync(
  billFile,
  `${JSON.stringify(
    {
      bomFormat: "CycloneDX",
      specVersion: "1.5",
      serialNumber: `urn:uuid:${serial}`,
      version: 1,
      metadata: {
        timestamp: new Date(Number(process.env.SOURCE_DATE_EPOCH ?? 0) * 1000).toISOString(),
        component: { type: "application", "bom-ref": "nearlight", name: "nearlight", version, licenses: [{ expression: "MIT OR Apache-2.0" }] },
      },
      components,
      dependencies: [{ ref: "nearlight", dependsOn: crates.filter((part) => built.includes(part.name)).map(address) }, ...dependencies],
    },
    null,
    1,
  )}\n`,
);
console.error(`list-parts: ${components.length} parts (${basename(billFile)}), ${byText.size} licence texts (${relative(process.cwd(), licencesFile)})`);
