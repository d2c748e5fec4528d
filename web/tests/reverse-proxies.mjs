// nginx and Caddy with the files of deploy/proxies, of which only the ports and the paths of files are replaced.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { networkInterfaces, tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { startListener } from "./helper.mjs";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");

/** The host in the files. */
export const HOST = "desk.example.net";
export const CREDENTIALS = { username: "me", password: "here" };
export const BASIC = `Basic ${Buffer.from(`${CREDENTIALS.username}:${CREDENTIALS.password}`).toString("base64")}`;

/** The password as each proxy keeps it. */
const HASHES = {
  nginx: "$apr1$EWZ/1dQK$ZV3XcN6HYtHYXzelB5UKq1",
  caddy: "$2a$14$Z3c0rNpuTo2lcXRnGaIRGelsAHnIFh/4BlYqapOz62U4jC2.WkWOC",
};

/** Returns the path of a program, which scripts/setup.sh unpacks where it is not installed; null if there is none. */
function programOf(name) {
  const unpacked = path.join(root, process.env.CARGO_TARGET_DIR ?? "target", "tools/proxies");
  const folders = [...(process.env.PATH ?? "").split(":"), "/usr/sbin", `${unpacked}/usr/sbin`, `${unpacked}/usr/bin`];
  return folders.map((folder) => path.join(folder, name)).find(existsSync) ?? null;
}

/** Replaces a text that must be in a file. */
function replaced(text, ...pairs) {
  return pairs.reduce((text, [from, to]) => {
    assert.ok(text.includes(from), `the proxy's file has "${from}"`);
    return text.replaceAll(from, to);
  }, text);
}

/** A folder with a certificate for the host and its key. */
async function folderWithCertificate(name) {
  const folder = await mkdtemp(path.join(tmpdir(), `nearlight-${name}-`));
  const [key, cert] = ["key.pem", "cert.pem"].map((file) => path.join(folder, file));
  const words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", `/CN=${HOST}`];
  const made = spawnSync("openssl", words, { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  return { folder, key, cert };
}

/** Starts nginx at `port`, in front of the server at `upstream`; `location` is the path below which it serves the page. */
async function startNginx(program, { port, upstream, location }) {
  const { folder, key, cert } = await folderWithCertificate("nginx");
  const hasIpv6 = Object.values(networkInterfaces()).flat().some(({ address }) => address === "::1");
  const own = replaced(
    await readFile(path.join(root, "deploy/proxies/nginx.conf"), "utf8"),
    ["    listen [::]:443 ssl;\n", hasIpv6 ? `    listen [::1]:${port} ssl;\n` : ""],
    ["listen 443 ssl;", `listen 127.0.0.1:${port} ssl;`],
    [`/etc/letsencrypt/live/${HOST}/fullchain.pem`, cert],
    [`/etc/letsencrypt/live/${HOST}/privkey.pem`, key],
    ["auth_basic_user_file /etc/nginx/nearlight.htpasswd", `auth_basic_user_file ${folder}/htpasswd`],
    ["location / {", `location ${location} {`],
    ["127.0.0.1:8090", `127.0.0.1:${upstream}`],
  );
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`).join(" ");
  // Workers of root's nginx are another user's, who cannot read the folder.
  const user = process.getuid() === 0 ? "user root;" : "";
  const whole = `${user} daemon off; pid ${folder}/pid; error_log ${folder}/error.log; events {}
    http { access_log off; ${temporary} include ${folder}/nearlight.conf; }`;
  await writeFile(path.join(folder, "nearlight.conf"), own);
  await writeFile(path.join(folder, "htpasswd"), `${CREDENTIALS.username}:${HASHES.nginx}\n`);
  await writeFile(path.join(folder, "nginx.conf"), whole);
  return startListener(program, ["-p", folder, "-e", `${folder}/error.log`, "-c", `${folder}/nginx.conf`], { port, folder, tries: 100 });
}

/** Starts Caddy, as nginx. Below a path it removes the path itself. */
async function startCaddy(program, { port, upstream, location }) {
  const { folder, key, cert } = await folderWithCertificate("caddy");
  const own = replaced(
    await readFile(path.join(root, "deploy/proxies/Caddyfile"), "utf8"),
    [`\n${HOST} {`, `\n${HOST}:${port} {\n\ttls ${cert} ${key}`],
    ["me HASH", `${CREDENTIALS.username} ${HASHES.caddy}`],
    ["\thandle {", location === "/" ? "\thandle {" : `\thandle_path ${location}* {`],
    ["127.0.0.1:8090", `127.0.0.1:${upstream}`],
  );
  // Neither its port for administration nor port 80 is the tests' own.
  const whole = `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${own}`;
  await writeFile(path.join(folder, "Caddyfile"), whole);
  const env = { ...process.env, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
  const words = ["run", "--adapter", "caddyfile", "--config", path.join(folder, "Caddyfile")];
  return startListener(program, words, { port, folder, tries: 200, env });
}

/** The proxies by their names: whether there is a program, and what starts it. */
export const PROXIES = Object.fromEntries(
  Object.entries({ nginx: startNginx, caddy: startCaddy }).map(([name, start]) => {
    const program = programOf(name);
    return [name, { isThere: program !== null, start: (options) => start(program, options) }];
  }),
);

/** Asks the proxy at `port` from the address `from` of this machine. */
export function ask(port, address, { from = "127.0.0.1", headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: address, localAddress: from, servername: HOST, rejectUnauthorized: false, agent: false };
    const asked = request({ ...options, headers: { host: `${HOST}:${port}`, authorization: BASIC, ...headers } }, async (answer) => {
      const chunks = [];
      for await (const chunk of answer) chunks.push(chunk);
      resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks).toString() });
    });
    asked.on("error", reject);
    asked.end();
  });
}
