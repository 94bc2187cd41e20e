// Pages of Overview that stay open until this process ends, each as in a browser of its own: what a gateway that people
// watch has to bear.
//
//   tests/console/run FOLDER open_pages.mjs LINK N     LINK: what `tidegate console login` prints
import { chromium } from 'playwright-core';

const [link, count] = [process.argv[2], Number(process.argv[3])];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
const first = await browser.newContext();
const entered = await first.newPage();
await entered.goto(link);
await entered.locator('.rail').waitFor();
const storageState = await first.storageState();
await first.close();
for (let i = 0; i < count; ++i) {
  const context = await browser.newContext({ storageState });
  const page = await context.newPage();
  await page.goto(new URL('/', link).href);
  await page.locator('.rail').waitFor();
}
console.log(`${count} pages are open`);
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => void browser.close().finally(() => process.exit(0)));
setInterval(() => {}, 60_000);
