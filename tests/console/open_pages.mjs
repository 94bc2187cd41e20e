// Opens Overview in so many pages of one browser, and keeps them open until it is ended; says `open` when all show it.
//
//   tests/console/run FOLDER open_pages.mjs LINK PAGES      LINK: as `tidegate console login` prints it
import { Browser } from './support/browser.mjs';

const [link, pages] = process.argv.slice(2);
const gateway = { admin: new URL(link).origin, signInLink: async () => link };
const browser = await Browser.start();
process.once('SIGTERM', async () => {
  await browser.stop();
  process.exit(0);
});
await browser.signIn(gateway);
for (let i = 0; i < Number(pages); ++i) {
  const page = await browser.open(gateway);
  await page.show('/');
}
console.log('open');
setInterval(() => undefined, 60_000);
