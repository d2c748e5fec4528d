// Programs on a display of their own, used from the page: against the real server, with xterm and xev.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { binary, canvas, eventually, live, openBrowser, openPage, screenshot, startScreen, startServer, until } from "./helper.mjs";

const SIZE = ["--size", "640x360", "--fps", "30"];

let browser;

before(async () => {
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

/** Serves a shell's words and opens its page. */
async function open(words, more = [], size = SIZE) {
  const server = await startServer({ more: [...size, ...more, "--", "sh", "-c", words] });
  const opened = await openPage(browser);
  await opened.page.goto(server.url);
  await until(opened.page, live, "the page goes live");
  await until(opened.page, () => document.body.dataset.content === "program", "the page knows that it shows a program");
  await opened.page.locator("#enter").click();
  return { server, ...opened };
}

/** Waits until the program's output, which is in the server's log, has this. */
async function untilLogs(server, wanted, what = String(wanted)) {
  const log = await eventually(() => server.log(), (log) => wanted.test(log), 20_000);
  assert.match(log, wanted, `${what}: ${log.slice(-2_000)}`);
}

/** Whether the page says that this one has the controls; evaluated in the page. */
function holds(wanted) {
  const { hidden, dataset } = document.getElementById("hand-over");
  return !hidden && dataset.holder === wanted;
}

/** Whether the program's window is there: its picture is not black any more. */
async function untilDrawn(page) {
  const drawn = () => {
    const picture = document.getElementById("picture");
    const canvas = new OffscreenCanvas(64, 36).getContext("2d");
    canvas.drawImage(picture, 0, 0, 64, 36);
    return canvas.getImageData(0, 0, 64, 36).data.some((level, index) => index % 4 === 0 && level > 128);
  };
  await until(page, drawn, "the window is seen");
}

test("typed text arrives exactly, and the program's end is told with its exit status", async () => {
  const line = "Az09 ~!@#$%^&*()_+ ñ 漢 🙂字zyÄ";
  const words = `xterm -bg white -fg black -u8 -e sh -c 'IFS= read -r line; echo "read <$line>" > /tmp/line'; cat /tmp/line; exit 3`;
  const { server, page, context, errors } = await open(words);
  await untilDrawn(page);
  assert.match(await page.locator("#mtp-label").textContent(), /estimated/, "nothing in the picture says which input it shows");
  await page.keyboard.type("Az09 ~!@#$%^&*()_+ ");
  // Not on this keyboard: as an input method commits it.
  await page.keyboard.insertText("ñ 漢 🙂");
  const devtools = await context.newCDPSession(page);
  // Composed by an input method: what it shows on the way is not typed.
  for (const text of ["じ", "じゅう"]) await devtools.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
  await devtools.send("Input.insertText", { text: "字" });
  // A German keyboard: other characters at the places of the display's.
  for (const [code, key] of [["KeyY", "z"], ["KeyZ", "y"], ["Quote", "Ä"]]) {
    await devtools.send("Input.dispatchKeyEvent", { type: "keyDown", code, key, text: key });
    await devtools.send("Input.dispatchKeyEvent", { type: "keyUp", code, key });
  }
  await eventually(() => page.evaluate(() => document.getElementById("typed").value), (value) => value === "");
  await screenshot(page, "program-xterm");
  // The pointer's shape is the browser's cursor, and nobody has captured it.
  await page.mouse.click(640, 300);
  await until(page, () => document.getElementById("stage").dataset.cursor?.startsWith("url"), "the pointer has xterm's shape");
  assert.equal(await page.evaluate(() => document.pointerLockElement), null);
  await page.keyboard.press("Enter");
  await until(page, () => window.nearlight.state === "ended" || document.body.dataset.state === "ended", "the page tells the end");
  assert.match(await page.locator("#notice-text").innerText(), /exit status 3/);
  await untilLogs(server, /read </);
  assert.ok(server.log().includes(`read <${line}>`), server.log().slice(-1_000));
  await untilLogs(server, /the program has ended with exit status 3/);
  assert.deepEqual(errors, []);
  await context.close();
  await server.stop();
});

test("keys, buttons and the wheel arrive where they should, and are let go when the viewer vanishes", async () => {
  // xev's lines lie apart: one line each.
  const { server, page, context } = await open("exec stdbuf -oL xev -event keyboard -event button -event mouse");
  await untilDrawn(page);
  await untilLogs(server, /Outer window/, "xev runs");
  const box = await page.locator("#stage").boundingBox();
  await page.mouse.click(box.x + box.width / 4, box.y + box.height / 2);
  await untilLogs(server, /ButtonPress[\s\S]*?root:\((159|16[0-1]),(179|18[0-1])\)/, "a click in the middle of the left half");
  await page.mouse.wheel(0, 200);
  await untilLogs(server, /button 5[\s\S]*button 5/, "two notches down");
  await page.keyboard.down("ShiftLeft");
  await page.keyboard.down("KeyW");
  await untilLogs(server, /KeyPress[\s\S]*keysym 0x57, W/, "a key with shift");
  assert.ok(!/KeyRelease[\s\S]*keysym 0x57, W/.test(server.log()), "it is held");
  // The page vanishes with the keys down.
  await context.close();
  await untilLogs(server, /KeyRelease[\s\S]*keysym 0x(57|77), [Ww]/, "the key is let go");
  await untilLogs(server, /KeyRelease[\s\S]*Shift_L/, "shift is let go");
  await server.stop();
});

test("the tools leave the keys and input methods to the program, and the panel says what it can know", async () => {
  // A terminal that shows each key, so that keys change pixels, and writes it into the log.
  const echo = "stty -icanon -echo; echo ready >> /tmp/keys; while key=$(dd bs=1 count=1 2> /dev/null); do echo \"<$key>\" | tee -a /tmp/keys; done";
  const { server, page, context, errors } = await open(`touch /tmp/keys; xterm -T other -e sleep 600 & xterm -T keys -e sh -c '${echo}' & exec tail -f /tmp/keys`);
  await untilLogs(server, /ready/, "the terminal runs");
  const choice = (title) => page.locator("#windows").selectOption(title);
  await until(page, () => document.getElementById("windows").options.length === 2, "the page lists both windows");
  await choice("other");
  await choice("keys");
  // What an input method writes goes into what has the focus, without a key before it. The window may not be in front yet. Chromium's
  // devtools insert text where nothing has the focus, too.
  const writes = async (what) => {
    assert.equal(await page.evaluate(() => document.activeElement.id), "typed", `the focus after ${what}`);
    const before = server.log().length;
    const heard = await eventually(() => page.keyboard.insertText("y").then(() => server.log().slice(before)), (log) => log.includes("<y>"), 20_000);
    assert.ok(heard.includes("<y>"), `text after ${what} is the program's: ${heard}`);
  };
  await writes("a choice of a window");
  // A tool that was clicked does not keep the keys, of which the space bar would press it again.
  for (const [tool, key, character] of [["show-bar", "Space", " "], ["toggle-hud", "Space", " "], ["volume", "KeyV", "v"], ["mute", "KeyH", "h"]]) {
    await page.locator(`#${tool}`).click();
    await writes(tool);
    const before = server.log().length;
    await page.keyboard.press(key);
    const heard = await eventually(() => server.log().slice(before), (log) => log.includes(`<${character}>`), 20_000);
    assert.ok(heard.includes(`<${character}>`), `the key after ${tool} is the program's: ${heard}`);
  }
  const pressed = (tool) => page.evaluate((tool) => document.getElementById(tool).getAttribute("aria-pressed"), tool);
  assert.deepEqual([await pressed("toggle-hud"), await pressed("mute")], ["true", "true"], "each was pressed once");
  await until(page, () => /^p95 [\d.]+ ms$/.test(document.getElementById("mtp-more").textContent), "an estimate is not said to be read from pixels");
  await screenshot(page, "program-panel");
  // A spectator is not promised what only others have.
  const watching = await openPage(browser);
  await watching.page.goto(server.spectatorUrl);
  await until(watching.page, () => document.body.dataset.content === "program", "the spectator's page knows that it shows a program");
  const taglines = await watching.page.locator("#tagline, #tagline-role").filter({ visible: true }).allInnerTexts();
  assert.deepEqual(taglines, ["You are a spectator: you watch, and others use the program."]);
  assert.deepEqual([...errors, ...watching.errors], []);
  await watching.context.close();
  await context.close();
  await server.stop();
});

test("a display that is there already is shown as it is, and a finger is its pointer", async (running) => {
  const screen = await startScreen();
  const seen = spawn("stdbuf", ["-oL", "xev", "-display", screen.name, "-geometry", "1400x1000+0+0", "-event", "keyboard", "-event", "button"]);
  running.after(() => {
    seen.kill();
    return screen.stop();
  });
  const said = [];
  seen.stdout.on("data", (chunk) => said.push(String(chunk)));
  const untilSays = async (wanted) => assert.match(await eventually(() => said.join(""), (text) => wanted.test(text), 20_000), wanted);
  await untilSays(/Outer window/);
  const server = await startServer({ more: ["--display", screen.name, "--fps", "30"] });
  const { page, context, errors } = await openPage(browser, { hasTouch: true });
  await page.goto(server.url);
  await untilDrawn(page);
  assert.deepEqual((await canvas(page)).size, [1400, 1000]);
  await page.locator("#enter").tap();
  const panel = () => page.evaluate(() => document.getElementById("toggle-hud").click());
  await panel();
  await until(page, () => /with OpenGL by the (processor|GPU).* on the X display :\d+ /.test(document.getElementById("hud")?.textContent ?? ""), "the panel says which display, and what draws OpenGL", {
    knowledge: () => document.getElementById("hud")?.textContent,
  });
  await panel();
  const box = await page.locator("#picture").boundingBox();
  await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height / 2);
  await untilSays(/ButtonPress[\s\S]*?root:\((699|70[01]),(499|50[01])\)[\s\S]*?ButtonRelease/);
  await page.keyboard.press("KeyK");
  await untilSays(/KeyPress[\s\S]*keysym 0x6b, k/);
  assert.deepEqual(errors, []);
  await context.close();
  await server.stop();
  assert.equal(seen.exitCode, null, "the display's programs go on without the server");
});

test("the display follows the size of the viewer's window, and the program's windows with it", async () => {
  const { server, page, context, errors } = await open("exec stdbuf -oL xev -event structure -event button", [], ["--fps", "30"]);
  await untilLogs(server, /ConfigureNotify[\s\S]*width 1280, height 720/, "the window of the page");
  await page.setViewportSize({ width: 901, height: 600 });
  await untilLogs(server, /ConfigureNotify[\s\S]*width 902, height 600/, "the window is smaller, and its size even");
  const sized = (wanted) => eventually(() => canvas(page), ({ size }) => String(size) === String(wanted));
  assert.deepEqual((await sized([902, 600])).size, [902, 600]);
  await page.mouse.click(225, 450);
  await untilLogs(server, /ButtonPress[\s\S]*?root:\(22[4-6],(449|45[0-1])\)/, "a click at a quarter of the width and three quarters of the height");
  // Larger than the display can be: the same proportions.
  await page.setViewportSize({ width: 2400, height: 1200 });
  await untilLogs(server, /ConfigureNotify[\s\S]*width 1920, height 960/, "the window is as large as it gets");
  assert.deepEqual((await sized([1920, 960])).size, [1920, 960]);
  assert.deepEqual(errors, []);
  await context.close();
  await server.stop();
});

test("a program that needs Wayland is served on sway: text, pointer, windows and another size", async (context) => {
  const missing = ["sway", "foot"].filter((name) => spawnSync("which", [name]).status !== 0);
  if (missing.length > 0) return context.skip(`not installed: ${missing.join(", ")} (apt install ${missing.join(" ")})`);
  const line = "Az09 ~!@#$%^&*()_+ ñ 漢 🙂";
  // The terminal reports clicks as bytes on its standard input (xterm's mouse protocol 1006).
  const shell = `cat > /tmp/inside <<'END'
IFS= read -r line; echo "read <$line>" > /tmp/line
stty raw -echo; printf '\\033[?1000h\\033[?1006h'; head -c 9 | od -An -c > /tmp/click
foot -T second sleep 600 & sleep 600
END
foot -T first -o colors.background=ffffff -o colors.foreground=000000 sh /tmp/inside &
for name in line click; do while ! [ -s /tmp/$name ]; do sleep 0.1; done; echo "$name: $(cat /tmp/$name)"; done; sleep 600`;
  const { server, page, context: opened, errors } = await open(shell, ["--compositor", "sway"], ["--fps", "30"]);
  await untilDrawn(page);
  await page.keyboard.type("Az09 ~!@#$%^&*()_+ ");
  await page.keyboard.insertText("ñ 漢 🙂");
  await eventually(() => page.evaluate(() => document.getElementById("typed").value), (value) => value === "");
  await screenshot(page, "program-sway");
  await page.keyboard.press("Enter");
  await untilLogs(server, /line: read </, "the line is read");
  assert.ok(server.log().includes(`read <${line}>`), server.log().slice(-1_000));
  await page.setViewportSize({ width: 901, height: 600 });
  const resized = await eventually(() => canvas(page), ({ size }) => String(size) === "902,600");
  assert.deepEqual(resized.size, [902, 600]);
  // The first cell.
  await page.mouse.click(3, 5);
  await untilLogs(server, /click: .*\[ +< +0 +; +1 +; +1 +M/, "a click at the upper left");
  const titles = () => page.evaluate(() => document.getElementById("windows")?.textContent ?? "");
  const both = await eventually(titles, (text) => /first/.test(text) && /second/.test(text));
  assert.match(both, /first[\s\S]*second|second[\s\S]*first/, "the page lists both windows");
  assert.deepEqual(errors, []);
  await opened.close();
  await server.stop();
});

test("a program built with SDL has the viewer's gamepad", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "nearlight-gamepad-"));
  await chmod(folder, 0o755);
  const source = fileURLToPath(new URL("../../cli/nearlight/tests/all/programs/program.c", import.meta.url));
  const compiled = spawnSync("cc", ["-std=gnu99", "-O1", source, "-o", path.join(folder, "program"), "-ldl"], { encoding: "utf8" });
  assert.equal(compiled.status, 0, compiled.stderr);
  const server = await startServer({ more: [...SIZE, "--", path.join(folder, "program"), "gamepad"] });
  const { page, context, errors } = await openPage(browser);
  await page.goto(server.url);
  await until(page, () => document.body.dataset.content === "program", "the page knows that it shows a program");
  await page.locator("#enter").click();
  await untilLogs(server, /0 at the start/, "the program runs, and has none yet");
  await page.evaluate(() => {
    const axes = [0, 0, 0, 0];
    const button = (pressed) => ({ pressed, touched: pressed, value: Number(pressed) });
    window.vibrated = [];
    const vibrationActuator = { playEffect: async (kind, effect) => void window.vibrated.push({ kind, ...effect }) };
    window.hold = (held, ...sticks) => {
      navigator.getGamepads = () => [{
        connected: true, index: 0, id: "Made-up pad", mapping: "standard", timestamp: 0, vibrationActuator,
        axes: Object.assign([...axes], sticks), buttons: Array.from({ length: 17 }, (_, index) => button(held.includes(index))),
      }];
    };
    window.hold([]);
  });
  // Sticks alone do not take the controls; a button does.
  await page.evaluate(() => window.hold([0]));
  await untilLogs(server, /found X(box )?360 Controller/, "SDL knows it");
  // The page looks at gamepads once in a while: a button that is let go and pressed at once was never up.
  let held = true;
  const toggled = async () => {
    held = !held;
    await page.evaluate((held) => window.hold(held ? [0] : []), held);
    await new Promise((resolve) => setTimeout(resolve, 200));
    return server.log();
  };
  await eventually(toggled, (log) => log.includes("vibrates: 0"), 20_000);
  await untilLogs(server, /vibrates: 0/, "SDL takes it for one that vibrates");
  const vibrated = await eventually(() => page.evaluate(() => window.vibrated), (all) => all.length > 1 && all.at(-1).strongMagnitude === 0, 5_000);
  const [{ kind, strongMagnitude, weakMagnitude }] = vibrated;
  assert.deepEqual([kind, strongMagnitude.toFixed(2), weakMagnitude.toFixed(2)], ["dual-rumble", "0.50", "0.25"]);
  assert.equal(vibrated.at(-1).strongMagnitude, 0, "the program ends it");
  await page.evaluate(() => window.hold([3, 12], -1, 0.5));
  await untilLogs(server, /y down/, "a button");
  await untilLogs(server, /dpup down/, "the cross");
  await untilLogs(server, /leftx -3276[78]/, "a stick to the left");
  await untilLogs(server, /lefty 1638[34]/, "and half down");
  await page.evaluate(() => window.hold([7], 0, 0));
  await untilLogs(server, /y up[\s\S]*righttrigger 32767/, "a trigger");
  // The page vanishes with the trigger pulled.
  await context.close();
  await untilLogs(server, /righttrigger 0/, "the trigger is let go");
  assert.deepEqual(errors, []);
  await server.stop();
  await rm(folder, { recursive: true });
});

