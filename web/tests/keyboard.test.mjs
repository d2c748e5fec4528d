// What keys and text fields report, for input methods and on macOS: in virtual time, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";
import { VirtualTime, event, fakePage, FakeElement } from "./virtual.mjs";

const time = new VirtualTime();
const { window } = fakePage();
const { TextField, MouseKeyboard } = await load("input/text-field.ts", "input/mouse-keyboard.ts");

/** A text field in a browser: what is inserted lands in it unless the page cancels that. */
function openField() {
  const field = new FakeElement();
  const said = [];
  new TextField(field, { onText: (_, text) => said.push(text), onTap: (_, code) => said.push(`<${code}>`) });
  const insert = (inputType, text, isComposing = false) => {
    const before = event("beforeinput", { inputType, isComposing });
    if (!field.dispatchEvent(before)) return;
    field.value = inputType.startsWith("delete") ? "" : /Composition/.test(inputType) ? text : field.value + text;
    field.dispatchEvent(event("input", { inputType, isComposing }));
  };
  const compose = (name, data = "") => field.dispatchEvent(event(name, { data }));
  return { field, said, insert, compose };
}

test("text of a dead key arrives in WebKit, which commits it by insertFromComposition", () => {
  const { said, insert, compose } = openField();
  insert("insertText", "a");
  compose("compositionstart");
  insert("insertCompositionText", "´");
  insert("insertCompositionText", "é");
  // WebKit takes the composition out and puts its result in; its events do not say that they are of a composition.
  insert("deleteCompositionText", "");
  insert("insertFromComposition", "é");
  compose("compositionend", "é");
  insert("insertText", "b");
  assert.deepEqual(said, ["a", "é", "b"]);
});

test("text of an input method arrives once, in browsers that commit it before and after the composition's end", () => {
  const chromium = openField();
  chromium.compose("compositionstart");
  chromium.insert("insertCompositionText", "に", true);
  chromium.insert("insertCompositionText", "日本", true);
  chromium.compose("compositionend", "日本");
  assert.deepEqual(chromium.said, ["日本"]);
  const late = openField();
  late.compose("compositionstart");
  late.compose("compositionend", "日本");
  late.insert("insertFromComposition", "日本");
  assert.deepEqual(late.said, ["日本"]);
});

test("a Backspace of a screen keyboard within a composition edits the composition, and outside of it the program's text", () => {
  const { said, insert, compose } = openField();
  compose("compositionstart");
  insert("deleteContentBackward", "");
  compose("compositionend");
  assert.deepEqual(said, []);
  insert("deleteContentBackward", "");
  insert("insertLineBreak", "");
  assert.deepEqual(said, ["<Backspace>", "<Enter>"]);
});

test("what is pasted, dropped or yanked is left to the clipboard", () => {
  const { said, insert } = openField();
  for (const type of ["insertFromPaste", "insertFromPasteAsQuotation", "insertFromDrop", "insertFromYank"]) insert(type, "secret");
  assert.deepEqual(said, []);
});

/** Keys at a page: what it says of them, in words. */
function openKeys({ program = true, apple = false } = {}) {
  const said = [];
  const stage = new FakeElement();
  const out = {
    program,
    aspect: 16 / 9,
    focus: () => undefined,
    onLook: () => undefined,
    onToggleHud: () => said.push("hud"),
    onToggleMute: () => undefined,
    onToggleTalk: () => undefined,
    onDevice: (_, { device, code, pressed, text, character }) => {
      if (device === "key") said.push(`${code} ${pressed ? "down" : "up"}${text ? ` ${text}` : ""}${character ? ` is ${character}` : ""}`);
      else if (device === "key-repeat") said.push(`${code} again${text ? ` ${text}` : ""}`);
      else if (device !== "pointer") said.push(device === "text" ? `text ${text}` : device);
    },
  };
  Object.defineProperty(navigator, "platform", { configurable: true, value: apple ? "MacIntel" : "Linux x86_64" });
  const keys = new MouseKeyboard(stage, out);
  const key = (name, code, fields = {}) => {
    const made = event(name, {
      code, key: code.replace(/^Key/, "").toLowerCase(), keyCode: 0, repeat: false, isComposing: false,
      ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, getModifierState: () => false, ...fields,
    });
    window.dispatchEvent(made);
    return made;
  };
  return { keys, said, down: (code, fields) => key("keydown", code, fields), up: (code, fields) => key("keyup", code, fields) };
}

