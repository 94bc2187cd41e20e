// A receiver of notices, as docs/people.md says to write one: it checks the signature over the bytes that came, the age of the
// timestamp, and knows a notice that is sent again by its idempotency-key.

import assert from 'node:assert/strict';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';

import { eventually, Stack } from './support/stack.mjs';

const SECRET = 'whsec-0123456789abcdef';

function isSigned(headers, body, secret) {
  const timestamp = headers['x-tidegate-timestamp'];
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;
  const expected = Buffer.from(`v1=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`);
  const given = Buffer.from(headers['x-tidegate-signature'] ?? '');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

describe('notices', { timeout: 120_000 }, () => {
  let stack, receiver, admin;
  const got = [];
  let refuse = 0; // so many of the next ones

  before(async () => {
    receiver = createServer((request, response) => {
      const parts = [];
      request.on('data', (part) => parts.push(part));
      request.on('end', () => {
        got.push({ headers: request.headers, body: Buffer.concat(parts), taken: refuse === 0 });
        response.writeHead(refuse > 0 ? 503 : 204).end();
        if (refuse > 0) refuse -= 1;
      });
    }).listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    process.env.TIDEGATE_E2E_WEBHOOK_SECRET = SECRET;
    stack = await Stack.start({
      engines: [], models: { nothing: { endpoints: [{ name: 'nowhere', url: 'http://127.0.0.1:1', engine: 'vllm' }] } },
      people: { webhook: { url: `http://127.0.0.1:${receiver.address().port}/notices`, secret: 'env:TIDEGATE_E2E_WEBHOOK_SECRET' } },
    });
    const { secret } = await stack.json('keys', 'create', '--config', stack.configPath, '--admin', 'admin', '--json');
    admin = async (path, body) => {
      const answer = await fetch(`${stack.admin}${path}`, {
        method: 'POST', headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }, body: JSON.stringify(body),
      });
      assert.ok(answer.ok, await answer.clone().text());
      return answer.json();
    };
  });
  after(async () => {
    await stack?.stop();
    receiver?.close();
    receiver?.closeAllConnections();
  });

  test('each notice is signed with the secret, over its timestamp and bytes', async () => {
    const grant = await admin('/admin/v1/grants', { tenant: 'acme', weight: 7, until: '2h', reason: 'für die Vorführung: "<b>"' });
    await admin(`/admin/v1/grants/${grant.id}:end`, {});
    await eventually('both came', async () => got.length === 2);
    for (const { headers, body } of got) {
      assert.equal(headers['content-type'], 'application/json');
      assert.ok(isSigned(headers, body, SECRET));
      assert.ok(!isSigned(headers, body, 'another secret'));
      assert.ok(!isSigned(headers, Buffer.concat([body, Buffer.from(' ')]), SECRET), 'a changed body');
      assert.ok(!isSigned({ ...headers, 'x-tidegate-timestamp': String(Number(headers['x-tidegate-timestamp']) - 1) }, body, SECRET), 'another time');
    }
    assert.deepEqual(got.map(({ headers }) => headers['x-tidegate-event']), ['grant.give', 'grant.end']);
    const told = JSON.parse(got[0].body);
    assert.equal(told.event, 'grant.give');
    assert.equal(told.grant.id, grant.id);
    assert.equal(told.grant.reason, 'für die Vorführung: "<b>"');
    assert.equal(told.in_words, 'weight 7');
  });

  test('one that is not taken comes again with the same key, and signed anew', async () => {
    got.length = 0;
    refuse = 2;
    await admin('/admin/v1/grants', { tenant: 'acme', weight: 8, until: '2h' });
    await eventually('it is taken', async () => got.some(({ taken }) => taken), 30_000);
    assert.equal(got.length, 3);
    assert.equal(new Set(got.map(({ headers }) => headers['idempotency-key'])).size, 1);
    assert.equal(new Set(got.map(({ body }) => body.toString())).size, 1);
    for (const { headers, body } of got) assert.ok(isSigned(headers, body, SECRET));
  });
});
