// Chromium, as a person uses it: one who is signed in, and whose pages are watched for what must not happen.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { eventually } from './gateway.mjs';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// With PAGES, the pages of a folder (gateway/console/web/dist) in place of the binary's: a page can be changed and tried
// without a build of the gateway.
async function fromFolder(route) {
  const { pathname } = new URL(route.request().url());
  const call = ['/admin/', '/sign-in/', '/livez', '/readyz', '/metrics'].some((prefix) => pathname.startsWith(prefix));
  if (call) return route.fallback();
  if (!pathname.startsWith('/assets/')) return route.fulfill({ contentType: 'text/html', body: readFileSync(join(process.env.PAGES, 'index.html')) });
  const path = join(process.env.PAGES, pathname);
  const types = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
  return existsSync(path) ? route.fulfill({ contentType: types[path.split('.').pop()], body: readFileSync(path) }) : route.fallback();
}

export class Browser {
  static async start({ width = 1280, height = 860, colours = 'light' } = {}) {
    const browser = new Browser();
    browser.folder = await mkdtemp(join(tmpdir(), 'tidegate-chromium-'));
    browser.context = await chromium.launchPersistentContext(browser.folder, {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: FLAGS, viewport: { width, height }, colorScheme: colours,
      timezoneId: 'Europe/Berlin', locale: 'en-GB', reducedMotion: 'reduce',
    });
    browser.context.setDefaultTimeout(40_000);
    if (process.env.PAGES) await browser.context.route('**', fromFolder);
    return browser;
  }

  // A page of whoever is signed in here. Its problems are collected in page.problems.
  async open(gateway) {
    const page = await this.context.newPage();
    page.problems = [];
    page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) page.problems.push(`console: ${message.text()}`); });
    page.on('pageerror', (error) => page.problems.push(`error: ${error.stack}`));
    page.on('dialog', (dialog) => { page.problems.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      if (!['data:', 'blob:'].includes(protocol) && origin !== gateway.admin) page.problems.push(`a request to ${request.url()}`);
    });
    page.show = async (path) => {
      await page.goto(`${gateway.admin}${path}`);
      await page.locator('main').first().waitFor();
      await page.waitForFunction(() => document.querySelectorAll('.loading').length === 0 && document.querySelector('main').textContent.length > 0);
    };
    return page;
  }

  // Signs in by a link, as `tidegate console login` prints it; who is signed in already is signed out.
  async signIn(gateway, ...flags) {
    await this.context.clearCookies();
    const page = await this.context.newPage();
    await page.goto(await gateway.signInLink(...flags));
    await page.locator('.rail').waitFor();
    await page.close();
  }

  async stop() {
    await this.context.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

// What axe finds that keeps people out.
export async function barriers(page) {
  // The page's policy forbids scripts in the document; this one comes from outside of it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return violations.filter((each) => ['serious', 'critical'].includes(each.impact))
    .map((each) => `${each.id}: ${each.help}: ${each.nodes.slice(0, 4).map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

export function assertClean(page, where) {
  assert.deepEqual(page.problems, [], where);
}

export async function assertFitsAPhone(page) {
  const usual = page.viewportSize();
  const width = () => page.evaluate(() => document.scrollingElement.scrollWidth);
  await page.setViewportSize({ width: 390, height: 844 });
  try {
    // What is drawn to measure is drawn anew a frame after its page became narrow.
    await eventually('the page has become narrow', async () => (await width()) <= 390, 5_000)
      .catch(async () => assert.fail(`at 390 px the page is ${await width()} px wide`));
  } finally {
    await page.setViewportSize(usual);
  }
}