test("a program that crashes is started again, and one that forks is not taken for ended", async () => {
  const { server, page, context } = await open("xterm -e sleep 2 & sleep 0.2; kill -SEGV $$", ["--restart", "on-failure"]);
  await untilLogs(server, /ended with signal 11 \(segmentation fault\) and is started again/, "the end is reported once its child has ended, too");
  await until(page, () => /is started again/.test(document.getElementById("toast").textContent), "the page tells it");
  await until(page, live, "the session goes on");
  await context.close();
  await server.stop();
});

test("over a path that freezes and loses packets text arrives exactly, and held keys repeat only when the browser repeats them", async () => {
  const words = `xterm -bg white -fg black -e sh -c 'while IFS= read -r line; do echo "read <$line>" >> /tmp/lines; done' & touch /tmp/lines; exec tail -f /tmp/lines`;
  const { server, page, context, errors } = await open(words, ["--impair", "delay=5ms,loss=2%,freeze=1s+900ms@2s"]);
  await untilDrawn(page);
  const line = "The quick brown fox jumps over the lazy dog, hello bookkeeper 112233.";
  await page.keyboard.type(line, { delay: 60 });
  await page.keyboard.press("Enter");
  await untilLogs(server, /read </, "the line is read");
  assert.ok(server.log().includes(`read <${line}>`), server.log().slice(-500));
  // Held through a freeze without a repeat, then with three.
  await page.keyboard.down("x");
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  await page.keyboard.up("x");
  for (let presses = 0; presses < 4; presses += 1) await page.keyboard.down("y");
  await page.keyboard.up("y");
  for (let presses = 0; presses < 3; presses += 1) await page.keyboard.down("Backspace");
  await page.keyboard.up("Backspace");
  await page.keyboard.press("Enter");
  await untilLogs(server, /read <xy*>/, "the held keys are read");
  assert.ok(server.log().includes("read <xy>"), server.log().slice(-500));
  assert.deepEqual(errors, []);
  await context.close();
  await server.stop();
});

