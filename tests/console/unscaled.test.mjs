// The console of a gateway that scales nothing: most of them, on their first day.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertClean, assertFitsAPhone, barriers } from './support/browser.mjs';
import { openConsole, page } from './support/opened.mjs';

openConsole({ scaled: false });

// Chromium reports each refused call.
const refusedCalls = () => page.problems.filter((each) => /status of 409/.test(each));

test('pages of the cluster are not offered, and their addresses say what is missing', async () => {
  await page.show('/');
  assert.deepEqual(await page.locator('.rail-link:not(.rail-more)').allTextContents(),
    ['Overview', 'Gateways', 'Models', 'Playground', 'Keys', 'Usage and cost', 'Evaluations', 'Budgets and limits', 'Requests', 'Tenants', 'Audit', 'Get started']);
  for (const [path, name] of [['/cluster', 'Cluster'], ['/queues?new=job', 'Queues and jobs'], ['/what-if', 'What-if']]) {
    await page.show(path);
    await page.getByRole('heading', { level: 1, name }).waitFor();
    await page.getByText('has no section scaling').waitFor();
    assert.deepEqual(await barriers(page), [], path);
    await assertFitsAPhone(page);
  }
  await page.getByRole('link', { name: 'Go to Overview' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.show('/requests?new=request');
  assert.deepEqual(await page.getByLabel('What', { exact: true }).locator('option[value="devices"]').count(), 0, 'there are no devices to ask for');
});

test('nothing is called that the gateway refuses', async () => {
  await page.show('/');
  page.problems = [];
  await page.show('/');
  await page.keyboard.press('/');
  await page.getByRole('combobox').fill('chat');
  await page.getByRole('option', { name: /chat-small/ }).waitFor();
  assert.deepEqual(refusedCalls(), []);
  assertClean(page, 'unscaled');
});

test('an endpoint that is down is told on Overview and on Models', async () => {
  await page.show('/');
  const verdict = page.locator('.verdict');
  await verdict.getByText('no endpoint of chat-small is up').waitFor();
  assert.match(await verdict.getAttribute('class'), /\bact\b/);
  await page.getByRole('row', { name: 'chat-small' }).getByText('down').waitFor();
  await page.show('/models');
  await page.getByRole('row', { name: 'chat-small' }).getByText('0 of 1').waitFor();
  await page.getByRole('button', { name: 'chat-small' }).click();
  await page.locator('.drawer').getByRole('heading', { name: 'Endpoints' }).waitFor();
  await page.locator('.drawer').getByText('http://127.0.0.1:9', { exact: true }).waitFor();
  assert.deepEqual(await barriers(page), []);
});
