// What happens when someone leaves, breaks off or takes too long: the client, the engine, or time itself.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

import { eventually, Stack } from './support/stack.mjs';

const LONG = { model: 'chat-small', messages: [{ role: 'user', content: 'Tell me everything' }], max_tokens: 4000, ignore_eos: true };
const ATTEMPTS = 5;
// The promise is 100 ms for each; the quickest is held to it, as a busy machine may pause in any of the others.
const CANCEL_MS = 100;

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

  async function cancelTimes(leave) {
    const times = [];
    for (let i = 0; i < ATTEMPTS; ++i) {
      const { cancelled } = await stack.engineSums();
      const began = await leave();
      await eventually('the engine hears that the client is gone', async () => (await stack.engineSums()).cancelled > cancelled);
      times.push(performance.now() - began);
    }
    assert.equal((await stack.engineSums()).running, 0);
    return times.sort((a, b) => a - b);
  }

  function assertQuick(times) {
    assert.ok(times[0] < CANCEL_MS, `the engine heard after ${times.map(Math.round)} ms`);
  }

  test('an abort in mid-stream reaches the engine at once', async () => {
    assertQuick(await cancelTimes(async () => {
      const stream = await openai.chat.completions.create({ ...LONG, stream: true });
      let chunks = 0;
      for await (const _ of stream) if (++chunks === 5) break; // the SDK aborts
      return performance.now();
    }));
  });

  test('an abort of a whole answer, before its first byte, reaches the engine at once', async () => {
    assertQuick(await cancelTimes(async () => {
      const { received } = await stack.engineSums();
      const controller = new AbortController();
      const answer = openai.chat.completions.create(LONG, { signal: controller.signal });
      await eventually('the engine has it', async () => (await stack.engineSums()).received > received);
      const began = performance.now();
      controller.abort();
      await assert.rejects(answer, OpenAI.APIUserAbortError);
      return began;
    }));
  });

  test('an abort of a message reaches the engine at once', async () => {
    assertQuick(await cancelTimes(async () => {
      const stream = anthropic.messages.stream({ ...LONG, ignore_eos: undefined, max_tokens: 4000, min_tokens: 4000 });
      await new Promise((resolve) => stream.once('text', resolve));
      const began = performance.now();
      stream.abort();
      await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
      return began;
    }));
  });

  test('the engine works on for nobody for a few steps at most', async () => {
    const { forNobody } = await stack.engineSums();
    const { cancelled } = await stack.engineSums();
    const stream = await openai.chat.completions.create({ ...LONG, stream: true });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 5) break;
    await eventually('cancelled', async () => (await stack.engineSums()).cancelled > cancelled);
    const wasted = (await stack.engineSums()).forNobody - forNobody;
    assert.ok(wasted < 400, `${wasted} of 4000 tokens were made for nobody`);
  });

  test('a time-out of the client is an abort too', async () => {
    const { cancelled } = await stack.engineSums();
    const hasty = openai.withOptions({ timeout: 300 });
    await stack.impatiently(() => assert.rejects(hasty.chat.completions.create(LONG), OpenAI.APIConnectionTimeoutError));
    await eventually('cancelled', async () => (await stack.engineSums()).cancelled > cancelled);
  });

  test('the deadline that an SDK announces is kept', async () => {
    await stack.faultAll({ kind: 'hang' });
    const began = performance.now();
    const answer = await stack.fetch('/v1/chat/completions', { body: LONG, headers: { 'x-stainless-timeout': '1' } });
    assert.equal(answer.status, 504);
    const { error } = await answer.json();
    assert.ok(['deadline_exceeded', 'upstream_timeout'].includes(error.code), error.code);
    const took = performance.now() - began;
    assert.ok(took > 900 && took < 5000, `after ${took} ms`);
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
