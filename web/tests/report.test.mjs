// A report of the lab, opened from its file: rows sort by a column's head, and their names stay in sight.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { binary, openBrowser, openPage } from "./helper.mjs";

const PLAN = `
question = "Does it sort?"
seeds = 2
[all]
duration = "4s"
warm_up = "1s"
controllers = ["fixed", "gcc-libwebrtc", "scream-v2"]
[all.source]
start = "30mbit"
maximum = "30mbit"
[[all.path]]
name = "home"
forward = "rate=12mbit,queue=50ms,delay=5ms"
feedback = "delay=5ms"
`;

let browser;
let folder;

function nearlight(...args) {
  const { status, stderr } = spawnSync(binary, args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
}

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "nearlight-report-"));
  const plan = path.join(folder, "sorted.toml");
  await writeFile(plan, PLAN);
  nearlight("lab", "run", plan, "--out", folder);
  nearlight("lab", "report", folder);
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

async function openReport(viewport) {
  const opened = await openPage(browser, { viewport });
  await opened.page.goto(pathToFileURL(path.join(folder, "report.html")).href);
  return opened;
}

/** The first table's row names, and the numbers of one of its columns. */
const rows = (page, column) =>
  page.evaluate((column) => {
    const all = [...document.querySelector("table.sortable").tBodies[0].rows];
    return all.map((row) => [row.cells[0].textContent, Number(row.cells[column].dataset.value)]);
  }, column);

test("a table sorts by a click on a column's head, the better end first", async () => {
  const { context, page, errors } = await openReport();
  const values = async (column) => (await rows(page, column)).map(([, value]) => value);
  const falling = (list) => [...list].sort((one, other) => other - one);
  assert.deepEqual((await rows(page, 1)).map(([name]) => name), ["fixed", "gcc-libwebrtc", "scream-v2"]);
  await page.getByRole("button", { name: /^shown in time/ }).click();
  assert.deepEqual(await values(1), falling(await values(1)), "higher is better");
  assert.equal((await rows(page, 1)).at(-1)[0], "fixed", "who floods the link shows the fewest frames in time");
  await page.getByRole("button", { name: /^time in stalls/ }).click();
  assert.deepEqual(await values(3), falling(await values(3)).reverse(), "lower is better");
  await page.getByRole("button", { name: /^time in stalls/ }).click();
  assert.deepEqual(await values(3), falling(await values(3)), "once more turns it round");
  assert.deepEqual(errors, []);
  await context.close();
});

test("the whole head of a column sorts, not only its words", async () => {
  const { context, page } = await openReport();
  const head = page.locator("table.sortable th", { hasText: /^utility/ }).first();
  const { width } = await head.boundingBox();
  await head.click({ position: { x: width - 3, y: 3 } });
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  await context.close();
});

test("a table sorts by the keyboard and tells assistive technology", async () => {
  const { context, page } = await openReport();
  const head = page.getByRole("columnheader", { name: /^Controller/ }).first();
  const order = async () => (await rows(page, 1)).map(([name]) => name);
  await head.getByRole("button").focus();
  await page.keyboard.press("Enter");
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  assert.deepEqual(await order(), ["fixed", "gcc-libwebrtc", "scream-v2"]);
  await page.keyboard.press("Space");
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  assert.deepEqual(await order(), ["scream-v2", "gcc-libwebrtc", "fixed"]);
  await context.close();
});

test("names of rows stay in sight when a table is scrolled sideways", async () => {
  for (const width of [1280, 390]) {
    const { context, page } = await openReport({ width, height: 800 });
    const found = await page.evaluate(() => {
      const table = document.querySelector("table.sortable");
      const frame = table.closest(".scroll");
      frame.scrollIntoView({ behavior: "instant" });
      frame.scrollLeft = frame.scrollWidth;
      const [box, name] = [frame, table.tBodies[0].rows[1].cells[0]].map((part) => part.getBoundingClientRect());
      const top = document.elementFromPoint(name.left + 4, name.top + name.height / 2);
      return { scrolled: frame.scrollLeft, left: name.left - box.left, share: name.width / box.width, top: top?.tagName };
    });
    assert.ok(found.scrolled > 100, `nothing to scroll at ${width}`);
    assert.ok(Math.abs(found.left) < 1, `the name begins ${found.left} px from the edge`);
    assert.equal(found.top, "TH", "figures do not cover the name");
    assert.ok(found.share < 0.5, `the names take ${found.share} of a page ${width} px wide`);
    await context.close();
  }
});
