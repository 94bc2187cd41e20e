// The console in Chromium, against the real gateway with its engines.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync, brotliDecompressSync } from 'node:zlib';
import { get as httpGet } from 'node:http';
import { assertClean, assertFitsAPhone, barriers } from './support/browser.mjs';
import { eventually } from './support/gateway.mjs';
import { asAnother, browser, gateway, openConsole, page } from './support/opened.mjs';
import { PAGES } from './support/pages.mjs';

const BUDGET = 150_000; // bytes of compressed scripts and styles
const MOST_ELEMENTS = 20_000; // 10,000 rows whole would be three times as many

openConsole({ tuned: true }, () => gateway.use());

// An answer as it is on the wire: fetch would decompress it.
function raw(path, headers = {}, method = 'GET') {
  return new Promise((resolve, reject) => {
    httpGet(`${gateway.admin}${path}`, { headers, method }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) }));
    }).on('error', reject);
  });
}

async function assets() {
  const html = (await raw('/')).body.toString();
  return [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map((match) => match[1]);
}

test('the document forbids scripts and styles that are not the console\'s own', async () => {
  const { status, headers, body } = await raw('/');
  assert.equal(status, 200);
  assert.match(headers['content-type'], /^text\/html/);
  assert.match(headers['content-security-policy'], /default-src 'self';/);
  assert.doesNotMatch(headers['content-security-policy'], /unsafe/);
  assert.match(headers['content-security-policy'], /frame-ancestors 'none'/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['referrer-policy'], 'no-referrer');
  assert.equal(headers['cache-control'], 'no-cache');
  assert.doesNotMatch(body.toString(), /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/);
});

test('each page has an address of its own, and other paths stay the API\'s', async () => {
  for (const path of [...PAGES, '/sign-in', '/models/anything']) assert.equal((await raw(path)).status, 200, path);
  for (const path of ['/nothing', '/assets/nothing.js', '/index.html']) assert.equal((await raw(path)).status, 404, path);
  const head = await raw('/', {}, 'HEAD');
  assert.equal(head.status, 200);
  assert.equal(head.body.length, 0);
  assert.equal((await raw('/livez')).headers['content-type'], 'application/json');
});

test('files are compressed, and stay in the browser\'s cache for as long as they do not change', async () => {
  for (const path of ['/', ...await assets()]) {
    const plain = await raw(path);
    const gzip = await raw(path, { 'accept-encoding': 'gzip, deflate' });
    const brotli = await raw(path, { 'accept-encoding': 'gzip, deflate, br' });
    assert.equal(plain.headers['content-encoding'], undefined);
    assert.deepEqual(gunzipSync(gzip.body), plain.body);
    assert.deepEqual(brotliDecompressSync(brotli.body), plain.body);
    assert.equal((await raw(path, { 'accept-encoding': 'br;q=0, gzip;q=0' })).headers['content-encoding'], undefined);
    const same = await raw(path, { 'accept-encoding': 'br', 'if-none-match': `"other", ${brotli.headers.etag}` });
    assert.equal(same.status, 304);
    assert.equal(same.body.length, 0);
    if (path !== '/') assert.match(brotli.headers['cache-control'], /immutable/);
  }
});

test(`scripts and styles take at most ${BUDGET / 1000} kB`, async (t) => {
  const sizes = { br: 0, gzip: 0 };
  for (const path of (await assets()).filter((each) => /\.(js|css)$/.test(each))) {
    for (const coding of Object.keys(sizes)) sizes[coding] += (await raw(path, { 'accept-encoding': coding })).body.length;
  }
  t.diagnostic(`brotli ${(sizes.br / 1000).toFixed(1)} kB, gzip ${(sizes.gzip / 1000).toFixed(1)} kB`);
  assert.ok(sizes.gzip <= BUDGET && sizes.br <= BUDGET);
});

test('the pages fit the types of this gateway\'s API', async () => {
  const made = createWriteStream('web/src/made.ts');
  const { stdout } = await promisify(execFile)(process.execPath, ['web/generate_types.mjs', `${gateway.admin}/admin/v1/openapi.json`], { maxBuffer: 8 << 20 });
  await new Promise((resolve) => made.end(stdout, resolve));
  await rename('web/src/made.ts', 'web/src/api_types.ts');
  await promisify(execFile)('node_modules/.bin/tsc', ['--noEmit', '-p', 'web']).catch((error) => assert.fail(error.stdout));
});

for (const path of PAGES) {
  test(`${path} opens, says what it is, and keeps nobody out`, async () => {
    await page.show(path);
    if (path !== '/sessions') await page.locator('.rail-link[aria-current="page"]').waitFor();
    assert.deepEqual(await barriers(page), []);
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.deepEqual(await barriers(page), [], 'in the dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await assertFitsAPhone(page);
    assertClean(page, path);
  });
}

test('Overview tells the devices, the models and what happened', async (t) => {
  await page.show('/');
  await page.getByText(/of 8 devices|all 8 devices/i).first().waitFor();
  await page.getByRole('cell', { name: 'chat-small', exact: true }).waitFor();
  await page.locator('.happenings li').first().waitFor();
  await page.locator('.u-wrap').waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  t.diagnostic(`first contentful paint after ${Math.round(paint)} ms`);
});

test('Gateways tells which one leads, and of each its version and when it was heard', async () => {
  await page.show('/gateways');
  await page.locator('.verdict').getByText(/^1 gateway;/i).waitFor();
  const [own] = (await gateway.call('/admin/v1/gateways')).data;
  const row = page.getByRole('row', { name: own.name });
  await row.getByText('this one').waitFor();
  await row.getByText('leads').waitFor();
  await row.getByText(own.version).waitFor();
  assertClean(page, 'gateways');
});

test('Models tells how long the next start is expected to take', async () => {
  const of = async () => (await gateway.call('/admin/v1/scaling')).data.find((each) => each.model === 'chat-tuned');
  await eventually('a start was measured', async () => (await of()).lead_time_ms !== null, 40_000);
  await page.show('/models?open=model:chat-tuned');
  await page.locator('.drawer').getByText('Next start').waitFor();
  await page.locator('.drawer').getByText(/(at most|about) \S+\ss until a new replica answers/).waitFor();
  assertClean(page, 'models');
});

test('a key is made, shown once and revoked', async () => {
  await page.show('/keys');
  await page.getByRole('button', { name: 'Make a key' }).click();
  await page.getByLabel('Name').fill('from-the-console');
  await page.getByLabel('Budget a month').fill('nothing');
  await page.getByText('A number of US dollars, such as 20').waitFor();
  await page.getByLabel('Budget a month').fill('20');
  await page.getByRole('button', { name: 'Make the key' }).click();
  const secret = await page.locator('.secret code').textContent();
  assert.equal((await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } })).status, 200);
  await page.getByRole('button', { name: 'I have copied it' }).click();
  await page.getByRole('button', { name: /from-the-console/ }).click();
  await page.getByRole('button', { name: 'Revoke', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await eventually('the key is refused', async () => (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } })).status === 401);
  assert.ok(!(await page.content()).includes(secret), 'the secret is gone from the page');
  assertClean(page, 'keys');
});