for (const program of [true, false]) {
  test(`keys that an input method has are left to it, the confirming one too (${program ? "program" : "world"})`, () => {
    const { keys, said, down, up } = openKeys({ program });
    const taken = [down("KeyN", { key: "n", keyCode: 229, isComposing: true }), down("Enter", { key: "Enter", keyCode: 229 })];
    up("KeyN");
    up("Enter");
    assert.deepEqual(said, []);
    assert.deepEqual(taken.map(({ defaultPrevented }) => defaultPrevented), [false, false]);
    down("KeyX");
    assert.equal(said[0]?.startsWith("KeyX down"), true);
    keys.close();
  });
}

const CMD = { metaKey: true };

test("on macOS a key that is pressed with Cmd is released at once, as no keyup comes, and Cmd is Control for a program", () => {
  const { keys, said, down, up } = openKeys({ apple: true });
  down("MetaLeft", { key: "Meta", ...CMD });
  down("KeyC", CMD);
  up("MetaLeft", { key: "Meta" });
  down("KeyA");
  up("KeyA");
  assert.deepEqual(said, ["ControlLeft down", "KeyC down is c", "KeyC up", "ControlLeft up", "KeyA down a", "KeyA up"]);
  keys.close();
});

test("a held Cmd+Z undoes as often as the browser repeats it", () => {
  const { keys, said, down, up } = openKeys({ apple: true });
  down("MetaLeft", { key: "Meta", ...CMD });
  down("KeyZ", CMD);
  down("KeyZ", { ...CMD, repeat: true });
  up("MetaLeft", { key: "Meta" });
  assert.deepEqual(said, ["ControlLeft down", "KeyZ down is z", "KeyZ up", "KeyZ again", "ControlLeft up"]);
  keys.close();
});

test("a key that was down before Cmd and went up with it is released when Cmd is", () => {
  const { keys, said, down, up } = openKeys({ apple: true });
  down("ShiftLeft", { key: "Shift" });
  down("KeyW");
  down("MetaRight", { key: "Meta", ...CMD });
  up("MetaRight", { key: "Meta" });
  assert.deepEqual(said, ["ShiftLeft down", "KeyW down w", "ControlRight down", "KeyW up", "ControlRight up"], "Shift has a keyup of its own");
  keys.close();
});

test("with the switch Cmd reaches a program as it is, and a key that is down goes up under the name with which it went down", () => {
  const { keys, said, down, up } = openKeys({ apple: true });
  down("MetaLeft", { key: "Meta", ...CMD });
  keys.commandIsControl = false;
  up("MetaLeft", { key: "Meta" });
  down("MetaLeft", { key: "Meta", ...CMD });
  down("KeyV", CMD);
  up("MetaLeft", { key: "Meta" });
  assert.deepEqual(said, ["ControlLeft down", "ControlLeft up", "MetaLeft down", "KeyV down is v", "KeyV up", "MetaLeft up"]);
  keys.close();
});

test("elsewhere keys with the system's key are held as long as the user holds them", () => {
  const { keys, said, down, up } = openKeys();
  down("MetaLeft", { key: "Meta", ...CMD });
  down("KeyC", CMD);
  down("KeyC", { ...CMD, repeat: true });
  up("KeyC", CMD);
  up("MetaLeft", { key: "Meta" });
  assert.deepEqual(said, ["MetaLeft down", "KeyC down is c", "KeyC again", "KeyC up", "MetaLeft up"]);
  keys.close();
});

