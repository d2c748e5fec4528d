// The page without a server: what it says, what its panel shows, what its input sends.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { emulateHeadset, eventually, openBrowser, openPage, screenshot, servePage, until, untilSays } from "./helper.mjs";

const fakeWorker = path.join(path.dirname(fileURLToPath(import.meta.url)), "fake-worker.js");
let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), servePage()]);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page whose worker is made up. */
async function openAlone(options, prepare = async () => undefined) {
  const opened = await openPage(browser, options);
  await prepare(opened.page);
  await opened.page.addInitScript({ path: fakeWorker });
  await opened.page.goto(`${server.url}#token=made-up`);
  await until(opened.page, () => window.fake?.instance?.surface, "the page starts its worker");
  return opened;
}

const sent = (page, type) => page.evaluate((type) => window.fake.received.filter((message) => message.type === type), type);
/** What the page's devices said, in words; a pointer's and a gamepad's where their buttons changed. */
async function devices(page) {
  const said = (await sent(page, "device")).map(({ input }) => words(input));
  const pressed = said.findIndex((word) => /^buttons [1-9]/.test(word));
  return said.filter((word, index) => word !== said[index - 1] && (word !== "buttons 0" || (pressed >= 0 && index > pressed)));
}

function words({ device, code, pressed, text, values }) {
  if (device === "key") return `${code} ${pressed ? "down" : "up"}`;
  if (device === "text") return `text ${text}`;
  if (device === "pointer") return `buttons ${values.at(-1)}`;
  if (device === "touches") return `fingers ${values.length / 4}`;
  // Behind number and count: how far each button is down, and 1 where it counts as pressed.
  if (device === "gamepads") return `pad ${values.slice(2, 2 + 2 * (values[1] ?? 0)).filter((value, index) => index % 2 === 1 && value === 1).length}`;
  return device;
}

/** Waits until the page's devices have said this and nothing else. */
async function untilSaid(page, expected) {
  const said = await eventually(() => devices(page), (said) => JSON.stringify(said) === JSON.stringify(expected), 10_000);
  assert.deepEqual(said, expected);
}

/** Waits until the newest presence that the page has sent is as `probe`, a function in the page, wants it; it gets 20 numbers. */
async function untilPresent(page, probe, what) {
  const newest = new Function("wanted", `
    const { values } = window.fake.received.filter(({ type }) => type === "presence").at(-1) ?? {};
    return values !== undefined && (${probe})([...values]);`);
  await until(page, newest, what, { knowledge: whatWasSent });
}

function whatWasSent() {
  const { received } = window.fake;
  const newest = received.filter(({ type }) => type === "presence").at(-1);
  return JSON.stringify({ devices: received.filter(({ type }) => type === "device"), presence: newest && [...newest.values] });
}

test("a browser that can decode nothing is told what is missing", async () => {
  const { context, page } = await openPage(browser);
  await page.addInitScript(() => {
    delete window.VideoDecoder;
    delete window.RTCPeerConnection;
  });
  await page.goto(`${server.url}#token=x`);
  const notice = page.locator("#notice");
  await notice.waitFor({ state: "visible" });
  assert.match(await notice.innerText(), /video decoder/);
  assert.match(await notice.innerText(), /Chrome/);
  assert.equal(await page.evaluate(() => window.nearlight.state), "unsupported");
  await screenshot(page, "unsupported");
  await context.close();
});

test("a browser without workers is told so", async () => {
  const { context, page } = await openPage(browser);
  await page.addInitScript(() => {
    delete window.Worker;
  });
  await page.goto(`${server.url}#token=x`);
  await untilSays(page, "notice", /Workers/);
  assert.equal(await page.evaluate(() => window.nearlight.state), "unsupported");
  await context.close();
});

for (const [what, answer, words] of [
  ["stops at the program's syntax", { contentType: "text/javascript", body: "const new = 1;" }, /did not start: .*SyntaxError/],
  ["does not get the program", { status: 404 }, /did not start: main\.js cannot be loaded/],
]) {
  test(`a browser that ${what} says so instead of connecting for ever`, async () => {
    const { context, page } = await openPage(browser);
    await page.route("**/main.js", (route) => route.fulfill(answer));
    await page.goto(`${server.url}#token=x`);
    await untilSays(page, "notice-text", words);
    await untilSays(page, "status", /Cannot start/i);
    assert.equal(await page.evaluate(() => window.nearlight.state), "unsupported");
    await screenshot(page, "old-browser");
    await context.close();
  });
}

