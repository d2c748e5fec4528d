// What the user's devices say arrives at the application, and what it answers arrives at the page: against the real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { SMALL, emulateHeadset, eventually, live, openBrowser, openPage, screenshot, startServer, until } from "./helper.mjs";

let browser;
/** A test card, which says what it gets; and the world. */
let card;
let world;

before(async () => {
  [browser, card, world] = await Promise.all([
    openBrowser(),
    startServer({ more: [...SMALL, "--test-card", "--clipboard", "on"] }),
    startServer({ more: SMALL }),
  ]);
});

after(async () => {
  await browser?.close();
  await Promise.all([card?.stop(), world?.stop()]);
});

async function openLive(link, prepare = async () => undefined) {
  const opened = await openPage(browser);
  await prepare(opened.page);
  await opened.page.goto(link);
  await until(opened.page, live, "the page goes live");
  await opened.page.locator("#enter").click();
  return opened;
}

/** The test card's page: everything that it says is kept in `window.heard`. */
async function openCard(query = "", prepare = async () => undefined) {
  const opened = await openLive(card.url.replace("#", `?${query}#`), prepare);
  await opened.page.evaluate(() => {
    window.heard = [];
    window.nearlight.addEventListener("message", ({ detail: { data, reliable } }) => window.heard.push([new TextDecoder().decode(data), reliable]));
    window.nearlight.send("report input");
  });
  await untilHears(opened.page, "report input");
  return opened;
}

const heard = (page) => page.evaluate(() => window.heard.map(([text]) => text));

async function untilHears(page, ...lines) {
  const all = await eventually(() => heard(page), (texts) => lines.every((line) => texts.includes(line)), 20_000);
  for (const line of lines) assert.ok(all.includes(line), `${line} is missing: ${JSON.stringify(all)}`);
  return all;
}

for (const transport of ["webtransport", "webrtc", "websocket"]) {
  test(`keys arrive by their place, text as typed, messages both ways over ${transport}`, async () => {
    const { context, page, errors } = await openCard(`transport=${transport}`);
    await page.keyboard.press("KeyA");
    await page.keyboard.press("Shift+Digit1");
    const all = await untilHears(page, "key 0x070004 down", "text a", "key 0x070004 up", "key 0x0700e1 down", "key 0x07001e up");
    const order = ["key 0x070004 down", "key 0x070004 up", "key 0x0700e1 down", "key 0x07001e down"].map((line) => all.indexOf(line));
    assert.deepEqual(order, [...order].sort((one, other) => one - other));
    await page.evaluate(() => {
      window.nearlight.send("over and over", { reliable: false });
      window.nearlight.send("x".repeat(16 * 1024));
    });
    await untilHears(page, "over and over", "x".repeat(16 * 1024));
    const kinds = await page.evaluate(() => Object.fromEntries(window.heard.map(([text, reliable]) => [text.slice(0, 4), reliable])));
    assert.deepEqual([kinds.over, kinds.xxxx], [false, true]);
    assert.deepEqual(errors, []);
    await context.close();
  });
}

test("whoever looks away lets go", async () => {
  const { context, page } = await openCard();
  await page.keyboard.down("KeyW");
  await untilHears(page, "key 0x07001a down");
  assert.ok(!(await heard(page)).includes("key 0x07001a up"));
  await page.evaluate(() => window.dispatchEvent(new Event("blur")));
  await untilHears(page, "key 0x07001a up");
  await context.close();
});

test("a gamepad's buttons arrive, and its name, but not those of a gamepad that a server has made for a program", async () => {
  const { context, page } = await openCard();
  await page.evaluate(() => {
    const button = (pressed) => ({ pressed, touched: pressed, value: Number(pressed) });
    const pad = { connected: true, index: 1, id: "Made-up pad", mapping: "standard", timestamp: 0, axes: [0, 0, 0, 0], buttons: Array.from({ length: 17 }, (_, index) => button(index === 9)) };
    const served = { ...pad, index: 0, id: "Microsoft X-Box 360 pad (Nearlight) (STANDARD GAMEPAD Vendor: 045e Product: 028e)" };
    navigator.getGamepads = () => [served, pad];
    window.dispatchEvent(new Event("gamepadconnected"));
  });
  await untilHears(page, "gamepad 1 button 9 down", "gamepad 1 is Made-up pad");
  assert.deepEqual((await heard(page)).filter((text) => text.startsWith("gamepad 0")), []);
  await context.close();
});

