// The playground of the console: people ask models without a key, in the name of a tenant.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Browser } from './support/browser.mjs';
import { eventually, Stack } from './support/stack.mjs';

const HELLO = [{ role: 'user', content: 'Say hello' }];

describe('the playground', { timeout: 120_000 }, () => {
  let stack, member;

  before(async () => {
    stack = await Stack.start({
      engines: [['--speed-up', '5']],
      tenants: [
        { name: 'acme', models: ['*'] },
        { name: 'search', parent: 'acme', limits: { requests_per_minute: 1000 } },
        { name: 'small', models: ['*'], limits: { requests_per_minute: 1 } },
      ],
    });
    member = await signedIn('--role', 'member', '--tenant', 'acme/search');
  });
  after(() => stack?.stop());

  async function signedIn(...flags) {
    const browser = new Browser();
    const link = new URL((await stack.run('console', 'login', '--config', stack.configPath, ...flags)).trim());
    link.host = new URL(stack.admin).host; // the configured port is 0: any
    await browser.go(link.href, { before: /^http:\/\/[^/]+\/$/ });
    const me = await (await browser.call(`${stack.admin}/admin/v1/me`)).json();
    return { browser, me };
  }

  const ask = (who, request, more = {}, options = {}) => who.browser.call(`${stack.admin}/admin/v1/playground`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'x-csrf-token': who.me.csrf },
    body: JSON.stringify({ ...more, request: { model: 'chat-small', messages: HELLO, stream: true, ...request } }), ...options,
  });

  // The chunks of the chat API, and the summary behind them.
  function read(text) {
    const events = text.split('\n\n').filter(Boolean).map((event) => event.split('\n'));
    const data = (lines) => lines.find((line) => line.startsWith('data: ')).slice(6);
    const summary = events.find((lines) => lines[0] === 'event: summary');
    return {
      chunks: events.filter((lines) => lines[0].startsWith('data: {')).map((lines) => JSON.parse(data(lines))),
      done: events.some((lines) => data(lines) === '[DONE]'),
      summary: summary && JSON.parse(data(summary)),
    };
  }

  test('a member is answered, the tenant pays, and the ledger names the person', async () => {
    assert.ok(member.me.permissions.includes('use_playground'));
    const answer = await ask(member, { max_tokens: 9 });
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get('content-type'), /^text\/event-stream/);
    assert.equal(answer.headers.get('x-tidegate-replica'), 'engine-0');
    const id = answer.headers.get('x-request-id');
    const { chunks, done, summary } = read(await answer.text());
    assert.ok(done);
    assert.ok(chunks.some((chunk) => chunk.choices[0]?.delta.content));
    assert.equal(summary.request_id, id);
    assert.equal(summary.tenant, 'acme/search');
    assert.equal(summary.output_tokens, 9);
    assert.equal(summary.replica, 'engine-0');
    assert.ok(summary.ttft_ms >= 0 && summary.duration_ms >= summary.ttft_ms);
    assert.ok(summary.cost_micro_usd > 0);
    const records = await eventually('the ledger has it', async () => {
      const text = await stack.run('audit', 'export', '--config', stack.configPath, '--kind', 'open,close');
      const found = text.split('\n').filter(Boolean).map((line) => JSON.parse(line)).filter((record) => record.request === id);
      return found.length === 2 && found;
    });
    const open = records.find((record) => record.kind === 'open');
    assert.equal(open.tenant, 'acme/search');
    assert.equal(open.key, member.me.actor);
    const usage = await eventually('the usage has it', async () => {
      const rows = (await (await member.browser.call(`${stack.admin}/admin/v1/usage?by=tenant`)).json()).data;
      return rows.some((row) => row.tenant === 'acme/search' && row.requests > 0) && rows;
    });
    assert.deepEqual(usage.map((row) => row.tenant), ['acme/search']);
  });

  test('a viewer asks nothing, and nobody asks for a tenant that is not theirs', async () => {
    const viewer = await signedIn('--role', 'viewer');
    assert.ok(!viewer.me.permissions.includes('use_playground'));
    assert.equal((await ask(viewer, {}, { tenant: 'acme' })).status, 403);
    assert.equal((await ask(member, {}, { tenant: 'acme' })).status, 403);
    assert.equal((await ask(member, {}, { tenant: 'small' })).status, 403);
    const strangers = await fetch(`${stack.admin}/admin/v1/playground`, { method: 'POST', body: '{}' });
    assert.equal(strangers.status, 401);
  });

  test('an operator names a tenant, whose limits hold', async () => {
    const operator = await signedIn('--role', 'operator');
    assert.equal((await ask(operator, {})).status, 400, 'there are several');
    const first = await ask(operator, { max_tokens: 2 }, { tenant: 'small' });
    assert.equal(first.status, 200);
    assert.equal(read(await first.text()).summary.tenant, 'small');
    const second = await ask(operator, { max_tokens: 2 }, { tenant: 'small' });
    assert.equal(second.status, 429);
    assert.equal((await second.json()).error.code, 'rate_limit_exceeded');
  });

  test('a page of another origin asks nothing', async () => {
    const answer = await ask({ ...member, me: { csrf: 'guessed' } }, {});
    assert.equal(answer.status, 403);
  });

  test('the request reaches the engine as it was written', async () => {
    const format = { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object', properties: { z: { type: 'integer' }, a: { type: 'integer' } } } } };
    const answer = await ask(member, { max_tokens: 3, messages: [{ role: 'user', content: 'as written 4712' }], response_format: format });
    assert.equal(answer.status, 200);
    await answer.text();
    const { body_base64: body } = await stack.lastRequest('as written 4712');
    assert.ok(Buffer.from(body, 'base64').toString().includes(JSON.stringify(format)));
  });

  test('who leaves ends the answer at the engine', async () => {
    const { cancelled } = await stack.engineSums();
    const stop = new AbortController();
    const answer = await ask(member, { max_tokens: 4000 }, {}, { signal: stop.signal });
    const reader = answer.body.getReader();
    await reader.read();
    stop.abort();
    await reader.read().catch(() => undefined);
    await eventually('the engine has cancelled it', async () => (await stack.engineSums()).cancelled > cancelled);
    assert.equal((await stack.engineSums()).running, 0);
  });
});