test("a worker that fails is reported as the browser tells it, before and after it has started", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.instance.onerror({}));
  await untilSays(page, "notice-text", /^Its worker does not start: the browser gives no reason\. Reload the page\.$/);
  await page.evaluate(() => {
    window.fake.play(3);
    window.fake.instance.onerror({ message: "boom", filename: "https://server.example/worker.js", lineno: 3 });
  });
  await untilSays(page, "notice-text", /^Its worker has failed: boom \(worker\.js:3\)\. Reload the page\.$/);
  await context.close();
});

test("the panel says which codec the browser claims and does not decode", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => {
    window.fake.play(3);
    window.fake.instance.say({ type: "codec", why: "this browser's WebCodecs claims H.264, and decoded no picture of it" });
  });
  await page.locator("#toggle-hud").click();
  await untilSays(page, "facts", /WebCodecs · \S+ · this browser's WebCodecs claims H\.264/);
  await page.evaluate(() => window.fake.instance.say({ type: "state", state: { state: "refused", reason: "undecodable", message: "H.264 and VP8" } }));
  await untilSays(page, "notice", /decodes no picture[^]*What the page sees\s*H\.264 and VP8/);
  await context.close();
});

test("a page that is left ends its worker, its sound and its timers", async () => {
  const { context, page } = await openAlone({}, (page) =>
    page.addInitScript(() => {
      window.contexts = [];
      window.AudioContext = class extends AudioContext {
        constructor(...how) {
          super(...how);
          window.contexts.push(this);
        }
      };
      window.periods = new Map();
      const [set, clear] = [window.setInterval, window.clearInterval];
      window.setInterval = (act, period) => {
        const number = set(act, period);
        window.periods.set(number, period);
        return number;
      };
      window.clearInterval = (number) => {
        clear(number);
        window.periods.delete(number);
      };
    }),
  );
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#enter").click();
  await until(page, () => window.contexts[0]?.state === "running" && window.nearlight.loudness() !== null, "the sound runs");
  await page.evaluate(() => window.dispatchEvent(new Event("pagehide")));
  await until(page, () => window.contexts.every(({ state }) => state === "closed"), "the sound ends");
  assert.deepEqual(await page.evaluate(() => [...window.periods.values()]), []);
  assert.equal((await sent(page, "close")).length, 1);
  assert.equal(await page.evaluate(() => window.nearlight.summary()), null, "whoever asks gets an answer");
  await context.close();
});

test("a browser without WebGL2 is no reason to refuse the screen, only the headset", async () => {
  const without = async (page) => {
    await emulateHeadset(page);
    await page.addInitScript(() => {
      const getContext = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
        return kind === "webgl2" ? null : getContext.call(this, kind, ...more);
      };
    });
  };
  const { context, page, errors } = await openAlone({}, without);
  await page.evaluate(() => window.fake.play(3));
  assert.equal(await page.evaluate(() => window.nearlight.state), "live");
  assert.equal(await page.locator("#notice").isVisible(), false);
  await untilSays(page, "landing-vr", /VR needs WebGL2/);
  assert.equal(await page.locator("#landing-vr").isDisabled(), true);
  assert.deepEqual(errors, []);
  await context.close();
});

test("an address without its token says so", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(server.url);
  const notice = page.locator("#notice");
  await notice.waitFor({ state: "visible" });
  assert.match(await notice.innerText(), /#token=/);
  await context.close();
});

test("a link with a part of its certificate says so, and not that the token is missing", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(`${server.url}#token=made-up&certificate=0123456789abcdef`);
  await untilSays(page, "notice", /This link is incomplete[^]*certificate=[^]*64/);
  await screenshot(page, "link-incomplete");
  await context.close();
});