test("a shortcut is the letter of the viewer's layout at once, and of the key's place where the layout has no Latin letters", async () => {
  const { server, page, context } = await open("exec stdbuf -oL xev -event keyboard");
  await untilDrawn(page);
  await untilLogs(server, /Outer window/, "xev runs");
  const devtools = await context.newCDPSession(page);
  const press = async (code, key, { modifiers = 0, text } = {}) => {
    await devtools.send("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", code, key, modifiers, ...(text && { text }) });
    await devtools.send("Input.dispatchKeyEvent", { type: "keyUp", code, key, modifiers });
  };
  const control = { modifiers: 2 };
  // AZERTY, QWERTZ and Russian; xev names what it reads with Control.
  for (const [code, key, keysym] of [["KeyQ", "a", "0x61, a"], ["KeyY", "z", "0x7a, z"], ["KeyC", "с", "0x63, c"]]) {
    await devtools.send("Input.dispatchKeyEvent", { type: "rawKeyDown", code: "ControlLeft", key: "Control", modifiers: 2 });
    await press(code, key, control);
    await devtools.send("Input.dispatchKeyEvent", { type: "keyUp", code: "ControlLeft", key: "Control" });
    await untilLogs(server, new RegExp(`KeyPress[^]*?state 0x4, keycode \\d+ \\(keysym ${keysym}`), `Control and ${key}`);
  }
  assert.ok(!/keysym 0x(71|79), /.test(server.log()), "no key means what stands at its place on the display");
  // After the letter was typed, which changes what the key types.
  await press("KeyC", "с", { text: "с" });
  await untilLogs(server, /keysym 0x(6d3|1000441), /, "the letter itself");
  const before = server.log().length;
  await devtools.send("Input.dispatchKeyEvent", { type: "rawKeyDown", code: "ControlLeft", key: "Control", modifiers: 2 });
  await press("KeyC", "с", control);
  await devtools.send("Input.dispatchKeyEvent", { type: "keyUp", code: "ControlLeft", key: "Control" });
  const heard = await eventually(() => server.log().slice(before), (log) => /keysym 0x63, c/.test(log), 20_000);
  assert.match(heard, /state 0x4, keycode \d+ \(keysym 0x63, c/);
  await context.close();
  await server.stop();
});