test("fingers and the pointer arrive where they are in the picture", async () => {
  const { context, page } = await openCard();
  await until(page, () => document.pointerLockElement !== null, "a click captures the pointer");
  await page.mouse.down({ button: "right" });
  await page.mouse.up({ button: "right" });
  const pressed = (texts) => texts.some((text) => text.startsWith("button 2 down"));
  assert.ok(pressed(await eventually(() => heard(page), pressed)), "the right button arrives");
  await page.evaluate(() => document.exitPointerLock());
  const client = await context.newCDPSession(page);
  const touch = (type, touchPoints) => client.send("Input.dispatchTouchEvent", { type, touchPoints });
  await touch("touchStart", [{ x: 320, y: 540 }]);
  await touch("touchEnd", []);
  const began = (texts) => texts.find((text) => /^touch \d+ began/.test(text));
  const line = began(await eventually(() => heard(page), began));
  const [x, y] = line.split(" ").slice(-2).map(Number);
  assert.ok(Math.abs(x - 65_535 / 4) < 200 && Math.abs(y - (65_535 * 3) / 4) < 200, line);
  await context.close();
});

test("texts of the clipboard pass where owner and user say so", async () => {
  for (const [query, passes] of [["clipboard", true], ["", false]]) {
    const { context, page } = await openCard(query);
    await page.evaluate(() => {
      window.written = [];
      navigator.clipboard.writeText = async (text) => void window.written.push(text);
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", "pasted");
      document.dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
      window.nearlight.send("afterwards");
    });
    await untilHears(page, "afterwards");
    const written = await eventually(() => page.evaluate(() => window.written), ({ length }) => length > 0, passes ? 10_000 : 300);
    assert.deepEqual(written, passes ? ["pasted"] : []);
    await context.close();
  }
});

test("a long text of the clipboard passes whole, and one that is too long is refused with words", async () => {
  const { context, page } = await openCard("clipboard");
  const paste = (text, times) =>
    page.evaluate(
      ([text, times]) => {
        window.written ??= [];
        navigator.clipboard.writeText = async (text) => void window.written.push(text);
        const clipboardData = new DataTransfer();
        clipboardData.setData("text/plain", text.repeat(times));
        document.dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
      },
      [text, times],
    );
  const line = "Grüße, 5 € 😀\n\u0001\"";
  const times = 60_000;
  await paste(line, times);
  const whole = () => page.evaluate(([line, times]) => window.written.map((text) => text === line.repeat(times)), [line, times]);
  assert.deepEqual(await eventually(whole, ({ length }) => length > 0), [true], "1.3 MB come back as they were sent");
  await paste("x", 4 * 2 ** 20 + 1);
  await until(page, () => /4\.0 MiB/.test(document.getElementById("toast").textContent ?? ""), "the page says why it does not paste");
  await context.close();
});

/** From where the world's users begin: at the red ball on its plinth. */
const AT_THE_BALL = { position: [0, 1.6, 0], yaw: 0.488, pitch: -0.128 };

test("the world's pointer grabs with a ball in sight, and what holds one shakes", async () => {
  const { context, page, errors } = await openLive(world.url);
  const cursor = (wanted) => until(page, (wanted) => document.getElementById("stage").style.cursor === wanted, `the pointer is ${wanted}`, { argument: wanted });
  await page.evaluate((pose) => window.nearlight.setPose(pose), { ...AT_THE_BALL, pitch: 1 });
  await cursor("default");
  await page.evaluate((pose) => window.nearlight.setPose(pose), AT_THE_BALL);
  await cursor("grab");
  await page.evaluate(() => {
    window.rumbles = [];
    window.hold = (held) => {
      const button = (pressed) => ({ pressed, touched: pressed, value: Number(pressed) });
      const buttons = Array.from({ length: 17 }, (_, index) => button(index === held));
      const vibrationActuator = { playEffect: async (name, effect) => void window.rumbles.push([name, effect.duration]) };
      navigator.getGamepads = () => [{ connected: true, index: 0, id: "pad", mapping: "standard", timestamp: 0, axes: [0, 0, 0, 0], buttons, vibrationActuator }];
    };
    window.hold(0);
  });
  await cursor("grabbing");
  await until(page, () => window.rumbles.length > 0, "the gamepad shakes");
  assert.deepEqual(await page.evaluate(() => window.rumbles[0]), ["dual-rumble", 60]);
  await screenshot(page, "grabbing");
  await page.evaluate(() => window.hold(-1));
  await until(page, () => document.getElementById("stage").style.cursor !== "grabbing", "the ball is let go of");
  assert.deepEqual(errors, []);
  await context.close();
});

