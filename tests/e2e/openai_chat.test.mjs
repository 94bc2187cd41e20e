// The openai package: chat, streams, tools, structured output, embeddings, completions and models.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

import { Stack } from './support/stack.mjs';

const WEATHER = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', minLength: 1 }, unit: { type: 'string', enum: ['c', 'f'] } },
      required: ['city', 'unit'],
      additionalProperties: false,
    },
  },
};
const HELLO = [{ role: 'user', content: 'Say hello' }];

describe('openai', { timeout: 60_000 }, () => {
  let stack;
  let client;

  before(async () => {
    stack = await Stack.start({
      engines: [['--speed-up', '20'], ['--speed-up', '20']],
      models: { 'chat-small': { aliases: ['gpt-4o-mini'], context: 32768 } },
      tenants: [{ name: 'acme', models: ['*'], limits: { tokens_per_minute: 2_000_000 } }],
    });
    client = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.key, maxRetries: 0 });
  });
  after(() => stack?.stop());

  test('a chat is answered, with exact usage', async () => {
    const answer = await client.chat.completions.create({ model: 'chat-small', messages: HELLO, max_tokens: 12 });
    assert.equal(answer.object, 'chat.completion');
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.ok(answer.choices[0].message.content.length > 0);
    assert.equal(answer.usage.completion_tokens, 12);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 12);
  });

  test('a request that sets no bound is served under a token limit, with none made up that the engine refuses', async () => {
    const answer = await client.chat.completions.create({ model: 'chat-small', messages: [{ role: 'user', content: 'no bound 4710' }] });
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.deepEqual(Object.keys(JSON.parse((await stack.lastRequest('no bound 4710')).body)), ['model', 'messages']);
  });

  test('an alias reaches the model, and the engine sees its own name', async () => {
    const answer = await client.chat.completions.create({
      model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'by an alias 4711' }], max_tokens: 3,
    });
    assert.equal(answer.usage.completion_tokens, 3);
    const seen = JSON.parse((await stack.lastRequest('by an alias 4711')).body);
    assert.equal(seen.model, 'chat-small');
  });

  test('fields that nobody knows pass to the engine untouched', async () => {
    const messages = [{ role: 'user', content: 'unknown fields 4712' }];
    await client.chat.completions.create({ model: 'chat-small', messages, max_tokens: 2, x_new_field: { a: [1, null, 'ü'] } });
    const seen = JSON.parse((await stack.lastRequest('unknown fields 4712')).body);
    assert.deepEqual(seen, { model: 'chat-small', messages, max_tokens: 2, x_new_field: { a: [1, null, 'ü'] } });
  });

  test('n answers come, each with its index', async () => {
    const answer = await client.chat.completions.create({ model: 'chat-small', messages: HELLO, max_tokens: 5, n: 3 });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
    assert.equal(answer.usage.completion_tokens, 15);
  });

  test('a stream gives what the whole answer gives', async () => {
    const ask = { model: 'chat-small', messages: HELLO, max_tokens: 20, seed: 7 };
    const whole = await client.chat.completions.create(ask);
    let text = '';
    let finish;
    for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) {
      assert.equal(chunk.object, 'chat.completion.chunk');
      assert.equal(chunk.choices.length, 1, 'no chunk of usage where none was asked for');
      assert.ok(!chunk.usage, 'the usage that the gateway asks for itself is not shown');
      text += chunk.choices[0].delta.content ?? '';
      finish = chunk.choices[0].finish_reason ?? finish;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(finish, 'length');
  });

  test('a stream with usage ends with one chunk of it', async () => {
    const stream = await client.chat.completions.create({
      model: 'chat-small', messages: HELLO, max_tokens: 9, stream: true, stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.completion_tokens, 9);
    for (const chunk of chunks) assert.equal(chunk.usage, null);
  });

  test('the events of a stream arrive as they are made', async () => {
    // No more than these come: a relay that gathers events would wait for others.
    await stack.faultAll({ kind: 'stall', arg: 5 });
    const stream = await client.chat.completions.create({
      model: 'chat-small', messages: HELLO, max_tokens: 400, ignore_eos: true, stream: true,
    });
    await stack.clearFaults();
    let contents = 0;
    for await (const chunk of stream) if (chunk.choices[0].delta.content && ++contents === 5) break;
    assert.equal(contents, 5);
  });

  test('the streaming helper accumulates content and usage', async () => {
    const stream = client.chat.completions.stream({
      model: 'chat-small', messages: HELLO, max_tokens: 11, stream_options: { include_usage: true },
    });
    let heard = '';
    stream.on('content', (delta) => { heard += delta; });
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices[0].message.content, heard);
    assert.equal((await stream.totalUsage()).completion_tokens, 11);
  });

  test('a tool is called, whole and streamed alike', async () => {
    const ask = {
      model: 'chat-small', seed: 3, tools: [WEATHER], tool_choice: 'required',
      messages: [{ role: 'user', content: 'What is the weather in Kiel?' }],
    };
    const whole = await client.chat.completions.create(ask);
    assert.equal(whole.choices[0].finish_reason, 'tool_calls');
    const [call] = whole.choices[0].message.tool_calls;
    assert.equal(call.function.name, 'get_weather');
    const wanted = JSON.parse(call.function.arguments);
    assert.ok(['c', 'f'].includes(wanted.unit));

    const streamed = await client.chat.completions.stream(ask).finalChatCompletion();
    assert.equal(streamed.choices[0].finish_reason, 'tool_calls');
    assert.deepEqual(JSON.parse(streamed.choices[0].message.tool_calls[0].function.arguments), wanted);
  });

  test('what a tool gave goes back into the conversation', async () => {
    const messages = [{ role: 'user', content: 'What is the weather in Kiel?' }];
    const first = await client.chat.completions.create({ model: 'chat-small', messages, tools: [WEATHER], tool_choice: 'required' });
    const { message } = first.choices[0];
    messages.push(message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '{"degrees":12}' });
    const second = await client.chat.completions.create({ model: 'chat-small', messages, tools: [WEATHER], tool_choice: 'none', max_tokens: 8 });
    assert.equal(second.usage.completion_tokens, 8);
  });

  test('structured output is parsed into its schema', async () => {
    const Event = z.object({ name: z.string().min(1), day: z.enum(['monday', 'friday']), guests: z.array(z.string()).min(1).max(3) });
    const answer = await client.chat.completions.parse({
      model: 'chat-small', messages: HELLO, response_format: zodResponseFormat(Event, 'event'),
    });
    assert.deepEqual(Event.parse(answer.choices[0].message.parsed), answer.choices[0].message.parsed);
  });

  test('completions of the old kind work, whole and streamed', async () => {
    const ask = { model: 'chat-small', prompt: 'Once upon a time', max_tokens: 6, seed: 1 };
    const whole = await client.completions.create(ask);
    assert.equal(whole.usage.completion_tokens, 6);
    let text = '';
    for await (const chunk of await client.completions.create({ ...ask, stream: true })) text += chunk.choices[0].text;
    assert.equal(text, whole.choices[0].text);
  });

  test('embeddings come as numbers, and as base64 where the client asks', async () => {
    const input = ['one', 'two'];
    const floats = await client.embeddings.create({ model: 'chat-small', input, encoding_format: 'float' });
    const decoded = await client.embeddings.create({ model: 'chat-small', input }); // the SDK asks for base64 itself
    assert.equal(floats.data.length, 2);
    assert.equal(floats.data[0].embedding.length, decoded.data[0].embedding.length);
    for (const [i, value] of floats.data[1].embedding.entries()) {
      assert.ok(Math.abs(value - decoded.data[1].embedding[i]) < 1e-6);
    }
    assert.ok(floats.usage.prompt_tokens > 0);
  });

  test('models are listed and found, aliases too', async () => {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids.sort(), ['chat-small', 'gpt-4o-mini']);
    assert.equal((await client.models.retrieve('gpt-4o-mini')).object, 'model');
    await assert.rejects(client.models.retrieve('nothing'), OpenAI.NotFoundError);
  });
});

describe('two engines of which nothing is known yet', { timeout: 60_000 }, () => {
  let stack;

  before(async () => { stack = await Stack.start({ engines: [['--speed-up', '20'], ['--speed-up', '20']] }); });
  after(() => stack?.stop());

  test('share what comes at once', async () => {
    const client = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.key });
    await Promise.all(Array.from({ length: 20 }, () => client.chat.completions.create({
      model: 'chat-small', messages: HELLO, max_tokens: 400, ignore_eos: true,  // so that none ends before all have come
    })));
    for (const engine of stack.engines) {
      assert.ok((await engine.stats()).requests.received >= 5, `${engine.name} had its share`);
    }
  });
});