test("what a viewer types while another has the controls is refused as a whole, and the page says who has them", async () => {
  const words = `xterm -bg white -fg black -e sh -c 'while IFS= read -r line; do echo "read <$line>" >> /tmp/lines; done' & touch /tmp/lines; exec tail -f /tmp/lines`;
  const { server, page: host, context } = await open(words);
  const opened = await openPage(browser);
  const guest = opened.page;
  await guest.goto(server.url);
  await until(guest, live, "the guest's page goes live");
  await guest.locator("#enter").click();
  await untilDrawn(host);
  await host.keyboard.type("host ");
  await until(guest, holds, "the guest watches", { argument: "other" });
  // The host counts as idle in the middle of it.
  await guest.keyboard.type("rm -rf 0123456789", { delay: 450 });
  await until(guest, () => /has the controls.*Ask for controls/.test(document.getElementById("toast").textContent), "the guest is told");
  await guest.evaluate(() => document.getElementById("hand-over").click());
  await until(guest, holds, "the host is idle", { argument: "you" });
  await guest.keyboard.type("guest");
  await guest.keyboard.press("Enter");
  await untilLogs(server, /read </, "the line is read");
  assert.ok(server.log().includes("read <host guest>"), server.log().slice(-500));
  await opened.context.close();
  await context.close();
  await server.stop();
});

