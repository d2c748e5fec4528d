import { chromium } from "playwright-core";
const [,, url, secs] = process.argv;
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--headless=new","--no-sandbox","--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await page.goto(url); await page.waitForFunction(() => window.nearlight?.state === "live");
await page.locator("#enter").click();
for (let i = 0; i < secs; i += 2) { await page.waitForTimeout(2000);
 console.log(i+2, await page.evaluate(() => JSON.stringify(window.nearlight.statistics?.sound))); }
await browser.close();