test("no text is cut off: neither a fingerprint in a notice nor a reason in the panel", async () => {
  for (const viewport of [{ width: 1280, height: 720 }, { width: 390, height: 844 }]) {
    const { context, page } = await openAlone({ viewport });
    await page.evaluate(() => {
      window.fake.play(40);
      const say = (message) => window.fake.instance.say(message);
      say({ type: "carrier", name: "websocket", why: "WebTransport does not get through: it was not ready in time" });
      say({ type: "codec", why: "this browser claims H.264 and decodes nothing of it" });
      window.fake.count({ packetsLost: 123_456, recoveredBy: "retransmission", framesToRecover: 12, sound: { lost: 1_234, concealed: 12_345, delayUs: 161_000 } });
      document.getElementById("toggle-hud").click();
    });
    await untilSays(page, "counters", /123,456/);
    await screenshot(page, `panel-long-${viewport.width}`);
    const cut = () => {
      const isCut = (one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1;
      return [...document.querySelectorAll("#hud dd, #hud dt, #notice li, #notice p, #notice > div")].filter(isCut).map((one) => one.textContent);
    };
    assert.deepEqual(await page.evaluate(cut), []);
    await page.evaluate(() => {
      const message = `The link names ${"0123456789abcdef".repeat(4)}, the server shows ${"fedcba9876543210".repeat(4)}.`;
      window.fake.instance.say({ type: "state", state: { state: "refused", reason: "certificate", message } });
    });
    await untilSays(page, "notice", /fedcba9876543210/);
    await screenshot(page, `notice-certificate-${viewport.width}`);
    assert.deepEqual(await page.evaluate(cut), []);
    await context.close();
  }
});

test("a session from which nothing arrives is not said to lack pictures alone", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.instance.say({ type: "state", state: { state: "stalled", sinceMs: 2_100 } }));
  await untilSays(page, "status", /^Nothing from the server for 2 s$/);
  await context.close();
});

test("a server that is away is dialled again with back-off", async () => {
  const { context, page } = await openPage(browser);
  await page.goto(`${server.url}#token=x`);
  await until(page, () => window.nearlight?.state === "reconnecting", "the page tries again");
  assert.match(await page.locator("#status").innerText(), /Trying again/i);
  await context.close();
});

for (const [name, viewport] of [
  ["desktop", { width: 1280, height: 720 }],
  ["phone", { width: 390, height: 844 }],
]) {
  test(`landing page and panel fit a ${name}`, async () => {
    const touch = name === "phone" ? { hasTouch: true, isMobile: true, deviceScaleFactor: 2 } : {};
    const { context, page, errors } = await openAlone({ viewport, ...touch });
    await page.evaluate(() => window.fake.play(400));
    await screenshot(page, `landing-${name}`);
    const narrower = () => document.documentElement.scrollWidth <= window.innerWidth;
    assert.ok(await page.evaluate(narrower), "the landing page is not wider than the window");
    await page.locator("#enter").click();
    // A locked pointer cannot press buttons.
    if (name === "phone") await page.locator("#toggle-hud").tap();
    else await page.keyboard.press("KeyH");
    await untilSays(page, "mtp", /^\d+\.\d$/);
    await untilSays(page, "legend", /encode\s+\d+\.\d ms/);
    await untilSays(page, "binding", /maximum/);
    await screenshot(page, `panel-${name}`);
    const panel = await page.locator("#hud").boundingBox();
    const bar = await page.locator("#toggle-hud").boundingBox();
    assert.ok(panel.y >= bar.y + bar.height, "the panel lies below the bar");
    assert.ok(panel.x >= 0 && panel.x + panel.width <= viewport.width && panel.y + panel.height <= viewport.height, "the panel fits");
    assert.ok(await page.evaluate(narrower), "the panel is not wider than the window");
    assert.deepEqual(errors, []);
    await context.close();
  });
}

test("the panel says what recovered the picture in words, and nothing that is not known", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.play(4));
  await page.locator("#toggle-hud").click();
  for (const [recovered, words] of [
    [{ recoveredBy: null, framesToRecover: 0 }, "–"],
    [{ recoveredBy: "late_repair", framesToRecover: 3 }, "late repair, 3 frames"],
    [{ recoveredBy: "key_frame", framesToRecover: 1 }, "key frame, 1 frame"],
    [{ recoveredBy: "retransmission", framesToRecover: 0 }, "retransmission"],
    [{ recoveredBy: "reference", framesToRecover: undefined }, "reference"],
    [{ recoveredBy: "retransmission", framesToRecover: 12 }, "retransmission, 12 frames"],
  ]) {
    await page.evaluate((recovered) => window.fake.count(recovered), recovered);
    // The panel's text follows the counters that come, not faster than can be read.
    const says = (words) => {
      window.fake.count({});
      const lines = [...document.querySelectorAll("#counters div")].map(({ innerText }) => innerText.replace(/\s+/g, " ").toLowerCase());
      return lines.includes(`recovered by ${words}`);
    };
    await until(page, says, `recovered by ${words}`, { argument: words });
    assert.doesNotMatch(await page.locator("#hud").innerText(), /undefined|NaN|null/);
    const sizes = ({ scrollHeight, clientHeight, scrollWidth, clientWidth }) => [scrollWidth, clientWidth, scrollHeight, clientHeight];
    const [neededWidth, width, neededHeight, height] = await page.locator("#hud").evaluate(sizes);
    assert.ok(neededWidth <= width && neededHeight <= height, `${neededWidth}x${neededHeight} in ${width}x${height} beside ${words}`);
  }
  await screenshot(page, "panel-recovered");
  await context.close();
});