test("one of several viewers has the controls and hands them on, and what it held is let go", async () => {
  const { server, page: first, context, errors } = await open("exec stdbuf -oL xev -event keyboard");
  await untilLogs(server, /Outer window/, "xev runs");
  const opened = await openPage(browser);
  const second = opened.page;
  await second.goto(server.url);
  await until(second, live, "the second page goes live");
  await second.locator("#enter").click();
  const holder = (page, wanted, what) => until(page, holds, what, { argument: wanted });
  const handOver = (page) => page.evaluate(() => document.getElementById("hand-over").click());
  await holder(first, "nobody", "nobody has done anything");
  await first.keyboard.down("KeyW");
  await holder(first, "you", "the first who presses something has the controls");
  await holder(second, "other", "the other watches");
  await untilLogs(server, /KeyPress[\s\S]*keysym 0x77, w/);
  await second.keyboard.press("KeyQ");
  await handOver(second);
  await until(first, () => /asks for the controls/.test(document.getElementById("toast").textContent), "the first is asked");
  await until(second, () => /asked for/.test(document.getElementById("hand-over").textContent), "the second has asked");
  await screenshot(first, "program-controls");
  await handOver(first);
  await holder(second, "you", "the second has them");
  await untilLogs(server, /KeyRelease[\s\S]*keysym 0x77, w/, "what the first held is let go");
  await first.keyboard.up("KeyW");
  await first.keyboard.press("KeyE");
  await second.keyboard.down("KeyS");
  await untilLogs(server, /keysym 0x73, s/, "the second's keys arrive");
  assert.ok(!/keysym 0x(71|65), /.test(server.log()), "the keys of whoever watches do not");
  // Whoever loses focus lets go, and whoever leaves hands on.
  await second.evaluate(() => window.dispatchEvent(new Event("blur")));
  await untilLogs(server, /KeyRelease[\s\S]*keysym 0x73, s/, "a key is let go when the window loses focus");
  await handOver(first);
  await until(second, () => /asks for the controls/.test(document.getElementById("toast").textContent), "the second is asked");
  await opened.context.close();
  await until(first, () => document.getElementById("hand-over").dataset.holder === "you", "who has asked has them when the other leaves");
  assert.deepEqual([...errors, ...opened.errors], []);
  await context.close();
  await server.stop();
});

