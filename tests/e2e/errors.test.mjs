// Errors as the SDKs see them: classes, codes, what is retried and when, and what is not.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

import { eventually, Stack } from './support/stack.mjs';

const HELLO = [{ role: 'user', content: 'Say hello' }];
const ASK = { model: 'chat-small', messages: HELLO, max_tokens: 4 };

describe('errors', { timeout: 90_000 }, () => {
  let stack;

  // A client that counts the requests it really sends, and what came back.
  function client({ key = 'default', ...options } = {}) {
    const sent = [];
    const counting = async (url, init) => {
      const response = await fetch(url, init);
      sent.push({ at: performance.now(), status: response.status, headers: response.headers });
      return response;
    };
    const openai = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.keys[key]?.secret ?? key, fetch: counting, ...options });
    return { openai, sent };
  }

  before(async () => {
    stack = await Stack.start({
      engines: [
        ['--preset', 'instant'], ['--preset', 'instant'],
        { model: 'chat-large', flags: ['--preset', 'instant', '--max-model-len', '64'] },
      ],
      models: { 'chat-small': { retries: { max: 1, min_per_minute: 1000, backoff: '1ms', max_backoff: '2ms' },
                                breaker: { failures: 1000 } },
                gone: { endpoints: [{ name: 'nowhere', url: 'http://127.0.0.1:1', engine: 'vllm' }] } },
      tenants: [{ name: 'acme', models: ['*'] }, { name: 'small', models: ['chat-small'] }],
      keys: {
        narrow: { tenant: 'small' },
        concurrent: { tenant: 'acme', limits: { concurrency: 1 } },
        rated: { tenant: 'acme', limits: { requests_per_minute: 2 } },
        broke: { tenant: 'acme', limits: { budget: { tokens: 30, period: 'day' } } },
      },
    });
  });
  beforeEach(() => stack.clearFaults());
  after(() => stack?.stop());

  test('401: a wrong key, a missing key, and no retry', async () => {
    const { openai, sent } = client({ key: 'tg-AAAAAAAAAA-wrong' });
    await assert.rejects(openai.chat.completions.create(ASK), (error) => {
      assert.ok(error instanceof OpenAI.AuthenticationError);
      assert.equal(error.code, 'invalid_api_key');
      assert.ok(!error.message.includes('wrong'), 'the secret is not repeated');
      return true;
    });
    assert.equal(sent.length, 1);
    assert.equal(sent[0].headers.get('x-should-retry'), 'false');
    const answer = await stack.fetch('/v1/models', { key: null });
    assert.equal(answer.status, 401);
    assert.equal((await answer.json()).error.code, 'missing_api_key');
  });

  test('404: an unknown model, with what the key may use', async () => {
    const { openai, sent } = client();
    await assert.rejects(openai.chat.completions.create({ ...ASK, model: 'chat-smal' }), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      assert.equal(error.code, 'model_not_found');
      assert.equal(error.param, 'model');
      assert.match(error.message, /chat-small/);
      return true;
    });
    assert.equal(sent.length, 1);
  });

  test('a model that the key may not use does not exist for it', async () => {
    const { openai } = client({ key: 'narrow' });
    await assert.rejects(openai.chat.completions.create({ ...ASK, model: 'chat-large' }), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      assert.match(error.message, /may use: chat-small\.$/);
      return true;
    });
    const ids = [];
    for await (const model of openai.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ['chat-small']);
  });

  test('400: what the engine refuses comes back in its own words', async () => {
    const { openai, sent } = client();
    await assert.rejects(openai.chat.completions.create({ ...ASK, messages: 'no list' }), OpenAI.BadRequestError);
    await assert.rejects(openai.chat.completions.create({ ...ASK, temperature: 'hot' }), OpenAI.BadRequestError);
    await assert.rejects(
      openai.chat.completions.create({ model: 'chat-large', messages: [{ role: 'user', content: 'word '.repeat(500) }] }),
      (error) => error instanceof OpenAI.BadRequestError && /context length/i.test(error.message),
    );
    assert.equal(sent.length, 3, 'none was retried');
  });

  test('400: bodies that cannot be trusted', async () => {
    for (const [body, code] of [
      ['{"model": "chat-small", "messages": [', 'invalid_json'],
      ['{"model":"chat-small","model":"chat-large","messages":[]}', 'duplicate_key'],
      ['{"messages":[]}', 'missing_model'],
      ['{"model":7,"messages":[]}', 'invalid_type'],
      [`{"model":"chat-small","messages":${'['.repeat(10_000)}${']'.repeat(10_000)}}`, 'nesting_too_deep'],
      [Buffer.from('{"model":"\xff"}', 'latin1'), undefined],
    ]) {
      const answer = await stack.fetch('/v1/chat/completions', { body });
      const { error } = await answer.json();
      assert.ok([400, 404].includes(answer.status), `${answer.status} for ${body.slice(0, 40)}`);
      if (code) assert.equal(error.code, code);
      assert.ok(error.message && error.type, 'the error object is whole');
    }
    const still = await stack.fetch('/v1/models');
    assert.equal(still.status, 200);
  });

  test('404 and 405: paths and methods that there are not', async () => {
    assert.equal((await stack.fetch('/v1/nothing', { body: {} })).status, 404);
    const wrong = await stack.fetch('/v1/chat/completions');
    assert.equal(wrong.status, 405);
    assert.match((await wrong.json()).error.message, /POST/);
  });

  test('429: a request limit names itself and says when to come back', async () => {
    const { openai, sent } = client({ key: 'rated', maxRetries: 0 });
    await openai.chat.completions.create(ASK);
    await openai.chat.completions.create(ASK);
    await assert.rejects(openai.chat.completions.create(ASK), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.code, 'rate_limit_exceeded');
      return true;
    });
    const { headers } = sent[2];
    assert.ok(Number(headers.get('retry-after-ms')) > 0);
    assert.equal(Number(headers.get('retry-after')), Math.ceil(Number(headers.get('retry-after-ms')) / 1000));
    assert.equal(headers.get('x-should-retry'), 'true');
    assert.match(headers.get('x-tidegate-limit'), /requests/);
    assert.equal(headers.get('x-ratelimit-limit-requests'), '2');
    assert.equal(headers.get('x-ratelimit-remaining-requests'), '0');
  });

  test('429: a client that waits as retry-after-ms says is served', async () => {
    await stack.faultAll({ kind: 'stall', arg: 1 });
    const { openai, sent } = client({ key: 'concurrent' });
    // Holds the key's one permit; given back as soon as the stream ends.
    const holder = await openai.chat.completions.create({ ...ASK, max_tokens: 50, stream: true });
    await stack.clearFaults();
    const refusal = eventually('it is refused', () => sent.some(({ status }) => status === 429))
      .finally(() => holder.controller.abort());
    const answer = await openai.chat.completions.create(ASK);
    await refusal;
    assert.equal(answer.usage.completion_tokens, 4);
    const refused = sent.filter(({ status }) => status === 429);
    assert.ok(refused.length >= 1, 'it was refused at first');
    for (const [i, { at, status, headers }] of sent.entries()) {
      if (status !== 429) continue;
      const wait = Number(headers.get('retry-after-ms'));
      assert.ok(wait > 0);
      assert.ok(sent[i + 1].at - at >= wait - 5, `came back after ${sent[i + 1].at - at} ms, told ${wait}`);
    }
  });

  test('429: a spent budget is not retried', async () => {
    const { openai, sent } = client({ key: 'broke' });
    await openai.chat.completions.create({ ...ASK, max_tokens: 16 });
    const calls = sent.length;
    await assert.rejects(async () => {
      for (let i = 0; i < 10; ++i) await openai.chat.completions.create({ ...ASK, max_tokens: 16 });
    }, (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.code, 'insufficient_quota');
      return true;
    });
    const refused = sent.slice(calls).filter(({ status }) => status === 429);
    assert.equal(refused.length, 1, 'sent once, not three times');
    assert.equal(refused[0].headers.get('x-should-retry'), 'false');
    const anthropic = new Anthropic({ baseURL: stack.url, apiKey: stack.keys.broke.secret });
    await assert.rejects(
      anthropic.messages.create({ model: 'chat-small', max_tokens: 50, messages: HELLO }),
      (error) => error instanceof Anthropic.RateLimitError && error.type === 'billing_error',
    );
  });

  test('5xx: one engine that fails is hidden by the other', async () => {
    await stack.engines[0].fault({ kind: '500' });
    const { openai, sent } = client({ maxRetries: 0 });
    for (let i = 0; i < 10; ++i) await openai.chat.completions.create(ASK);
    assert.ok(sent.every(({ status }) => status === 200));
  });

  test('5xx: when all engines fail the client hears it, and retries', async () => {
    await stack.faultAll({ kind: '500' });
    const { openai, sent } = client({ maxRetries: 1 });
    await assert.rejects(openai.chat.completions.create(ASK), (error) => {
      assert.ok(error instanceof OpenAI.InternalServerError);
      assert.ok(error.status >= 500);
      assert.ok(error.requestID);
      return true;
    });
    assert.equal(sent.length, 2);
  });

  test("5xx: an engine's own 429 is told as what it is", async () => {
    await stack.faultAll({ kind: '429', arg: 1 });
    const { openai } = client({ maxRetries: 0 });
    await assert.rejects(openai.chat.completions.create(ASK), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError || error instanceof OpenAI.InternalServerError, error.constructor.name);
      return true;
    });
  });

  test('an unreachable model is a 503 that names it', async () => {
    const { openai, sent } = client({ maxRetries: 0 });
    await assert.rejects(openai.chat.completions.create({ ...ASK, model: 'gone' }), (error) => {
      assert.ok(error instanceof OpenAI.InternalServerError);
      assert.equal(error.code, 'upstream_unavailable');
      assert.match(error.message, /gone/);
      return true;
    });
    assert.equal(sent[0].status, 503);
  });

  test('a refusal does not spoil the connection for the calls behind it', async () => {
    const stranger = client({ key: 'tg-AAAAAAAAAA-wrong', maxRetries: 0 });
    const { openai } = client({ maxRetries: 0 });
    for (let i = 0; i < 5; ++i) {
      await assert.rejects(stranger.openai.chat.completions.create(ASK), OpenAI.AuthenticationError);
      await assert.rejects(openai.post('/nothing', { body: ASK }), OpenAI.NotFoundError);
      await openai.chat.completions.create(ASK);
    }
  });

  test('header names of the gateway itself are refused from outside', async () => {
    const answer = await stack.fetch('/v1/models', { headers: { 'x-tidegate-replica': 'mine' } });
    assert.equal(answer.status, 400);
    assert.equal((await answer.json()).error.code, 'reserved_header');
  });
});