/** The test card's page in an emulated headset with these features beside its own. */
async function openCardInHeadset(...features) {
  const opened = await openCard("", (page) => emulateHeadset(page, ...features));
  await until(opened.page, () => !document.getElementById("enter-vr").hidden, "a headset is offered");
  await opened.page.locator("#enter-vr").evaluate((button) => button.click());
  return opened;
}

test("an emulated headset's controllers arrive with buttons and profiles", async () => {
  const { context, page } = await openCardInHeadset();
  await untilHears(page, "controller is meta-quest-touch-plus");
  await page.evaluate(() => window.emulated.controllers.right.updateButtonValue("squeeze", 1));
  await untilHears(page, "controller right button 1 down");
  await page.evaluate(() => window.emulated.controllers.right.updateButtonValue("squeeze", 0));
  await untilHears(page, "controller right button 1 up");
  await context.close();
});

test("the application shakes an emulated headset's controller", async () => {
  const { context, page, errors } = await openCardInHeadset();
  await untilHears(page, "controller is meta-quest-touch-plus");
  await page.evaluate(() => {
    window.pulses = [];
    for (const hand of ["left", "right"]) {
      const [actuator] = window.emulated.controllers[hand].inputSource.gamepad.hapticActuators;
      actuator.pulse = async (strength, milliseconds) => window.pulses.push([hand, strength, milliseconds]);
    }
    window.emulated.controllers.left.updateButtonValue("trigger", 1);
  });
  await untilHears(page, "controller left button 0 down");
  const pulses = await eventually(() => page.evaluate(() => window.pulses), ({ length }) => length > 0);
  assert.deepEqual(pulses, [["left", 1, 60]], "the card answers a button with 60 ms of the stronger motor");
  assert.deepEqual(errors, []);
  await context.close();
});

test("an emulated headset's hands arrive joint by joint, and leave", async () => {
  const { context, page, errors } = await openCardInHeadset();
  await untilHears(page, "controller is meta-quest-touch-plus");
  await page.evaluate(() => {
    window.emulated.primaryInputMode = "hand";
    window.emulated.hands.right.position.set(0.25, 1.5, -0.5);
  });
  const hand = (texts) => texts.find((text) => text.startsWith("hand right wrist"));
  const line = hand(await eventually(() => heard(page), hand, 20_000));
  assert.ok(line, "the right hand is tracked");
  const [wrist, tip] = line.split(", ").map((part) => part.split(" ").slice(-3).map(Number));
  const reach = Math.hypot(...tip.map((value, axis) => value - wrist[axis]));
  assert.ok(reach > 0.08 && reach < 0.25, `an index finger's tip is a hand's length from the wrist: ${line}`);
  await page.evaluate(() => (window.emulated.primaryInputMode = "controller"));
  await untilHears(page, "hand right gone", "hand left gone");
  assert.deepEqual(errors, []);
  await context.close();
});

test("where the eyes look arrives only where the browser tracks them", async () => {
  for (const [features, follows] of [[["eye-tracking"], true], [[], false]]) {
    const { context, page, errors } = await openCardInHeadset(...features);
    await untilHears(page, "controller is meta-quest-touch-plus");
    await page.evaluate(() => window.nearlight.send("afterwards"));
    await untilHears(page, "afterwards");
    const gaze = (texts) => texts.some((text) => text.startsWith("gaze from "));
    const texts = await eventually(() => heard(page), gaze, follows ? 20_000 : 300);
    assert.equal(gaze(texts), follows);
    assert.deepEqual(errors, []);
    await context.close();
  }
});

test("a pointer that lasts as long as a pinch tells once where the eyes looked", async () => {
  const { context, page, errors } = await openCardInHeadset();
  await untilHears(page, "controller is meta-quest-touch-plus");
  // The emulator has no such source: its right controller becomes one.
  await page.evaluate(() => {
    const source = window.emulated.controllers.right.inputSource;
    Object.defineProperty(source, "targetRayMode", { value: "transient-pointer" });
  });
  const all = await untilHears(page, "gaze gone");
  assert.equal(all.filter((text) => text.startsWith("gaze from ")).length, 1);
  assert.deepEqual(errors, []);
  await context.close();
});