test("mouse and keys move the user and are told of", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#enter").click();
  await until(page, () => document.pointerLockElement !== null, "the pointer is locked");
  await page.mouse.move(640, 360);
  await page.evaluate(() => {
    window.fake.received = [];
  });
  await page.mouse.move(760, 360, { steps: 6 });
  await page.keyboard.down("KeyW");
  await untilPresent(page, (values) => values[2] < 5.8 && values[0] > 0.01, "the user walks forward, and to the right where it has turned");
  await page.keyboard.up("KeyW");
  await page.mouse.down();
  await page.mouse.up();
  await page.keyboard.press("KeyF");
  await page.keyboard.press("KeyR");
  await untilSaid(page, [
    "KeyW down", "text w", "KeyW up", "buttons 1", "buttons 0", "KeyF down", "text f", "KeyF up", "KeyR down", "text r", "KeyR up",
  ]);
  // 120 pixels to the right at pi / 1,500 radians a pixel: the quaternion's y is the sine of half of that, negative.
  await untilPresent(page, (values) => Math.abs(values[4] - Math.sin((-120 * Math.PI) / 3000)) < 0.01, "the mouse turns the view");
  assert.ok((await sent(page, "presence")).every(({ values }) => Object.values(values).length === 7 + 1 + 11 + 1));
  await context.close();
});

test("on a Mac the panel says what a program receives for Cmd, and the choice is remembered", async () => {
  const { context, page } = await openAlone({}, (page) => page.addInitScript(() => Object.defineProperty(navigator, "platform", { value: "MacIntel" })));
  const play = async () => {
    await page.evaluate(() => {
      window.fake.play(3);
      window.fake.instance.say({ type: "pointer", cursor: { named: "default" }, captured: false });
      const data = new TextEncoder().encode(JSON.stringify({ display: { program: "xterm" } }));
      window.fake.instance.say({ type: "received", data, reliable: true });
      window.fake.received = [];
    });
    await page.locator("#enter").click();
    await page.keyboard.press("Meta+KeyC");
  };
  await play();
  await untilSaid(page, ["ControlLeft down", "KeyC down", "KeyC up", "ControlLeft up"]);
  await page.locator("#show-bar").click();
  await page.locator("#toggle-hud").click();
  await page.locator("#command-key").selectOption("super");
  await page.evaluate(() => {
    window.fake.received = [];
  });
  await page.keyboard.press("Meta+KeyC");
  await untilSaid(page, ["MetaLeft down", "KeyC down", "KeyC up", "MetaLeft up"]);
  await page.reload();
  await until(page, () => window.fake?.instance?.surface, "the page starts again");
  await play();
  await untilSaid(page, ["MetaLeft down", "KeyC down", "KeyC up", "MetaLeft up"]);
  await screenshot(page, "panel-mac");
  await context.close();
});

