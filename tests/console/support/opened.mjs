// The gateway of a test file, and the browser and page of an admin: opened before its tests, closed after them.
import { after, before } from 'node:test';
import { Browser } from './browser.mjs';
import { Gateway } from './gateway.mjs';

export let gateway;
export let browser;
export let page;

// `options`: those of Gateway.start. `prepare` is called once all are there.
export function openConsole(options, prepare = async () => {}) {
  before(async () => {
    [gateway, browser] = await Promise.all([Gateway.start(options), Browser.start()]);
    await browser.signIn(gateway);
    page = await browser.open(gateway);
    await prepare();
  });
  after(async () => {
    await browser?.stop();
    await gateway?.stop();
  });
}

// What somebody else sees in a browser of their own; `flags` as of `tidegate console login`. None: they are not signed in.
export async function asAnother(flags, use) {
  const theirs = await Browser.start();
  try {
    if (flags) await theirs.signIn(gateway, ...flags);
    await use(await theirs.open(gateway), theirs);
  } finally {
    await theirs.stop();
  }
}
