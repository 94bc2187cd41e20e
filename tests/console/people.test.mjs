// What people do for each other in the console: keys, roles, tenants, requests; and what a page does when they change.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, assertClean, barriers } from './support/browser.mjs';
import { Gateway, eventually } from './support/gateway.mjs';

const SELF = 'person:cli:'; // and the user who runs the tests, who is signed in by links

let gateway;
let browser;
let page;
let own;

before(async () => {
  [gateway, browser] = await Promise.all([Gateway.start({ scaled: false }), Browser.start()]);
  await browser.signIn(gateway);
  page = await browser.open(gateway);
  own = (await gateway.call('/admin/v1/sessions')).data[0].actor;
  assert.ok(own.startsWith(SELF));
  for (const path of ['trial', 'trial/deep']) {
    const at = path.lastIndexOf('/');
    await gateway.call('/admin/v1/tenants', { parent: at < 0 ? 'demo' : `demo/${path.slice(0, at)}`, name: path.slice(at + 1) });
  }
});
after(async () => {
  await browser?.stop();
  await gateway?.stop();
});

test('a key that is shown once stays until it was copied', async () => {
  await page.show('/keys?new=key');
  await page.getByLabel('Name').fill('shown-once');
  await page.getByRole('button', { name: 'Make the key' }).click();
  const secret = page.locator('.secret code');
  await secret.waitFor();
  await page.mouse.click(5, 5);
  await page.keyboard.press('Escape');
  assert.ok(await secret.isVisible());
  // A selection that ends outside of the dialog.
  const box = await secret.boundingBox();
  await page.mouse.move(box.x + 4, box.y + 4);
  await page.mouse.down();
  await page.mouse.move(5, 5);
  await page.mouse.up();
  assert.ok(await secret.isVisible());
  await page.getByRole('button', { name: 'I have copied it' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assertClean(page, 'keys');
});

test('a form stays while one selects its text, and a click beside it closes it', async () => {
  await page.show('/keys?new=key');
  const field = page.getByLabel('Name');
  await field.fill('a long name of a key');
  const box = await field.boundingBox();
  await page.mouse.move(box.x + 60, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(5, box.y);
  await page.mouse.up();
  assert.equal(await field.inputValue(), 'a long name of a key');
  await page.mouse.click(5, 5);
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

test('a request stays open when it was decided, and its address works later', async () => {
  const asked = await gateway.call('/admin/v1/requests', { tenant: 'demo/research', limits: { requests_per_minute: 500 }, until: '2h', reason: 'a test on Friday' });
  await page.show(`/requests?open=request:${asked.id}`);
  const drawer = page.locator('.drawer');
  await drawer.getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
  await drawer.getByText('approved').first().waitFor();
  await page.show(`/requests?open=request:${asked.id}`);
  await drawer.getByText('a test on Friday').first().waitFor();
  await page.show('/requests?open=request:rq_0');
  await drawer.getByText('No request that you may see has this id').waitFor();
  assert.deepEqual(await barriers(page), []);
  await page.show('/');
  await page.getByText('demo/research gets what it asked for').waitFor();
  assertClean(page, 'requests');
});

test('a limit of a key names the key', async () => {
  const { id } = await gateway.call('/admin/v1/keys', { tenant: 'demo/research', name: 'nightly', limits: { budget: { usd: 5, period: 'day' }, concurrency: 4 } });
  await page.show('/limits');
  await page.locator('.budgets').getByText('nightly').waitFor();
  await page.getByRole('row', { name: /demo\/research key nightly/ }).waitFor();
  await page.locator('.budgets').getByRole('link', { name: 'The key' }).click();
  await page.locator('.drawer').getByText('$5.00 a day, 4 requests at once').waitFor();
  assert.match(page.url(), new RegExp(`open=key%3A${id}`));
  assertClean(page, 'limits');
});

test('how a table is sorted and filtered is in its address', async () => {
  await page.show('/keys');
  const first = page.locator('tbody tr').first();
  const head = page.getByRole('columnheader', { name: /^Key/ }).getByRole('button');
  await head.click();
  await head.click();
  await first.getByText('tests').waitFor();
  const address = page.url();
  await page.getByRole('link', { name: 'Models' }).click();
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  await page.goBack();
  await first.getByText('tests').waitFor();
  assert.equal(page.url(), address);
  await page.show('/models?find=nothing');
  await page.getByText('No model has “nothing” in its name').waitFor();
  assertClean(page, 'sorted');
});

test('a role counts on an open page from its beginning, and a lead is offered no change of the own tenant', async () => {
  const theirs = await Browser.start();
  try {
    await theirs.signIn(gateway, '--role', 'member', '--tenant', 'demo/research');
    const view = await theirs.open(gateway);
    await view.show('/models');
    assert.equal(await view.getByRole('link', { name: 'Tenants' }).count(), 0);
    await gateway.call('/admin/v1/members', { tenant: 'demo/trial', who: own, role: 'lead' });
    await view.getByRole('link', { name: 'Tenants' }).click({ timeout: 30_000 });
    await view.getByRole('button', { name: 'demo/trial', exact: true }).click();
    const drawer = view.locator('.drawer');
    await drawer.getByLabel('Who').waitFor();
    for (const name of ['Disable', 'Remove']) assert.equal(await drawer.getByRole('button', { name, exact: true }).count(), name === 'Remove' ? 1 : 0, name); // the one of the member
    await view.getByRole('button', { name: 'demo/trial/deep' }).click();
    await drawer.getByRole('button', { name: 'Disable' }).waitFor();
    await view.getByRole('button', { name: 'demo/research' }).click();
    await drawer.getByText('configuration file').waitFor();
    assert.equal(await drawer.getByLabel('Who').count(), 0, 'a member adds nobody');
    // What was made a moment ago is offered, too.
    await gateway.call('/admin/v1/tenants', { parent: 'demo/trial', name: 'new' });
    await view.show('/requests');
    await gateway.call('/admin/v1/tenants', { parent: 'demo/trial', name: 'newer' });
    await view.getByRole('button', { name: 'Ask for more' }).click();
    await eventually('the tenant is offered', async () => (await view.getByLabel('For the tenant').locator('option').allTextContents()).includes('demo/trial/newer'));
    await gateway.call('/admin/v1/members:remove', { tenant: 'demo/trial', who: own });
    await view.getByRole('link', { name: 'Tenants' }).waitFor({ state: 'detached', timeout: 30_000 });
    assertClean(view, 'a member who becomes a lead');
  } finally {
    await theirs.stop();
  }
});

test('a lead of a tenant made at run time signs in by a link, and sees that tenant alone', async () => {
  await assert.rejects(gateway.signInLink('--role', 'lead', '--tenant', 'demo/nothing'), /unknown tenant "demo\/nothing"/);
  const theirs = await Browser.start();
  try {
    await theirs.signIn(gateway, '--role', 'lead', '--tenant', 'demo/trial');
    const view = await theirs.open(gateway);
    await view.show('/tenants');
    await view.getByRole('button', { name: 'demo/trial', exact: true }).waitFor();
    assert.equal(await view.getByText('demo/research').count(), 0);
    assertClean(view, 'a lead of a tenant made at run time');
  } finally {
    await theirs.stop();
  }
});

test('a sign-in page that the gateway did not answer goes on by itself', async () => {
  const theirs = await Browser.start();
  try {
    const view = await theirs.open(gateway);
    await theirs.context.route('**/admin/v1/sign-in', (route) => route.abort());
    await view.goto(`${gateway.admin}/sign-in`);
    await view.getByText('The gateway does not answer. This page tries again by itself.').waitFor();
    await theirs.context.unroute('**/admin/v1/sign-in');
    await view.getByText('tidegate console login').waitFor();
    assert.equal(await view.getByRole('alert').count(), 0);
  } finally {
    await theirs.stop();
  }
});

test('a gateway that takes connections and answers none is told, and the page goes on when it answers', async () => {
  await page.show('/keys');
  gateway.process.kill('SIGSTOP');
  try {
    await page.getByText(/The gateway does not answer. This page is as of/).waitFor({ timeout: 60_000 });
  } finally {
    gateway.process.kill('SIGCONT');
  }
  await page.locator('.banner').waitFor({ state: 'detached' });
  await gateway.call('/admin/v1/keys', { tenant: 'demo/research', name: 'made-after-that' });
  await page.getByText('made-after-that').waitFor();
});
