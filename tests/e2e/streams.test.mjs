// Cancellation, broken streams and time-outs: of the client, of the engine, and of the deadline.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

import { eventually, Stack } from './support/stack.mjs';

const LONG = { model: 'chat-small', messages: [{ role: 'user', content: 'Tell me everything' }], max_tokens: 4000, ignore_eos: true };
const ATTEMPTS = 5;
// Tokens of a cancelled answer of 4000, counted for the best attempt: another program may pause the gateway in any other.
const MOST_TOKENS = 400;

describe('leaving and breaking', { timeout: 90_000 }, () => {
  let stack;
  let openai;
  let anthropic;

  before(async () => {
    stack = await Stack.start({
      engines: [['--step-base', '5ms'], ['--step-base', '5ms']],
      models: { 'chat-small': { breaker: { failures: 1000 }, retries: { max: 0 } } },
    });
    openai = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.key, maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: stack.url, apiKey: stack.key, maxRetries: 0 });
  });
  beforeEach(() => stack.clearFaults());
  after(() => stack?.stop());

  // The tokens that the engine made for each cancelled answer.
  async function wastedTokens(leave) {
    const wasted = [];
    for (let i = 0; i < ATTEMPTS; ++i) {
      const { cancelled, forNobody } = await stack.engineSums();
      await leave();
      await eventually('the engine sees the disconnect', async () => (await stack.engineSums()).cancelled > cancelled);
      wasted.push((await stack.engineSums()).forNobody - forNobody);
    }
    assert.equal((await stack.engineSums()).running, 0);
    return wasted;
  }

  function assertFew(wasted) {
    assert.ok(Math.min(...wasted) < MOST_TOKENS, `the engine made ${wasted} tokens for cancelled answers`);
  }

  test('an abort in mid-stream ends the work of the engine', async () => {
    assertFew(await wastedTokens(async () => {
      const stream = await openai.chat.completions.create({ ...LONG, stream: true });
      let chunks = 0;
      for await (const _ of stream) if (++chunks === 5) break; // the SDK aborts
    }));
  });

  test('an abort of a whole answer, before its first byte, ends the work of the engine', async () => {
    assertFew(await wastedTokens(async () => {
      const { received } = await stack.engineSums();
      const controller = new AbortController();
      const answer = openai.chat.completions.create(LONG, { signal: controller.signal });
      await eventually('the engine has it', async () => (await stack.engineSums()).received > received);
      controller.abort();
      await assert.rejects(answer, OpenAI.APIUserAbortError);
    }));
  });

  test('an abort of a message ends the work of the engine', async () => {
    assertFew(await wastedTokens(async () => {
      const stream = anthropic.messages.stream({ ...LONG, ignore_eos: undefined, max_tokens: 4000, min_tokens: 4000 });
      await new Promise((resolve) => stream.once('text', resolve));
      stream.abort();
      await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
    }));
  });

  test('a time-out of the client is an abort too', async () => {
    const { cancelled } = await stack.engineSums();
    const hasty = openai.withOptions({ timeout: 300 });
    await stack.impatiently(() => assert.rejects(hasty.chat.completions.create(LONG), OpenAI.APIConnectionTimeoutError));
    await eventually('cancelled', async () => (await stack.engineSums()).cancelled > cancelled);
  });

  test('the deadline that an SDK announces is kept', async () => {
    await stack.faultAll({ kind: 'hang' });
    const answer = await stack.fetch('/v1/chat/completions', { body: LONG, headers: { 'x-stainless-timeout': '1' } });
    assert.equal(answer.status, 504);
    const { error } = await answer.json();
    assert.ok(['deadline_exceeded', 'upstream_timeout'].includes(error.code), error.code);
    await eventually('nothing runs on', async () => (await stack.engineSums()).running === 0);
  });

  for (const kind of ['drop', 'bad-chunk', 'bad-json']) {
    test(`an engine that breaks off (${kind}) never looks like a whole answer`, async () => {
      await stack.faultAll({ kind, arg: 5 });
      let chunks = 0;
      await assert.rejects(async () => {
        for await (const _ of await openai.chat.completions.create({ ...LONG, stream: true })) ++chunks;
      }, (error) => {
        assert.ok(!(error instanceof assert.AssertionError));
        return true;
      });
      assert.ok(chunks > 0, 'what came before the break was relayed');
      await stack.clearFaults();
      const answer = await openai.chat.completions.create({ ...LONG, max_tokens: 3 });
      assert.equal(answer.usage.completion_tokens, 3, 'the next call on the same client works');
    });
  }

  test('a whole answer that breaks off is an error', async () => {
    await stack.faultAll({ kind: 'drop', arg: 5 });
    await assert.rejects(openai.chat.completions.create({ ...LONG, max_tokens: 20 }), OpenAI.APIError);
  });
});

test('heartbeats keep a stream open before its first byte', { timeout: 60_000 }, async (t) => {
  const stack = await Stack.start({ engines: [['--preset', 'instant']], server: { heartbeat: '100ms' } });
  t.after(() => stack.stop());
  await stack.faultAll({ kind: 'hang' });
  const leaving = new AbortController();
  const answer = await stack.fetch('/v1/chat/completions', { body: { ...LONG, stream: true }, signal: leaving.signal });
  assert.equal(answer.headers.get('content-type')?.split(';')[0], 'text/event-stream');
  let beats = 0;
  for await (const line of answer.body.pipeThrough(new TextDecoderStream())) {
    beats += line.split('\n').filter((text) => text.startsWith(':')).length;
    if (beats >= 5) break;
  }
  leaving.abort();
});

describe('silence', { timeout: 60_000 }, () => {
  let stack;
  let openai;

  before(async () => {
    stack = await Stack.start({
      engines: [['--preset', 'instant']],
      models: { 'chat-small': { timeouts: { first_byte: '1s', idle: '500ms' }, retries: { max: 0 }, breaker: { failures: 1000 } } },
      server: { heartbeat: '100ms' },
    });
    openai = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.key, maxRetries: 0 });
  });
  after(() => stack?.stop());

  test('an engine that hangs before its first byte is given up', async () => {
    await stack.faultAll({ kind: 'hang', first: 1 });
    const answer = await stack.fetch('/v1/chat/completions', { body: { ...LONG, stream: true } });
    const text = await answer.text();
    assert.match(text, /data: \{"error":/);
    assert.ok(!text.includes('[DONE]'));
  });

  test('the SDK does not see heartbeats, and throws on the error', async () => {
    await stack.faultAll({ kind: 'hang', first: 1 });
    await assert.rejects(async () => {
      for await (const chunk of await openai.chat.completions.create({ ...LONG, stream: true })) assert.fail(JSON.stringify(chunk));
    }, OpenAI.APIError);
  });

  test('an engine that falls silent in mid-stream is given up', async () => {
    await stack.faultAll({ kind: 'stall', arg: 5, first: 1 });
    let chunks = 0;
    await assert.rejects(async () => {
      for await (const _ of await openai.chat.completions.create({ ...LONG, stream: true })) ++chunks;
    }, OpenAI.APIError);
    assert.ok(chunks >= 5);
    await eventually('nothing runs on', async () => (await stack.engineSums()).running === 0);
  });
});
