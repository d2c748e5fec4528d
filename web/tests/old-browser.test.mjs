// What a browser shows that cannot run the page's program, by a script that every browser reads: without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";
import { transform } from "esbuild";

const source = readFileSync(new URL("../public/old-browser.js", import.meta.url), "utf8");
const html = readFileSync(new URL("../public/index.html", import.meta.url), "utf8");

/** A document as old browsers have it. */
function openOldBrowser({ modules = true } = {}) {
  const element = (id) => ({
    id,
    children: [],
    attributes: { hidden: "" },
    get firstChild() {
      return this.children[0];
    },
    appendChild(child) {
      this.children.push(child);
    },
    removeChild(child) {
      this.children.splice(this.children.indexOf(child), 1);
    },
    getElementsByTagName: (tag) => [elements[`${id} ${tag}`]],
    setAttribute(name, value) {
      this.attributes[name] = value;
    },
    removeAttribute(name) {
      delete this.attributes[name];
    },
  });
  const elements = Object.fromEntries(["status", "status span", "notice", "notice-title", "notice-text"].map((id) => [id, element(id)]));
  elements["status span"].children.push("Connecting");
  const body = element("body");
  const listeners = {};
  const window = { addEventListener: (name, listener) => (listeners[name] = listener) };
  const document = { body, getElementById: (id) => elements[id] ?? null, createTextNode: (words) => words, createElement: () => (modules ? { noModule: false } : {}) };
  vm.runInNewContext(source, { window, document });
  return { window, body, listeners, text: (id) => elements[id].children.join(""), isHidden: (id) => "hidden" in elements[id].attributes };
}

test("a browser that does not know modules says so, instead of connecting for ever", () => {
  const { window, body, listeners, text, isHidden } = openOldBrowser({ modules: false });
  listeners.load();
  assert.equal(text("status span"), "Cannot start");
  assert.match(text("notice-text"), /too old.*Use a current version of Chrome, Edge, Firefox or Safari/);
  assert.equal(isHidden("notice"), false);
  assert.equal(body.attributes["data-state"], "unsupported");
  assert.equal(window.nearlight.state, "unsupported");
});

test("a browser that stops at the program's syntax, or does not get its file, says what it reported", () => {
  for (const [event, words] of [
    [{ message: "SyntaxError: Unexpected token '.'" }, /did not start: SyntaxError: Unexpected token '\.'\./],
    [{ target: { src: "https://server.example/main.js" } }, /did not start: main\.js cannot be loaded\./],
    [null, /did not start\. Use/],
  ]) {
    const { listeners, text } = openOldBrowser();
    if (event) listeners.error(event);
    listeners.load();
    assert.match(text("notice-text"), words);
  }
});

test("a page whose program runs is left alone", () => {
  const { window, listeners, text, isHidden } = openOldBrowser();
  window.nearlight = { state: "connecting" };
  listeners.load();
  assert.equal(text("status span"), "Connecting");
  assert.equal(isHidden("notice"), true);
});

test("every browser reads the script: it has no newer syntax, is not a module, and comes before the program", async () => {
  const minified = async (target) => (await transform(source, { target, minifyWhitespace: true })).code;
  assert.equal(await minified("es5"), await minified("esnext"), "nothing had to be rewritten for ECMAScript 5");
  const scripts = [...html.matchAll(/<script[^>]*>/g)].map(([tag]) => tag);
  assert.deepEqual(scripts, ['<script src="old-browser.js">', '<script type="module" src="main.js">']);
});
