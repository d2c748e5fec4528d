// Takes the README's picture, docs/picture.png: node tests/picture.mjs [OPTIONS OF nearlight serve]
// Run it on a machine that does nothing else: the picture shows how long everything took.

import path from "node:path";
import { lookAround, openBrowser, openPage, startServer, until } from "./helper.mjs";

const options = process.argv.slice(2);
const server = await startServer({ more: options.length > 0 ? options : ["--size", "1280x720", "--fps", "30"] });
const browser = await openBrowser();
try {
  const { page } = await openPage(browser);
  await page.setViewportSize({ width: 1280, height: 720 });
  await page.goto(server.url);
  await until(page, () => window.nearlight?.statistics?.displayed > 30, "frames are displayed");
  await page.getByText("Step inside").click();
  await page.keyboard.press("h");
  // Until the start has left the panel's graphs.
  await lookAround(page, 28);
  await page.screenshot({ path: path.join(import.meta.dirname, "../../docs/picture.png") });
} finally {
  await browser.close();
  await server.stop();
}