test("a gamepad is told of, and lets go where it is pulled out", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#enter").click();
  await page.evaluate(() => {
    window.fake.received = [];
    const button = (pressed) => ({ pressed, touched: pressed, value: Number(pressed) });
    const pad = (held) => ({
      connected: true,
      index: 0,
      id: "Made-up pad",
      mapping: "standard",
      timestamp: 0,
      axes: [0, 0, 0, 0],
      buttons: Array.from({ length: 17 }, (_, index) => button(held.includes(index))),
    });
    window.hold = (...held) => {
      navigator.getGamepads = () => [pad(held)];
    };
    window.pullOut = () => {
      navigator.getGamepads = () => [null];
    };
  });
  const pads = async () => (await devices(page)).filter((word) => word.startsWith("pad"));
  const untilPads = async (expected) => assert.deepEqual(await eventually(pads, (said) => said.length >= expected.length, 10_000), expected);
  await page.evaluate(() => window.hold(1));
  await untilPads(["pad 1"]);
  await page.evaluate(() => window.hold());
  await untilPads(["pad 1", "pad 0"]);
  await page.evaluate(() => window.hold(0, 3));
  await untilPads(["pad 1", "pad 0", "pad 2"]);
  await page.evaluate(() => window.pullOut());
  await untilPads(["pad 1", "pad 0", "pad 2", "pad 0"]);
  const told = (await sent(page, "device")).filter(({ input }) => input.device === "gamepads");
  assert.deepEqual(told.at(-1).input.values, [], "no gamepad is there");
  await context.close();
});

