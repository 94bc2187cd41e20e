// The AI SDK (ai, @ai-sdk/openai-compatible): text, streams, tools, objects, embeddings, errors and an abort.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embedMany, generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

import { eventually, Stack } from './support/stack.mjs';

describe('ai sdk', { timeout: 60_000 }, () => {
  let stack;
  let provider;
  const weather = tool({
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.string().min(1) }),
    execute: async ({ city }) => `${city}: 12 degrees`,
  });

  function connect(options = {}) {
    return createOpenAICompatible({
      name: 'tidegate', baseURL: stack.baseURL, apiKey: stack.key, includeUsage: true, supportsStructuredOutputs: true, ...options,
    });
  }
  // What every call of these tests has.
  function ask(fields = {}) {
    return { model: provider('chat-small'), prompt: 'Say hello', maxRetries: 0, ...fields };
  }

  before(async () => {
    stack = await Stack.start({ engines: [['--step-base', '2ms'], ['--step-base', '2ms']] });
    provider = connect();
  });
  after(() => stack?.stop());

  test('text is generated, with usage', async () => {
    const { text, usage, finishReason } = await generateText(ask({ maxOutputTokens: 9 }));
    assert.ok(text.length > 0);
    assert.equal(finishReason, 'length');
    assert.equal(usage.outputTokens, 9);
    assert.ok(usage.inputTokens > 0);
  });

  test('a stream gives what the whole text gives, with usage', async () => {
    const fields = { maxOutputTokens: 20, seed: 5 };
    const whole = await generateText(ask(fields));
    const stream = streamText(ask(fields));
    let text = '';
    for await (const delta of stream.textStream) text += delta;
    assert.equal(text, whole.text);
    assert.equal((await stream.usage).outputTokens, 20);
  });

  test('a stream without usage has none', async () => {
    const stream = streamText(ask({ model: connect({ includeUsage: false })('chat-small'), maxOutputTokens: 5 }));
    await stream.consumeStream();
    assert.equal((await stream.usage).outputTokens, undefined);
  });

  test('a tool is called and its result answered, whole and streamed', async () => {
    const fields = { prompt: 'What is the weather in Kiel?', tools: { get_weather: weather }, stopWhen: stepCountIs(2),
                     prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }) };
    const whole = await generateText(ask(fields));
    assert.equal(whole.steps.length, 2);
    assert.match(whole.steps[0].toolResults[0].output, /: 12 degrees$/);
    assert.ok(whole.text.length > 0);
    const stream = streamText(ask(fields));
    await stream.consumeStream();
    assert.deepEqual((await stream.steps)[0].toolResults[0].output, whole.steps[0].toolResults[0].output);
  });

  test('structured output fits its schema, whole and streamed', async () => {
    const Event = z.object({ name: z.string().min(1), day: z.enum(['monday', 'friday']) });
    const { output } = await generateText(ask({ output: Output.object({ schema: Event }) }));
    assert.deepEqual(Event.parse(output), output);
    const stream = streamText(ask({ output: Output.object({ schema: Event }) }));
    assert.deepEqual(Event.parse(await stream.output), await stream.output);
  });

  test('embeddings have one length, with usage', async () => {
    const { embeddings, usage } = await embedMany({ model: provider.embeddingModel('chat-small'), values: ['one', 'two'], maxRetries: 0 });
    assert.equal(embeddings.length, 2);
    assert.equal(embeddings[0].length, embeddings[1].length);
    assert.ok(usage.tokens > 0);
  });

  test('errors carry status and say whether to retry', async () => {
    for (const [model, status] of [[connect({ apiKey: 'tg-AAAAAAAAAA-wrong' })('chat-small'), 401], [provider('nothing'), 404]]) {
      await assert.rejects(generateText(ask({ model })), (error) => {
        assert.ok(APICallError.isInstance(error));
        assert.equal(error.statusCode, status);
        assert.equal(error.isRetryable, false);
        return true;
      });
    }
  });

  test('a failure of both engines is retried by the client', async () => {
    await stack.faultAll({ kind: '500', first: 2 });
    const { usage } = await generateText(ask({ maxOutputTokens: 4, maxRetries: 2 }));
    assert.equal(usage.outputTokens, 4);
    await stack.clearFaults();
  });

  test('an abort in mid-stream reaches the engine', async () => {
    const { cancelled } = await stack.engineSums();
    const controller = new AbortController();
    const stream = streamText(ask({
      maxOutputTokens: 4000, providerOptions: { tidegate: { ignore_eos: true } }, abortSignal: controller.signal, onError: () => {},
    }));
    for await (const part of stream.fullStream) {
      if (part.type === 'text-delta') controller.abort();
    }
    await eventually('cancelled', async () => (await stack.engineSums()).cancelled > cancelled);
  });
});
