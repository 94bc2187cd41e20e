// Pages of Overview that stay open until this process ends: what a gateway that people watch has to bear.
//
//   tests/console/run FOLDER open_pages.mjs LINK N     LINK: what `tidegate console login` prints
import { Browser } from './support/browser.mjs';

const [link, count] = [process.argv[2], Number(process.argv[3])];
const gateway = { admin: new URL(link).origin, signInLink: async () => link };
const browser = await Browser.start();
await browser.signIn(gateway);
for (let i = 0; i < count; ++i) {
  const page = await browser.open(gateway);
  await page.show('/');
}
console.log(`${count} pages are open`);
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => void browser.stop().finally(() => process.exit(0)));
setInterval(() => {}, 60_000);