test("fingers walk, look and are told of", async () => {
  const { context, page } = await openAlone({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#enter").tap();
  await until(page, () => document.body.dataset.view === "world", "the landing page is left");
  await page.touchscreen.tap(300, 500);
  await untilSaid(page, ["fingers 1", "fingers 0"]);
  const client = await context.newCDPSession(page);
  const touch = (type, points) => client.send("Input.dispatchTouchEvent", { type, touchPoints: points });
  await touch("touchStart", [{ x: 300, y: 500 }]);
  await untilSaid(page, ["fingers 1", "fingers 0", "fingers 1"]);
  await touch("touchEnd", []);
  await untilSaid(page, ["fingers 1", "fingers 0", "fingers 1", "fingers 0"]);
  await touch("touchStart", [{ x: 100, y: 600 }]);
  await touch("touchMove", [{ x: 100, y: 540 }]);
  await untilPresent(page, (values) => values[2] < 5.8, "the user walks forward");
  await screenshot(page, "touch-stick");
  await touch("touchEnd", []);
  const [first, , second] = (await sent(page, "device")).filter(({ input }) => input.device === "touches").map(({ input }) => input.values);
  assert.notEqual(first[0], second[0], "each finger has a name of its own");
  await context.close();
});

test("hooks answer", async () => {
  const { context, page } = await openAlone();
  await page.evaluate(() => window.fake.play(3));
  assert.deepEqual(await page.evaluate(() => window.nearlight.summary()), { frames: { displayed: 1 } });
  await page.locator("#toggle-hud").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#save-events").click()]);
  assert.equal(download.suggestedFilename(), "nearlight-events.jsonl");
  assert.equal(await readFile(await download.path(), "utf8"), '{"event":"frame_lost"}\n');
  await page.evaluate(() => {
    window.nearlight.device({ device: "key", code: "KeyF", pressed: true });
    window.nearlight.send("text", { reliable: false });
    window.nearlight.setPose({ position: [1, 2, 3], yaw: 0.5 });
  });
  assert.deepEqual(await devices(page), ["KeyF down"]);
  const [{ data, reliable }] = await sent(page, "send");
  assert.deepEqual([Object.values(data).length, reliable], [4, false]);
  const tooLong = await page.evaluate(() => {
    try {
      window.nearlight.send("x".repeat(1_101), { reliable: false });
    } catch (error) {
      return String(error);
    }
  });
  assert.match(tooLong, /RangeError: a message has at most 1100 bytes/);
  await page.evaluate(() => {
    window.rumbles = [];
    navigator.getGamepads = () => [{
      connected: true, index: 2, id: "Made-up pad", mapping: "standard", timestamp: 0, axes: [], buttons: [],
      vibrationActuator: { playEffect: async (...effect) => void window.rumbles.push(effect) },
    }];
    window.fake.instance.say({ type: "haptics", haptics: { target: { gamepad: 2 }, milliseconds: 40, strong: 0.5, weak: 1 } });
    window.fake.instance.say({ type: "pointer", cursor: { image: { width: 1, height: 1, hotspot: [0, 0], rgba: "/wAA/w==" } }, captured: false });
  });
  assert.deepEqual(await page.evaluate(() => window.rumbles), [["dual-rumble", { duration: 40, strongMagnitude: 0.5, weakMagnitude: 1 }]]);
  assert.match(await page.evaluate(() => document.getElementById("stage").style.cursor), /^url\("data:image\/png.*\) 0 0, default$/);
  await untilPresent(page, ([x, y, z]) => x === 1 && y === 2 && z === 3, "the user stands where the hook puts them");
  assert.equal(await page.evaluate(() => window.nearlight.state), "live");
  await context.close();
});

test("late reprojection puts each eye's picture where the world is", async () => {
  const { context, page, errors } = await openAlone({}, emulateHeadset);
  await page.evaluate(() => window.fake.play(3));
  await page.locator("#landing-vr").click();
  await until(page, () => document.querySelector("canvas.headset"), "the session begins");
  await until(page, () => window.fake.received.some(({ type, immersive }) => type === "display" && immersive), "the server is told");
  const newest = async () => Object.values((await sent(page, "presence")).at(-1).values);
  await until(page, () => window.fake.received.filter(({ type }) => type === "presence").at(-1).values[7] === 2, "two views are asked for");
  const asked = await newest();
  const yaws = [0, 0.15, -0.2];
  for (const yaw of yaws) {
    const { bars, backgrounds } = await page.evaluate(showBar, { asked, yaw });
    for (const eye of [0, 1]) {
      const [left, right] = asked.slice(8 + eye * 11 + 7);
      // The page asked for 6 % more on each side than the eye sees.
      const margin = ((right - left) / 1.12) * 0.06;
      const tangent = Math.tan(Math.atan(0.2) + yaw);
      const expected = (tangent - left - margin) / (right - left - 2 * margin);
      assert.ok(Math.abs(bars[eye] - expected) < 0.01, `eye ${eye}, yaw ${yaw}: bar at ${bars[eye]}, expected at ${expected}`);
    }
    assert.deepEqual(backgrounds, ["red", "blue"], "each eye sees its own half");
    await screenshot(page, `reprojection-${yaw}`);
  }
  const frames = yaws.map((yaw) => 100 + yaw * 100);
  const reported = (last) => window.fake.received.some(({ type, frame }) => type === "shown" && frame === last);
  await until(page, reported, "the last picture is reported", { argument: frames.at(-1) });
  const shown = (await sent(page, "shown")).map(({ frame }) => frame);
  assert.deepEqual([...new Set(shown)], frames, "every picture was reported once it was drawn");
  assert.deepEqual(errors, []);
  await context.close();
});

/** Hands the page a picture with a white bar at tangent 0.2, rendered straight ahead, and finds the bar after turning the head. */
async function showBar({ asked, yaw }) {
  const [width, height] = [1024, 512];
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  for (const eye of [0, 1]) {
    const [left, right] = asked.slice(8 + eye * 11 + 7);
    const column = (eye + (0.2 - left) / (right - left)) * (width / 2);
    context.fillStyle = eye === 0 ? "#a00000" : "#0000a0";
    context.fillRect((eye * width) / 2, 0, width / 2, height);
    context.fillStyle = "#ffffff";
    context.fillRect(column - 2, 0, 4, height);
  }
  const views = Float32Array.from(asked.slice(8, 8 + 22));
  const { quaternion } = window.emulated;
  quaternion.set(0, Math.sin(yaw / 2), 0, Math.cos(yaw / 2));
  const frame = 100 + yaw * 100;
  window.fake.instance.say({ type: "frame", frame, picture: new VideoFrame(canvas, { timestamp: 0 }), crop: { height, marker: null }, views });
  for (let turn = 0; turn < 4; turn += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
  const bitmap = await createImageBitmap(document.querySelector("canvas.headset"));
  const copy = new OffscreenCanvas(bitmap.width, 1).getContext("2d");
  copy.drawImage(bitmap, 0, bitmap.height / 2, bitmap.width, 1, 0, 0, bitmap.width, 1);
  const { data } = copy.getImageData(0, 0, bitmap.width, 1);
  const half = bitmap.width / 2;
  const bars = [0, 1].map((eye) => {
    const bright = Array.from({ length: half }, (_, x) => x).filter((x) => data[(eye * half + x) * 4 + 1] > 100);
    return (bright.reduce((sum, x) => sum + x, 0) / bright.length + 0.5) / half;
  });
  const backgrounds = [0, 1].map((eye) => {
    const at = (eye * half + Math.round(half / 4)) * 4;
    return data[at] > data[at + 2] ? "red" : "blue";
  });
  return { bars, backgrounds };
}
