// What people do for each other in the console: keys, roles, tenants, requests; and what a page does when they change.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertClean, assertFitsAPhone, barriers } from './support/browser.mjs';
import { eventually } from './support/gateway.mjs';
import { asAnother, gateway, openConsole, page } from './support/opened.mjs';

const SELF = 'person:cli:'; // and the user who runs the tests, who is signed in by links

let own;

openConsole({ scaled: false }, async () => {
  own = (await gateway.call('/admin/v1/sessions')).data[0].actor;
  assert.ok(own.startsWith(SELF));
  for (const path of ['trial', 'trial/deep']) {
    const at = path.lastIndexOf('/');
    await gateway.call('/admin/v1/tenants', { parent: at < 0 ? 'demo' : `demo/${path.slice(0, at)}`, name: path.slice(at + 1) });
  }
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

test('usage tells device time of no tenant apart from the tenants', async () => {
  const row = (tenant, seconds) => ({ tenant, requests: 1, errors: 0, failed: 0, input_tokens: 10, cached_tokens: 0, output_tokens: 10, cost_micro_usd: 5_000_000, device_seconds: { h100: seconds } });
  const data = [row('(idle)', 600), row('demo/research', 60), row('demo/search/deep', 60), row('demo/search/wide', 60)];
  await page.route(/\/admin\/v1\/usage\?.*by=tenant/, (route) => route.fulfill({ json: { object: 'list', data, has_more: false } }));
  try {
    await page.show('/usage');
    await page.getByRole('heading', { name: '2 tenants of demo' }).waitFor();
    await page.getByRole('row', { name: '(idle) devices that no tenant held' }).waitFor();
    assert.equal(await page.getByRole('row', { name: 'demo/search' }).locator('td[data-name="Money"]').textContent(), '$10.00');
    assertClean(page, 'usage');
  } finally {
    await page.unrouteAll();
  }
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
  await asAnother(['--role', 'member', '--tenant', 'demo/research'], async (view) => {
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
  });
});

test('a lead of a tenant made at run time signs in by a link, and sees that tenant alone', async () => {
  await assert.rejects(gateway.signInLink('--role', 'lead', '--tenant', 'demo/nothing'), /unknown tenant "demo\/nothing"/);
  await asAnother(['--role', 'lead', '--tenant', 'demo/trial'], async (view) => {
    await view.show('/tenants');
    await view.getByRole('button', { name: 'demo/trial', exact: true }).waitFor();
    assert.equal(await view.getByText('demo/research').count(), 0);
    assertClean(view, 'a lead of a tenant made at run time');
  });
});

test('the sign-in page tells why a link did not work, and shows no text of an address', async () => {
  await asAnother(null, async (view, theirs) => {
    const link = await gateway.signInLink();
    await view.goto(link);
    await view.locator('.rail').waitFor();
    await theirs.context.clearCookies();
    await view.goto(link);
    await view.getByRole('alert').getByText('This link was used already, or is older than a minute.').waitFor();
    assert.deepEqual(await barriers(view), []);
    for (const made of ['Call 555 0100 to unlock your account', 'constructor', '__proto__', '<b>no_role</b>']) {
      await view.goto(`${gateway.admin}/sign-in?problem=${encodeURIComponent(made)}`);
      await view.getByRole('heading', { name: 'Sign in to Tidegate' }).waitFor();
      assert.equal(await view.getByRole('alert').count(), 0, made);
      assert.ok(!(await view.locator('body').textContent()).includes(made), made);
    }
  });
});

test('a lead changes the limits of a tenant made at run time, and is told which limit is too high', async () => {
  await gateway.call('/admin/v1/tenants', { parent: 'demo', name: 'limited', limits: { requests_per_minute: 60, budget: { usd: 5, tokens: 100_000, period: 'week' } } });
  await asAnother(['--role', 'lead', '--tenant', 'demo'], async (view) => {
    await view.show('/tenants?open=tenant:demo/limited');
    await view.locator('.drawer').getByRole('button', { name: 'Change the limits' }).click();
    const dialog = view.getByRole('dialog');
    const field = (label) => dialog.getByLabel(label, { exact: true });
    assert.equal(await field('Requests a minute').inputValue(), '60');
    assert.equal(await field('Budget of tokens').inputValue(), '100000');
    assert.equal(await field('Its period').inputValue(), 'week');
    assert.deepEqual(await barriers(view), []);
    await assertFitsAPhone(view);
    await field('Requests at once').fill('1.5');
    await dialog.getByText('A whole number, such as 600').waitFor();
    assert.ok(await dialog.getByRole('button', { name: 'Change the limits' }).isDisabled());
    await field('Requests at once').fill('4');
    await field('Requests a minute').fill('601');
    await dialog.getByRole('button', { name: 'Change the limits' }).click();
    await dialog.locator('.field', { has: view.getByLabel('Requests a minute', { exact: true }) }).getByText('requests_per_minute is more than demo has: at most 600').waitFor();
    assert.equal(await dialog.getByRole('alert').count(), 0, 'it stands at its field alone');
    await field('Requests a minute').fill('600');
    await field('Budget in US dollars').fill('');
    await dialog.getByRole('button', { name: 'Change the limits' }).click();
    await dialog.waitFor({ state: 'detached' });
    await view.locator('.drawer').getByText('600 requests per minute').waitFor();
    const { limits } = (await gateway.call('/admin/v1/tenants')).data.find((each) => each.path === 'demo/limited');
    assert.deepEqual(limits, { budget: { period: 'week', tokens: 100_000 }, concurrency: 4, requests_per_minute: 600 });
    view.problems = view.problems.filter((each) => !/status of 400/.test(each)); // Chromium reports each refused call
    assertClean(view, 'a lead');
  });
});

// The session that began last ends, as by somebody who ends it elsewhere.
async function endLastSession() {
  const { data } = await gateway.call('/admin/v1/sessions');
  const [{ id }] = data.toSorted((one, other) => Date.parse(other.created) - Date.parse(one.created));
  assert.equal((await gateway.call(`/admin/v1/sessions/${id}:end`, {})).error, undefined);
}

const LEAD = ['--role', 'lead', '--tenant', 'demo'];

// A lead has typed a request when their session ends.
async function typeUntilTheSessionEnds(view) {
  await view.show('/requests?new=request');
  await view.getByLabel('What', { exact: true }).selectOption('requests_per_minute');
  await view.getByLabel('The new amount').fill('512');
  await view.getByLabel('What for').fill('a long explanation');
  await endLastSession();
  await view.getByText('Your session has ended.').waitFor({ timeout: 60_000 });
  await view.getByText('What you have typed is kept until then.').waitFor();
}

for (const [how, back] of [['in another tab', (view) => view.evaluate(() => dispatchEvent(new Event('visibilitychange')))], ['on the same page', (view) => view.reload()]]) {
  test(`a form that was typed into is as it was when its person signed in again ${how}`, async () => {
    await asAnother(LEAD, async (view, theirs) => {
      await typeUntilTheSessionEnds(view);
      await theirs.signIn(gateway, ...LEAD);
      await back(view);
      await view.getByRole('dialog').waitFor();
      assert.equal(await view.getByLabel('The new amount').inputValue(), '512');
      assert.equal(await view.getByLabel('What for').inputValue(), 'a long explanation');
      await view.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
      await view.getByRole('button', { name: 'Ask for more' }).click();
      assert.equal(await view.getByLabel('What for').inputValue(), '', 'a form that is opened later is empty');
    });
  });
}

test('what one person typed is not for another who signs in after them', async () => {
  await asAnother(LEAD, async (view, theirs) => {
    await typeUntilTheSessionEnds(view);
    const other = await theirs.context.newPage();
    await other.goto((await gateway.call('/admin/v1/sign-in:link', {})).url);
    await other.locator('.rail').waitFor();
    await view.evaluate(() => dispatchEvent(new Event('visibilitychange')));
    await view.getByRole('dialog').waitFor();
    await view.getByLabel('What', { exact: true }).selectOption('requests_per_minute');
    assert.equal(await view.getByLabel('The new amount').inputValue(), '');
    assert.equal(await view.getByLabel('What for').inputValue(), '');
    assert.equal(await view.evaluate(() => JSON.stringify(sessionStorage)), '{}');
  });
});

test('a key that was pasted is not kept over the end of a session', async () => {
  await asAnother(LEAD, async (view) => {
    await view.show('/start');
    await view.getByLabel('Your key').fill('tg-not-to-be-kept');
    await endLastSession();
    await view.getByText('Your session has ended.').waitFor({ timeout: 60_000 });
    assert.equal(await view.evaluate(() => JSON.stringify(sessionStorage)), '{}');
  });
});

test('a sign-in page that the gateway did not answer goes on by itself', async () => {
  await asAnother(null, async (view, theirs) => {
    await theirs.context.route('**/admin/v1/sign-in', (route) => route.abort());
    await view.goto(`${gateway.admin}/sign-in`);
    await view.getByText('The gateway does not answer. This page tries again by itself.').waitFor();
    await theirs.context.unroute('**/admin/v1/sign-in');
    await view.getByText('tidegate console login').waitFor();
    assert.equal(await view.getByRole('alert').count(), 0);
  });
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