test("what a program plays is heard in the page", async () => {
  // A second of 440 Hz at 44.1 kHz in one channel, again and again.
  const tone = `awk 'BEGIN { for (frame = 0; frame < 44100; frame++) printf "%c", 128 + 100 * sin(frame * 440 * 6.2831853 / 44100) }'`;
  const { server, page, context } = await open(`LC_ALL=C ${tone} > /tmp/tone; while paplay --raw --format=u8 --rate=44100 --channels=1 /tmp/tone; do :; done`);
  await until(page, () => (window.nearlight.loudness()?.[0] ?? 0) > 0.1, "the tone is heard");
  await context.close();
  await server.stop();
});

test("a program records the microphone of whoever has the controls, if both ends allow it", async () => {
  const noisy = await openBrowser("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream");
  // The peak of each second, by the program's own reckoning.
  const peak = `od -An -v -td2 -w2 | awk '{ level = $1 < 0 ? -$1 : $1; if (level > peak) peak = level; if (++count == 16000) { print "peak", peak; fflush(); count = peak = 0 } }'`;
  const words = `parec --raw --rate=16000 --channels=1 --format=s16le | ${peak}; sleep 60`;
  for (const [more, query, allowed] of [[["--microphone", "on"], "?microphone", true], [["--microphone", "on"], "", false], [[], "?microphone", false]]) {
    const server = await startServer({ more: [...SIZE, ...more, "--", "sh", "-c", words] });
    const { page, context } = await openPage(noisy);
    await page.goto(server.url.replace("#", `${query}#`));
    await until(page, () => document.body.dataset.content === "program", "the page knows that it shows a program");
    await page.locator("#enter").click();
    if (more.length === 0) await untilLogs(server, /Not supported/, "there is nothing to record");
    else await untilLogs(server, /peak 0\b/, "nobody has the controls, and nobody is heard");
    await page.keyboard.press("KeyA");
    // Chromium's made-up microphone beeps.
    if (allowed) await untilLogs(server, /peak \d{4,}/, "the beep is recorded");
    else if (more.length > 0) await untilLogs(server, /peak[\s\S]*peak[\s\S]*peak 0\b/, "silence");
    assert.equal(/peak \d{4,}/.test(server.log()), allowed, server.log().slice(-600));
    await context.close();
    await server.stop();
  }
  await noisy.close();
});

test("what is missing is said in words", async () => {
  for (const [more, words] of [
    [["--", "no-such-program"], /there is no program no-such-program/],
    [["--program-user", "no-such-user", "--", "xterm"], /no user no-such-user|only root can run programs as another user/],
  ]) {
    const child = spawn(binary, ["serve", "--port", "0", ...more], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (chunk) => (said += chunk));
    const [code] = await once(child, "exit");
    assert.equal(code, 1);
    assert.match(said, words);
  }
});
