// Every page, light and dark, wide and narrow, as PNG files: what changes of the design are judged by. With `docs`, each page
// wide, small enough for docs/console.md.
//
//   tests/console/run FOLDER screenshots.mjs OUT [docs]
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Browser } from './support/browser.mjs';
import { Gateway } from './support/gateway.mjs';
import { PAGES, VIEWS } from './support/pages.mjs';

const out = resolve(process.env.CALLED_FROM ?? '.', process.argv[2] ?? 'screenshots');
const forDocs = process.argv[3] === 'docs';
const SIZES = forDocs ? [['', 1100, 700]] : [['', 1280, 860], ['-narrow', 390, 844]];
const SHOWN = forDocs ? VIEWS.filter(([, path]) => PAGES.includes(`${path}`.split('?')[0])).filter(([, path]) => !/[?](open|new)=/.test(path)) : VIEWS;
const FORM = forDocs ? { type: 'jpeg', quality: 60 } : { type: 'png' };

await mkdir(out, { recursive: true });
const gateway = await Gateway.start({ tuned: !forDocs });
try {
  await gateway.use(40);
  void gateway.chat('chat-large');
  const of = { node: (await gateway.call('/admin/v1/nodes')).data[0].name, job: (await gateway.call('/admin/v1/jobs?state=open')).data[0].id, evaluation: await gateway.evaluate() };
  for (const [suffix, width, height] of SIZES) {
    const browser = await Browser.start({ width, height });
    await browser.signIn(gateway);
    const page = await browser.open(gateway);
    for (const [name, path] of SHOWN) {
      await page.show(typeof path === 'string' ? path : path(of));
      for (const colours of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme: colours });
        await page.waitForTimeout(600);
        await page.screenshot({ ...FORM, path: join(out, `${name}${suffix}-${colours}.${FORM.type}`) });
      }
      for (const problem of page.problems.splice(0)) console.log(`${name}: ${problem}`);
    }
    await browser.stop();
  }
  console.log(`${SHOWN.length * SIZES.length * 2} pictures are in ${out}`);
} finally {
  await gateway.stop();
}
