// @langchain/openai: chat, stream, tools, structured output, embeddings, errors and an abort.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';

import { eventually, Stack } from './support/stack.mjs';

describe('langchain', { timeout: 60_000 }, () => {
  let stack;

  function chat(fields = {}) {
    return new ChatOpenAI({
      model: 'chat-small', apiKey: stack.key, maxRetries: 0, configuration: { baseURL: stack.baseURL }, ...fields,
    });
  }
  const weather = tool(async ({ city }) => `${city}: 12 degrees`, {
    name: 'get_weather', description: 'The weather of a city', schema: z.object({ city: z.string().min(1) }),
  });

  before(async () => {
    stack = await Stack.start({ engines: [['--step-base', '2ms'], ['--step-base', '2ms']] });
  });
  after(() => stack?.stop());

  test('a chat is answered, with usage', async () => {
    const message = await chat({ maxTokens: 9 }).invoke('Say hello');
    assert.ok(message.content.length > 0);
    assert.equal(message.usage_metadata.output_tokens, 9);
    assert.equal(message.usage_metadata.total_tokens, message.usage_metadata.input_tokens + 9);
  });

  test('a stream brings text piece by piece, and usage at its end', async () => {
    let text = '';
    let pieces = 0;
    let usage;
    for await (const chunk of await chat({ maxTokens: 12, streamUsage: true }).stream('Say hello')) {
      text += chunk.content;
      pieces += chunk.content ? 1 : 0;
      usage = chunk.usage_metadata ?? usage;
    }
    assert.ok(pieces > 3 && text.length > 0);
    assert.equal(usage.output_tokens, 12);
  });

  test('a stream without usage has none', async () => {
    for await (const chunk of await chat({ maxTokens: 5, streamUsage: false }).stream('Say hello')) {
      assert.equal(chunk.usage_metadata, undefined);
    }
  });

  test('a tool is called with arguments that fit it', async () => {
    const message = await chat().bindTools([weather], { tool_choice: 'get_weather' }).invoke('What is the weather in Kiel?');
    const [call] = message.tool_calls;
    assert.equal(call.name, 'get_weather');
    assert.match(await weather.invoke(call.args), /: 12 degrees$/);
  });

  test('a tool is called in a stream', async () => {
    let whole;
    for await (const chunk of await chat().bindTools([weather], { tool_choice: 'get_weather' }).stream('What is the weather in Kiel?')) {
      whole = whole ? whole.concat(chunk) : chunk;
    }
    assert.equal(whole.tool_calls[0].name, 'get_weather');
    assert.equal(typeof whole.tool_calls[0].args.city, 'string');
  });

  test('structured output fits its schema', async () => {
    const Event = z.object({ name: z.string().min(1), day: z.enum(['monday', 'friday']) });
    for (const method of ['jsonSchema', 'functionCalling']) {
      const event = await chat().withStructuredOutput(Event, { name: 'event', method }).invoke('Plan something');
      assert.deepEqual(Event.parse(event), event);
    }
  });

  test('embeddings of documents have one length', async () => {
    const embeddings = new OpenAIEmbeddings({ model: 'chat-small', apiKey: stack.key, maxRetries: 0, configuration: { baseURL: stack.baseURL } });
    const [a, b] = await embeddings.embedDocuments(['one', 'two']);
    assert.equal(a.length, b.length);
    assert.notDeepEqual(a, b);
  });

  test('errors carry status and code', async () => {
    await assert.rejects(chat({ apiKey: 'tg-AAAAAAAAAA-wrong' }).invoke('Hello'), (error) => error.status === 401);
    await assert.rejects(chat({ model: 'nothing' }).invoke('Hello'), (error) => error.status === 404 && error.code === 'model_not_found');
  });

  test('an abort reaches the engine', async () => {
    const { cancelled } = await stack.engineSums();
    const controller = new AbortController();
    await assert.rejects(async () => {
      const stream = await chat({ maxTokens: 4000, modelKwargs: { ignore_eos: true } }).stream('Go on', { signal: controller.signal });
      for await (const _ of stream) controller.abort();
    }, /abort/i);
    await eventually('cancelled', async () => (await stack.engineSums()).cancelled > cancelled);
  });

  test('a time-out of the client reaches the engine', async () => {
    const { cancelled } = await stack.engineSums();
    const hasty = chat({ maxTokens: 4000, timeout: 300, modelKwargs: { ignore_eos: true } });
    await stack.impatiently(() => assert.rejects(hasty.invoke('Go on'), /timed out|timeout/i));
    await eventually('cancelled', async () => (await stack.engineSums()).cancelled > cancelled);
  });
});