test("on macOS Caps Lock is tapped when it goes on and when it goes off", () => {
  const { keys, said, down, up } = openKeys({ apple: true });
  down("CapsLock", { key: "CapsLock" });
  up("CapsLock", { key: "CapsLock" });
  assert.deepEqual(said, ["CapsLock down", "CapsLock up", "CapsLock down", "CapsLock up"]);
  keys.close();
});

test("keys wait for the text that they paste, also when they are let go of before it", async () => {
  for (const [apple, modifier, fields] of [[true, "MetaLeft", CMD], [false, "ControlLeft", { ctrlKey: true }]]) {
    const { keys, said, down, up } = openKeys({ apple });
    keys.pastes = true;
    down(modifier, fields);
    const pasting = down("KeyV", fields);
    await time.advance(10);
    if (!apple) up("KeyV", fields);
    up(modifier);
    down("Enter", { key: "Enter" });
    assert.deepEqual(said, ["ControlLeft down"]);
    assert.equal(pasting.defaultPrevented, false, "the browser pastes");
    await time.advance(60);
    assert.deepEqual(said, ["ControlLeft down", "KeyV down is v", "KeyV up", "ControlLeft up", "Enter down"]);
    keys.close();
  }
});

for (const program of [true, false]) {
  test(`keys repeat when the browser repeats them, arrows and Backspace as well, but no modifiers (${program ? "program" : "world"})`, () => {
    const { keys, said, down, up } = openKeys({ program });
    down("ShiftLeft", { key: "Shift" });
    down("ShiftLeft", { key: "Shift", repeat: true });
    down("CapsLock", { key: "CapsLock", repeat: true });
    for (const [code, name] of [["KeyA", "A"], ["ArrowLeft", "ArrowLeft"], ["Backspace", "Backspace"]]) {
      down(code, { key: name });
      down(code, { key: name, repeat: true });
      up(code, { key: name });
    }
    const typed = program ? ["KeyA down A"] : ["KeyA down", "text A"];
    assert.deepEqual(said, [
      "ShiftLeft down", ...typed, "KeyA again A", "KeyA up", "ArrowLeft down", "ArrowLeft again", "ArrowLeft up", "Backspace down", "Backspace again", "Backspace up",
    ]);
    keys.close();
  });
}

test("a shortcut is the letter that the key has in the user's layout", async () => {
  const layout = new Map([["KeyQ", "a"], ["KeyC", "c"], ["KeyS", "s"]]);
  Object.defineProperty(navigator, "keyboard", { configurable: true, value: { getLayoutMap: () => Promise.resolve(layout) } });
  const shortcuts = async (apple, presses) => {
    const { keys, said, down } = openKeys({ apple });
    await Promise.resolve();
    await time.advance(1);
    for (const [code, fields] of presses) down(code, fields);
    keys.close();
    return said.map((words) => words.split(" is ")[1]).filter(Boolean);
  };
  const control = { ctrlKey: true };
  const alt = { altKey: true };
  assert.deepEqual(
    await shortcuts(false, [
      ["KeyQ", { key: "a", ...control }],
      ["KeyQ", { key: "A", ...control, shiftKey: true }],
      // A Cyrillic layout beside a Latin one, and a place that the browser does not know.
      ["KeyC", { key: "с", ...control }],
      ["KeyF", { key: "а", ...control }],
      ["KeyS", { key: "ы", ...alt }],
      ["Semicolon", { key: "ö", ...control }],
      ["Enter", { key: "Enter", ...control }],
      ["KeyX", { key: "x" }],
    ]),
    ["a", "A", "c", "а", "s", "ö"],
  );
  assert.deepEqual(await shortcuts(true, [["KeyQ", { key: "æ", ...CMD, ...alt }], ["KeyL", { key: "@", ...alt }]]), ["a"], "Alt types on macOS");
  delete navigator.keyboard;
});