test('a job file that is wrong says where', async () => {
  await page.show('/queues?new=job');
  await page.getByLabel('Job file').fill('name: x\nwork: batch\ncommand: [true]\ndevices: [{cuont: 1}]\n');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await page.getByText(/cuont/).last().waitFor();
  await page.locator('.problems, .field-problem').first().waitFor();
  page.problems = page.problems.filter((each) => !/status of 4\d\d/.test(each)); // Chromium reports each refused call
  assertClean(page, 'queues');
});

test('the map says how well the cluster is used', async () => {
  await page.show('/cluster');
  await page.getByText('held in the last hour').waitFor();
  await page.getByText('of nodes partly held').waitFor();
  assertClean(page, 'cluster');
});

test('a node is cordoned and uncordoned from the map, with the reason on it', async () => {
  const { name } = (await gateway.call('/admin/v1/nodes')).data[0];
  await page.show(`/cluster?open=node:${encodeURIComponent(name)}`);
  await page.getByRole('button', { name: 'Cordon' }).click();
  await page.getByLabel('Reason').fill('new power supply');
  await page.getByRole('dialog').getByRole('button', { name: 'Cordon' }).click();
  await page.locator('.drawer').getByText('new power supply').first().waitFor();
  await page.getByRole('button', { name: 'Uncordon' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Uncordon' }).click();
  await eventually('the node is in use again', async () => (await gateway.call('/admin/v1/nodes')).data[0].health !== 'cordoned');
  assertClean(page, 'cluster');
});

test('the keyboard goes everywhere', async () => {
  await page.show('/');
  await page.keyboard.press('g');
  await page.keyboard.press('m');
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  await page.keyboard.press('/');
  await page.getByRole('combobox').fill('chat-large');
  await page.getByRole('option', { name: /chat-large/ }).first().waitFor();
  await page.keyboard.press('Enter');
  await page.locator('.drawer').getByRole('heading', { name: 'chat-large' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.drawer').waitFor({ state: 'detached' });
  await page.goBack();
  await page.locator('.drawer').getByRole('heading', { name: 'chat-large' }).waitFor();
});

test('what somebody asks for is approved by somebody else, and ends early', async () => {
  await gateway.call('/admin/v1/requests', { tenant: 'demo', limits: { requests_per_minute: 100_000 }, until: '2h', reason: 'a demo of the console' });
  await page.show('/requests');
  await page.getByText('a demo of the console').first().click();
  await page.locator('.drawer').getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('dialog').getByLabel('Answer').fill('until the demo');
  await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('button', { name: 'End', exact: true }).click();
  await page.getByRole('button', { name: 'End it' }).click();
  await page.getByText('Nothing is granted now').waitFor();
  assertClean(page, 'requests');
});

test('a request is talked about, and what was given is renewed', async () => {
  const until = new Date(Date.now() + 5_400_000).toISOString().replace(/\.\d+/, '');
  await gateway.call('/admin/v1/requests', { tenant: 'demo', limits: { requests_per_minute: 100_001 }, until, reason: 'a second demo' });
  await page.show('/requests');
  await page.getByText('a second demo').first().click();
  const drawer = page.locator('.drawer');
  await drawer.getByText('There are no comments yet.').waitFor();
  await drawer.getByLabel('Comment').fill('<b>would an hour do?</b>');
  await drawer.getByRole('button', { name: 'Say it' }).click();
  await drawer.locator('.comments').getByText('<b>would an hour do?</b>').waitFor();
  assert.deepEqual(await barriers(page), []);
  await drawer.getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('button', { name: 'Renew', exact: true }).click();
  await page.getByRole('dialog').getByLabel('For', { exact: true }).selectOption({ label: 'a day longer' });
  await page.getByRole('dialog').getByLabel('What for').fill('another day');
  await page.getByRole('dialog').getByRole('button', { name: 'Renew' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  const grant = (await gateway.call('/admin/v1/grants?state=in_force')).data[0];
  assert.equal(Date.parse(grant.until), Date.parse(until) + 86_400_000);
  assert.equal(grant.reason, 'another day');
  await gateway.call(`/admin/v1/grants/${grant.id}:end`, {});
  assertClean(page, 'requests');
});

test('devices are asked for, kept for jobs of the tenant, and given back', async () => {
  const kind = 'h100'; // of conf/demo.yaml
  await page.show('/requests?new=request');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('For the tenant').selectOption('demo');
  await dialog.getByLabel('What', { exact: true }).selectOption('devices');
  await dialog.getByLabel('Kind of device').fill(kind);
  await dialog.getByLabel('How many').fill('1');
  await dialog.getByLabel('What for').fill('a training run');
  await dialog.getByRole('button', { name: 'Ask', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('a training run').first().waitFor();
  const asked = (await gateway.call('/admin/v1/requests?state=pending')).data.find((each) => each.reason === 'a training run');
  assert.deepEqual(asked.devices, { kind, count: 1 });
  const approved = await gateway.call(`/admin/v1/requests/${asked.id}:approve`, {});
  assert.equal(approved.state, 'approved');
  const queue = approved.grant;
  await eventually('the planner has a queue for them', async () => (await gateway.call('/admin/v1/queues')).data.some((each) => each.name === queue));
  await page.getByText(`queue: ${queue}`).waitFor();
  await gateway.call(`/admin/v1/grants/${queue}:end`, {});
  await eventually('the queue is gone', async () => (await gateway.call('/admin/v1/queues')).data.every((each) => each.name !== queue));
  assertClean(page, 'requests');
});

test('the ledger is verified, exported, and a record of it is proved', async () => {
  await page.show('/audit');
  await page.getByRole('button', { name: 'Verify the ledger' }).click();
  await page.getByText(/The ledger was verified .* good, up to #\d+/).waitFor();
  const [exported] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export all of this time' }).click()]);
  const lines = (await readFile(await exported.path(), 'utf8')).trim().split('\n').map((line) => JSON.parse(line));
  assert.ok(lines.length > 0 && lines.every((record) => record.seq > 0));
  const seq = Math.min(...lines.map((record) => record.seq));
  await page.show(`/audit?open=record:${seq}`);
  const proof = page.locator('.drawer').getByRole('link', { name: 'Proof of this record' });
  const href = await proof.getAttribute('href');
  assert.equal(href, `/admin/v1/audit/records/${seq}/proof`);
  const answer = await eventually('a checkpoint covers the record', async () => {
    const got = await page.context().request.get(`${gateway.admin}${href}`);
    return got.ok() ? got : undefined;
  }, 90_000);
  const file = join(gateway.folder, 'proof.json');
  await writeFile(file, await answer.text());
  assert.match(await gateway.run('audit', 'verify', '--proof', file, '--public-key', join(gateway.folder, 'state/ledger/signing.pub')), new RegExp(`${seq}`));
  assertClean(page, 'audit');
});

test('usage is saved as a table, as FOCUS, and as the same statement again', async () => {
  await page.show('/usage?tenant=demo');
  // Of what the chart shows, the legend tells the sum.
  await eventually('the legend tells what was used in all', async () =>
    await page.locator('.plot-legend b').first().textContent() === await page.locator('.total .value').first().textContent());
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as CSV' }).click()]);
  assert.match(await readFile(await saved.path(), 'utf8'), /demo/);
  const fetched = async (name) => {
    const got = await page.context().request.get(`${gateway.admin}${await page.getByRole('link', { name, exact: true }).getAttribute('href')}`);
    assert.equal(got.status(), 200, name);
    return got.text();
  };
  assert.match((await fetched('By day as CSV')).split('\n')[0], /day/);
  const [columns, ...charges] = (await fetched('FOCUS 1.2')).trim().split('\n');
  assert.match(columns, /BilledCost/);
  assert.ok(charges.length > 0);
  await page.getByLabel('Month').selectOption({ index: 0 });
  for (const format of ['JSON', 'CSV']) {
    const statement = await fetched(format);
    assert.match(statement, /sha256|digest/i, format);
  }
  await page.getByLabel('Month').selectOption({ index: 1 });
  assert.equal(await fetched('CSV'), await fetched('CSV'), 'a month that is over gives the same bytes');
  assertClean(page, 'usage');
});

test('usage shows all tenants together, each with those below it, and leads down to each', async () => {
  for (const [parent, name] of [['demo', 'org'], ['demo/org', 'one'], ['demo/org', 'two']]) {
    await gateway.call('/admin/v1/tenants', { parent, name });
    const { secret } = await gateway.call('/admin/v1/keys', { tenant: `${parent}/${name}`, name });
    await eventually('it answers', async () => (await gateway.chat('chat-small', secret)).ok);
  }
  await eventually('the ledger has them', async () => (await gateway.call('/admin/v1/usage?by=tenant')).data.filter((row) => row.tenant.startsWith('demo/org')).length === 3);
  const walk = async (view) => {
    await view.show('/usage');
    await view.getByRole('heading', { name: '2 tenants of demo' }).waitFor();
    const requests = view.getByRole('row', { name: 'demo/org' }).locator('td[data-name="Requests"]');
    assert.equal(await requests.textContent(), '3');
    await view.getByRole('button', { name: 'demo/org' }).click();
    assert.deepEqual(await barriers(view), []);
    await view.locator('.drawer').getByRole('link', { name: '2 tenants below' }).click();
    await view.getByRole('heading', { name: '3 tenants of demo/org' }).waitFor();
    assert.equal(await view.getByLabel('Tenant', { exact: true }).inputValue(), 'demo/org');
    await view.getByRole('row', { name: 'demo/org itself' }).waitFor();
    await view.getByRole('button', { name: 'demo/org/two' }).click();
    await view.locator('.drawer').getByRole('link', { name: 'By key' }).click();
    await view.getByRole('heading', { name: '1 key' }).waitFor();
    await view.show('/usage?level=each');
    await view.getByRole('heading', { name: '4 tenants' }).waitFor();
    assertClean(view, 'usage');
  };
  await walk(page);
  await asAnother(['--role', 'viewer'], walk);
});

test('two models are compared side by side', async () => {
  await page.show('/evaluations');
  await page.getByText('No evaluation is kept here').waitFor();
  const id = await gateway.evaluate();
  await page.show(`/evaluations?evaluation=${id}`);
  const first = page.locator('.compared > li').first();
  await first.getByText('Which <b>port</b> is usual?').waitFor();
  assert.equal(await first.locator('article').count(), 3, 'the set and two models');
  await first.getByText('8080.').waitFor();
  assert.equal(await page.getByRole('table', { name: 'Models' }).locator('tbody tr').count(), 2);
  await assertFitsAPhone(page);
  assertClean(page, 'evaluations');
});

test('a page hears of a change at once, without asking for it', async () => {
  const open = await browser.open(gateway);
  await open.show('/keys');
  await gateway.call('/admin/v1/keys', { tenant: 'demo/search', name: 'made-elsewhere' });
  await open.getByText('made-elsewhere').waitFor({ timeout: 10_000 }); // the page asks by itself each minute
  assertClean(open, 'a change elsewhere');
  await open.close();
});

test('a model is paused with a reason, and resumed', async () => {
  await page.show('/models?open=model:chat-small');
  await page.locator('.drawer').getByRole('button', { name: 'Pause' }).click();
  await page.locator('dialog').getByLabel('Reason').fill('new weights');
  await page.locator('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.locator('.drawer').getByText('new weights').first().waitFor();
  const ask = () => fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: 'chat-small', messages: [{ role: 'user', content: 'hello' }], max_tokens: 4 }),
  });
  const refused = await ask();
  assert.equal(refused.status, 503);
  assert.equal((await refused.json()).error.code, 'model_paused');
  await page.locator('.drawer').getByRole('button', { name: 'Resume' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Resume' }).click();
  await page.locator('.drawer').getByRole('button', { name: 'Pause' }).waitFor();
  assert.equal((await ask()).status, 200);
  assertClean(page, 'pause');
});

test('a rollout shows both versions, is aborted with a reason, begun again and promoted', async () => {
  await gateway.tryBothVersions();
  await page.show('/models');
  await page.getByText('rollout v2, 25 %').waitFor();
  await page.getByRole('button', { name: /^chat-tuned/ }).click();
  const drawer = page.locator('.drawer');
  await drawer.getByRole('heading', { name: 'Rollout of version v2' }).waitFor();
  assert.deepEqual(await drawer.locator('.steps > li').allInnerTexts().then((texts) => texts.map((text) => text.replace(/\s+/g, ' ').trim())),
    ['● 25 % now', '○ 50 % to come', '○ 100 % to come']);
  const cells = async (name) => {
    const texts = await drawer.getByRole('table', { name: 'Both versions' }).getByRole('row', { name }).getByRole('cell').allInnerTexts();
    return texts.map((text) => text.replace(/\s+/g, ' '));
  };
  assert.deepEqual(await cells('Requests'), ['75 %', '25 %']);
  assert.deepEqual(await cells('Replicas ready'), ['1 of 1', '1 of 1']);
  assert.deepEqual(await cells('Failures'), ['0 %', '0 %']);
  for (const name of ['Tries', 'First token']) assert.match((await cells(name)).join(' '), /[1-9].* .*[1-9]/, name);
  await drawer.getByText(/requests that a step needs/).waitFor();
  assert.deepEqual(await barriers(page), []);
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.deepEqual(await barriers(page), [], 'in the dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await assertFitsAPhone(page);

  const rollout = async () => (await gateway.call('/admin/v1/rollouts')).data[0];
  await drawer.getByRole('button', { name: 'Abort' }).click();
  await page.getByRole('dialog').getByLabel('Reason').fill('answers are <b>cut</b>');
  await page.getByRole('dialog').getByRole('button', { name: 'Abort' }).click();
  await drawer.getByText('answers are <b>cut</b>').first().waitFor();
  assert.equal((await rollout()).state, 'aborted');
  await drawer.locator('.steps > .ended').waitFor();
  assert.equal(await drawer.getByRole('button', { name: 'Promote' }).count(), 0);
  await page.locator('table').getByText('v2 aborted').waitFor();
  await drawer.getByRole('button', { name: 'Begin again' }).click();
  await page.getByRole('dialog').getByText('25 % of the requests').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Begin again' }).click();
  await drawer.getByRole('button', { name: 'Promote' }).click();
  assert.equal((await rollout()).state, 'running');
  await page.getByRole('dialog').getByText('v2 takes all requests now').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Promote' }).click();
  await drawer.getByText('To end the rollout').waitFor();
  assert.equal((await rollout()).state, 'promoted');
  assert.deepEqual(await cells('Requests'), ['0 %', '100 %']);
  await drawer.getByText('promotes its new version').waitFor();
  assertClean(page, 'a rollout');
});

test('an adapter is loaded where its model allows it, used and unloaded; errors stand where they belong', async () => {
  await page.show('/models?open=model:chat-small');
  await page.locator('.drawer').getByRole('heading', { name: 'Offer' }).waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Adapters' }).count(), 0, 'this model loads none');
  await page.show('/models?open=model:chat-tuned');
  const drawer = page.locator('.drawer');
  await drawer.getByText('No adapter is loaded').waitFor();
  await drawer.getByRole('button', { name: 'Load an adapter' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('sql-helper');
  await dialog.getByLabel('Source').fill('/etc/sql');
  await dialog.getByRole('button', { name: 'Load', exact: true }).click();
  await dialog.locator('.field-problem').getByText("is in none of the model's adapters.sources").waitFor();
  await dialog.getByLabel('Source').fill(`${gateway.adapters}/nothing`);
  await dialog.getByRole('button', { name: 'Load', exact: true }).click();
  await dialog.getByText('No adapter found for').waitFor();
  await dialog.getByText(/^Request req_/).waitFor();
  assert.deepEqual(await barriers(page), []);
  await dialog.getByLabel('Source').fill(`${gateway.adapters}/sql`);
  await dialog.getByRole('button', { name: 'Load', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  page.problems = page.problems.filter((each) => !/status of (400|502)/.test(each)); // Chromium reports each refused call
  const card = drawer.locator('li', { hasText: `${gateway.adapters}/sql` }).first();
  await card.locator('.state', { hasText: 'loaded' }).waitFor();
  await card.getByText(/^At /).waitFor();
  await card.getByText('not used yet').waitFor();
  await page.locator('table').getByText('adapter of chat-tuned').waitFor();
  assert.equal((await gateway.chat('sql-helper')).status, 200);
  await card.getByText(/last used/).waitFor();
  assert.deepEqual(await barriers(page), []);
  await assertFitsAPhone(page);

  await card.getByRole('button', { name: 'Unload' }).click();
  await dialog.getByRole('heading', { name: 'Unload sql-helper of chat-tuned' }).waitFor();
  await dialog.getByRole('button', { name: 'Unload' }).click();
  await drawer.getByText('No adapter is loaded').waitFor();
  assert.equal((await gateway.chat('sql-helper')).status, 404);
  await drawer.getByText('is unloaded').waitFor();
  assertClean(page, 'adapters');
});

test('an operator asks what one more node would change, and a lead when a job would start', async () => {
  await page.show('/what-if');
  await page.getByRole('button', { name: 'More nodes' }).click();
  await page.getByRole('button', { name: 'Simulate' }).click();
  await page.getByText(/would start when they start today|would start earlier|No other job/).first().waitFor();
  await asAnother(['--role', 'lead', '--tenant', 'demo/research'], async (view) => {
    await view.show('/what-if');
    assert.equal(await view.getByRole('button', { name: 'More nodes' }).count(), 0);
    await view.getByLabel('When would this job start?').fill('name: try\ntenant: research\ncommand: [train]\ndevices: [{count: 1}]\nestimate: 1h\n');
    await view.getByRole('button', { name: 'Simulate' }).click();
    await view.getByText(/^your-try would (start|not start)/).waitFor();
    assertClean(view, 'what-if of a lead');
  });
});

test('a member asks a model in the playground, and the usage shows the tenant', async () => {
  await asAnother(['--role', 'member', '--tenant', 'demo/research'], async (view) => {
    await view.show('/playground?model=chat-small');
    await view.getByLabel('Tokens at most').fill('12');
    await view.getByLabel('Message', { exact: true }).fill('Say hello');
    await view.getByRole('button', { name: 'Send' }).click();
    const answer = view.getByRole('article', { name: 'Answer of chat-small' });
    await answer.getByText('first token').waitFor();
    await answer.getByText(/^req_/).waitFor();
    assert.notEqual(await answer.locator('.said').last().textContent(), '');
    assertClean(view, 'playground of a member');
    await view.getByRole('button', { name: 'As code' }).click();
    await view.getByText(`${gateway.url}/v1/chat/completions`).first().waitFor();
    await view.keyboard.press('Escape');
    await eventually('the usage shows the person', async () => (await gateway.call('/admin/v1/usage?by=tenant,key')).data
      .some((row) => row.tenant === 'demo/research' && row.key?.startsWith('person:') && row.requests > 0));
  });
});

test('a session that ends under an open page says so, and goes on after the next sign-in', async () => {
  await asAnother(['--role', 'operator'], async (view, theirs) => {
    await view.show('/models?open=model:chat-small');
    const own = (await gateway.call('/admin/v1/sessions')).data.find((each) => each.roles.some((of) => of.role === 'operator'));
    await gateway.call(`/admin/v1/sessions/${own.id}:end`, {});
    await view.getByText('Your session has ended').waitFor();
    await theirs.context.clearCookies();
    const again = await theirs.context.newPage();
    await again.goto(await gateway.signInLink('--role', 'operator'));
    await again.close();
    await view.evaluate(() => dispatchEvent(new Event('visibilitychange')));
    await view.locator('.drawer').getByRole('heading', { name: 'chat-small' }).waitFor();
  });
});

test('hostile names are text', async () => {
  const names = ['<script>alert(1)</script>', '"><img src=x onerror=alert(2)>', '\u202Etxt.exe', 'x'.repeat(120), "{{7*7}}';--"];
  for (const name of names) await gateway.call('/admin/v1/keys', { tenant: 'demo/search', name });
  await page.show('/keys?tenant=demo%2Fsearch');
  await page.getByText(names[0]).waitFor();
  await page.getByText(names[1]).waitFor();
  await page.getByText('\\u202etxt.exe').waitFor(); // what turns the text around is shown as its number
  assert.equal(await page.locator('main img, main script').count(), 0);
  await assertFitsAPhone(page);
  const model = (name) => ({ name, aliases: [name], routing: 'prefix', price: { input: null, cached_input: null, cache_write: null, output: null, image: null, audio_second: null, characters: null }, context: null, max_output_tokens: null, endpoints: [], lora: null, fallbacks: [name] });
  await page.route('**/admin/v1/models?*', (route) => route.fulfill({ json: { object: 'list', data: names.map(model), has_more: false } }));
  await page.show(`/models?open=${encodeURIComponent(`model:${names[0]}`)}`);
  await page.locator('.drawer').getByText(names[0]).first().waitFor();
  await page.show(`/models?find=${encodeURIComponent(names[1])}&tenant=${encodeURIComponent(names[0])}`);
  await page.unroute('**/admin/v1/models?*');
  assertClean(page, 'hostile names');
});

test('10,000 keys, 10,000 jobs, 500 models and 2,048 nodes are shown without a wait', async (t) => {
  const list = (data) => ({ json: { object: 'list', data, has_more: false } });
  const at = new Date().toISOString();
  const many = await browser.open(gateway);
  const keys = Array.from({ length: 10_000 }, (_, i) => ({ id: `key-${i}`, tenant: 'demo', name: `key ${i}`, created: at, state: 'active' }));
  const jobs = Array.from({ length: 10_000 }, (_, i) => ({ id: `job-${i}`, name: 'job', work: 'batch', state: 'pending', since: at, reason: 'waits for a device', queue: 'default', tenant: null, user: 'ada', priority: 0, submitted: at, members: 1, min_members: 1, max_members: 1, devices: 1, attempt: 1, restarts: 0 }));
  const price = { input: '1', cached_input: null, cache_write: null, output: '1', image: null, audio_second: null, characters: null };
  const models = Array.from({ length: 500 }, (_, i) => ({ name: `model-${i}`, aliases: [], routing: 'prefix', price, context: 4096, max_output_tokens: null, endpoints: ['chat'], lora: null, fallbacks: [] }));
  const nodes = Array.from({ length: 2048 }, (_, i) => ({ name: `gpu-${i}`, health: 'up', health_reason: null, kind: 'h100', devices: 8, free: 0, each: Array.from({ length: 8 }, (_, device) => ({ device, healthy: true, cordoned: false, reason: null, free: 0, held_by: [`job-${(i * 8 + device) % 10_000}`] })) }));
  await many.route(/\/admin\/v1\/keys\?/, (route) => route.fulfill(list(keys)));
  await many.route(/\/admin\/v1\/jobs\?/, (route) => route.fulfill(list(jobs)));
  await many.route(/\/admin\/v1\/models\?/, (route) => route.fulfill(list(models)));
  await many.route(/\/admin\/v1\/nodes\?/, (route) => route.fulfill(list(nodes)));
  for (const [path, text] of [['/keys', 'key-9'], ['/queues', 'job-9'], ['/models', 'model-99'], ['/cluster', 'Map of 16']]) {
    const began = performance.now();
    await many.show(path);
    if (path === '/cluster') await many.getByRole('img', { name: text }).waitFor();
    else await many.getByText(text, { exact: true }).first().waitFor();
    t.diagnostic(`${path} after ${Math.round(performance.now() - began)} ms`);
    // What makes a page quick: it holds what is seen, not all there is.
    assert.ok(await many.evaluate(() => document.querySelectorAll('main *').length) < MOST_ELEMENTS, path);
  }
  // Finding a node draws all 16,384 devices anew.
  const ms = await many.evaluate(async () => {
    const input = document.querySelector('.filter');
    const began = performance.now();
    input.value = 'gpu-77';
    input.dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - began;
  });
  t.diagnostic(`16,384 devices are drawn anew in ${Math.round(ms)} ms`);
  assertClean(many, 'many');
  await many.close();
});

test('a gateway that restarts under an open page is missed, and found again', async () => {
  const open = await browser.open(gateway);
  await open.show('/');
  const seldom = await browser.open(gateway); // a page that reads every half minute
  await seldom.show('/usage');
  await gateway.end();
  for (const each of [open, seldom]) await each.getByText(/The gateway does not answer. This page is as of/).waitFor({ timeout: 15_000 });
  gateway.ended = false;
  await gateway.serve();
  for (const each of [open, seldom]) await each.locator('.banner').waitFor({ state: 'detached', timeout: 30_000 });
  await open.getByRole('cell', { name: 'chat-small', exact: true }).waitFor();
  await seldom.close();
  await open.close();
});

test('who is not signed in is told how to, and signs out as easily', async () => {
  await asAnother(null, async (nobody, theirs) => {
    await nobody.show('/keys');
    await nobody.getByText('tidegate console login').waitFor();
    assert.deepEqual(await barriers(nobody), []);
    await theirs.signIn(gateway);
    await nobody.show('/');
    await nobody.getByRole('button', { name: /Signed in as/ }).click();
    await nobody.getByRole('button', { name: 'Sign out' }).click();
    await nobody.getByText('tidegate console login').waitFor();
    await nobody.show('/keys');
    await nobody.getByText('tidegate console login').waitFor();
  });
});
