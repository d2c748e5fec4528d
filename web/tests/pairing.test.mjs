// Devices that are paired by a code, and links of their own that are revoked.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { binary, eventually, openBrowser, openPage, screenshot, startServer } from "./helper.mjs";

let browser;
let server;
let folder;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "nearlight-pairing-"));
  browser = await openBrowser();
  server = await startServer({ more: ["--state", folder, "--test-card", "--size", "320x240", "--sound", "off"] });
});

after(async () => {
  await server?.stop();
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Runs `nearlight links` or `devices`. Returns what it prints as JSON. */
function command(...words) {
  const { status, stdout, stderr } = spawnSync(binary, [...words, "--state", folder, "--json"], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/** Opens a code, which takes the server a second to learn. */
async function openCode() {
  const child = spawn(binary, ["devices", "pair", "--role", "host", "--state", folder, "--json"], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { code } = JSON.parse((await lines.next()).value);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  return { code, paired: lines.next().then(({ value }) => JSON.parse(value)), exited: once(child, "exit") };
}

const stateOf = (page) => page.evaluate(() => document.body.dataset.state);

test("a device types the code, is let in without a link, and is shown out when it is revoked", { timeout: 120_000 }, async () => {
  const { page, errors } = await openPage(browser);
  const address = server.url.split("#")[0];
  await page.goto(address);
  await page.waitForSelector("#pair:not([hidden])");
  await page.fill("#pair-code", "12345");
  await page.click("#pair button");
  const said = (text) => eventually(() => page.textContent("#pair-state"), (words) => words.includes(text));
  assert.match(await said("six digits"), /six digits/);
  await page.fill("#pair-code", "123456");
  await page.click("#pair button");
  assert.match(await said("No code is open"), /nearlight devices pair/);

  const { code, paired, exited } = await openCode();
  const wrong = code.replace(/^\d/, (digit) => String((Number(digit) + 1) % 10));
  await page.fill("#pair-code", wrong);
  await page.click("#pair button");
  assert.match(await said("wrong"), /4 more may be tried/);
  await screenshot(page, "pairing");
  await page.fill("#pair-code", code);
  await page.click("#pair button");
  const device = await paired;
  assert.deepEqual([(await exited)[0], device.kind, device.role], [0, "device", "host"]);
  assert.match(device.name, /Chrome on Linux/);
  assert.equal(await eventually(() => stateOf(page).catch(() => ""), (state) => state === "live"), "live");
  assert.ok(!page.url().includes("token"), "the address can be shown to anybody");
  // A page of the same device that is opened later needs no code.
  await page.goto(address);
  assert.equal(await eventually(() => stateOf(page), (state) => state === "live"), "live");
  const [known] = await eventually(() => command("devices"), ([{ uses }]) => uses >= 2);
  assert.deepEqual([known.number, known.uses >= 2], [device.number, true]);

  command("devices", "revoke", String(device.number));
  assert.equal(await eventually(() => stateOf(page), (state) => state === "unpaired"), "unpaired");
  assert.match(await page.textContent("#notice-text"), /has ended this device's pairing/);
  assert.equal(await page.evaluate(() => localStorage.getItem("nearlight.device-token")), null);
  assert.ok(await page.isVisible("#pair-code"));
  // The refusals of wrong codes and of the revoked token.
  assert.deepEqual(errors.filter((error) => !/40[134]/.test(error)), []);
  await page.context().close();
});

test("a link for somebody has a role of its own, and ends when it is revoked", { timeout: 60_000 }, async () => {
  const anna = command("links", "add", "Anna", "--role", "spectator", "--expires", "1h");
  const { page } = await openPage(browser);
  // The link names an address for other machines, whose certificate this browser does not know.
  await page.goto(`${server.url.split("#")[0]}#${anna.link.split("#")[1]}`);
  assert.equal(await eventually(() => stateOf(page), (state) => state === "live"), "live");
  assert.equal(await page.evaluate(() => document.body.dataset.role), "spectator");
  assert.equal(command("links", "revoke", "Anna").number, anna.number);
  assert.equal(await eventually(() => stateOf(page), (state) => state === "refused"), "refused");
  assert.match(await page.textContent("#notice-list"), /was revoked or has expired/);
  await page.context().close();
});

test("a code is void after five wrong ones", { timeout: 60_000 }, async () => {
  const { page } = await openPage(browser);
  await page.goto(server.url.split("#")[0]);
  await page.waitForSelector("#pair:not([hidden])");
  const { code, paired, exited } = await openCode();
  paired.catch(() => undefined);
  const type = async (digits, expected) => {
    await page.fill("#pair-code", digits);
    await page.click("#pair button");
    const words = await eventually(() => page.textContent("#pair-state"), (text) => text.includes(expected));
    assert.ok(words.includes(expected), words);
    await eventually(() => page.isEnabled("#pair button"), (enabled) => enabled);
  };
  const wrong = code.replace(/^\d/, (digit) => String((Number(digit) + 1) % 10));
  for (const left of [4, 3, 2, 1]) await type(wrong, `${left} more may be tried`);
  await type(wrong, "now void");
  assert.equal((await exited)[0], 1);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await type(code, "No code is open");
  await page.context().close();
});

test("a host sees on the page who may connect, lets a device and a guest in, and revokes them", { timeout: 120_000 }, async () => {
  const host = await openPage(browser);
  await host.page.goto(server.url);
  assert.equal(await eventually(() => stateOf(host.page), (state) => state === "live"), "live");
  const rows = () => host.page.$$eval("#access-list li", (items) => items.map((item) => item.innerText.replaceAll("\n", " ")));
  await host.page.click("#toggle-access");
  await host.page.fill("#access-name", "Anna <b>");
  await host.page.selectOption("#access-lifetime", "28800");
  await host.page.click("#access-form button[type=submit]");
  const link = await eventually(() => host.page.textContent("#access-made"), (text) => text.includes("#token="));
  assert.match((await eventually(rows, (all) => all.some((row) => row.includes("Anna")))).at(-1), /Anna <b> link · guest · never used · for 7 hours/);

  // It names the address for other machines that the command prints. This browser does not know its certificate.
  assert.equal(new URL(link).origin, new URL(command("links", "add", "Ben").link).origin);
  const anna = await openPage(browser);
  await anna.page.goto(`${server.url.split("#")[0]}${new URL(link).hash}`);
  assert.equal(await eventually(() => stateOf(anna.page), (state) => state === "live"), "live");
  assert.ok(await anna.page.isHidden("#toggle-access"), "guests have no such panel");
  const status = (method, path, token) => anna.page.evaluate(
    async ([method, path, token]) => (await fetch(path, { method, headers: token ? { "X-Nearlight-Token": token } : {} })).status,
    [method, path, token],
  );
  const guest = new URL(link).hash.slice("#token=".length);
  for (const token of [guest, "f".repeat(32), null]) {
    for (const [method, path] of [["GET", "links"], ["DELETE", "links/1"]]) assert.equal(await status(method, path, token), 403);
  }

  await host.page.selectOption("#access-role", "spectator");
  await host.page.click("#access-code");
  const code = await eventually(() => host.page.textContent("#access-made"), (text) => /^\d{3} \d{3}$/.test(text));
  await screenshot(host.page, "access");
  const device = await openPage(browser);
  await device.page.goto(server.url.split("#")[0]);
  await device.page.waitForSelector("#pair:not([hidden])");
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await device.page.fill("#pair-code", code);
  await device.page.click("#pair button");
  assert.equal(await eventually(() => stateOf(device.page).catch(() => ""), (state) => state === "live"), "live");
  assert.match((await eventually(rows, (all) => all.some((row) => row.includes("device")))).at(-1), /Chrome on Linux device · spectator · .* · for 7 hours/);

  for (const [name, revoked] of [["Anna <b>", anna], ["Chrome on Linux", device]]) {
    await host.page.click(`#access-list button[aria-label="Revoke ${name}"]`);
    assert.match(await eventually(() => stateOf(revoked.page), (state) => /refused|unpaired/.test(state)), /refused|unpaired/);
  }
  assert.deepEqual(await eventually(rows, (all) => all.every((row) => !/Anna|Chrome/.test(row))), await rows());
  assert.equal(await stateOf(host.page), "live");
  for (const { context } of [host, anna, device]) await context.close();
});
