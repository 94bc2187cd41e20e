// The @anthropic-ai/sdk package: on an engine that knows the Messages API, and translated for one that only knows chat.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import { Stack } from './support/stack.mjs';

const TOOL = {
  name: 'get_weather',
  description: 'The weather of a city',
  input_schema: {
    type: 'object', properties: { city: { type: 'string', minLength: 1 } }, required: ['city'], additionalProperties: false,
  },
};
const HELLO = [{ role: 'user', content: 'Say hello' }];

describe('anthropic', { timeout: 60_000 }, () => {
  let stack;
  let client;

  before(async () => {
    stack = await Stack.start({
      engines: [
        { model: 'native', flags: ['--speed-up', '20'] },
        { model: 'translated', kind: 'chat-only', endpoint: { apis: ['chat', 'tokenize'] },
          flags: ['--speed-up', '20', '--only', 'chat', '--only', 'tokenize'] },
      ],
    });
    client = new Anthropic({ baseURL: stack.url, apiKey: stack.key, maxRetries: 0 });
  });
  after(() => stack?.stop());

  for (const model of ['native', 'translated']) {
    describe(model, () => {
      test('a message is answered, with usage and a request id', async () => {
        const { data: message, response } = await client.messages
          .create({ model, max_tokens: 12, system: 'Be kind', messages: HELLO })
          .withResponse();
        assert.equal(message.type, 'message');
        assert.equal(message.role, 'assistant');
        assert.equal(message.stop_reason, 'max_tokens');
        assert.equal(message.content[0].type, 'text');
        assert.ok(message.content[0].text.length > 0);
        assert.equal(message.usage.output_tokens, 12);
        assert.ok(message.usage.input_tokens > 0);
        assert.match(response.headers.get('request-id'), /^req_/);
        assert.equal(message._request_id, response.headers.get('request-id'));
      });

      test('a stream gives what the whole message gives', async () => {
        const ask = { model, max_tokens: 20, messages: HELLO };
        const whole = await client.messages.create(ask);
        const seen = [];
        const stream = client.messages.stream(ask).on('streamEvent', (event) => seen.push(event.type));
        const final = await stream.finalMessage();
        assert.equal(final.content[0].text, whole.content[0].text);
        assert.deepEqual(final.usage.output_tokens, 20);
        assert.equal(final.usage.input_tokens + (final.usage.cache_read_input_tokens ?? 0),
                     whole.usage.input_tokens + (whole.usage.cache_read_input_tokens ?? 0));
        assert.equal(seen[0], 'message_start');
        assert.equal(seen.at(-1), 'message_stop');
      });

      test('a tool is called, whole and streamed alike', async () => {
        const ask = {
          model, max_tokens: 300, tools: [TOOL], tool_choice: { type: 'any' },
          messages: [{ role: 'user', content: 'What is the weather in Kiel?' }],
        };
        const whole = await client.messages.create(ask);
        assert.equal(whole.stop_reason, 'tool_use');
        const use = whole.content.find((block) => block.type === 'tool_use');
        assert.equal(use.name, 'get_weather');
        assert.equal(typeof use.input.city, 'string');
        const streamed = await client.messages.stream(ask).finalMessage();
        assert.deepEqual(streamed.content.find((block) => block.type === 'tool_use').input, use.input);
      });

      test('what a tool gave goes back into the conversation', async () => {
        const messages = [{ role: 'user', content: 'What is the weather in Kiel?' }];
        const first = await client.messages.create({ model, max_tokens: 300, tools: [TOOL], tool_choice: { type: 'tool', name: 'get_weather' }, messages });
        const use = first.content.find((block) => block.type === 'tool_use');
        messages.push({ role: 'assistant', content: first.content });
        messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: '12 degrees' }] });
        const second = await client.messages.create({ model, max_tokens: 9, tools: [TOOL], tool_choice: { type: 'none' }, messages });
        assert.equal(second.usage.output_tokens, 9);
      });

      test('the tool runner keeps the conversation that the gateway does not keep', async () => {
        const asked = [];
        const run = { ...TOOL, run: () => '12 degrees', parse: (input) => input };
        const keeping = new Anthropic({
          baseURL: stack.url, apiKey: stack.key, maxRetries: 0,
          fetch: (url, init) => { asked.push(JSON.parse(init.body)); return fetch(url, init); },
        });
        await keeping.beta.messages.toolRunner({
          model, max_tokens: 300, max_iterations: 2, tools: [run], tool_choice: { type: 'any' }, messages: HELLO,
        });
        const answered = asked.filter((body) => !body.thread);
        assert.deepEqual(answered.map((body) => body.messages.length), [1, 3]);
        assert.equal(asked.length, 3, 'one request asked in vain for a conversation that is kept');
        const ask = { model, max_tokens: 9, messages: HELLO, thread: { type: 'create' } };
        await assert.rejects(client.beta.messages.create(ask), Anthropic.ThreadUnsupportedRequestError ?? Anthropic.BadRequestError);
      });

      test('tokens are counted as the engine charges them', async () => {
        const { input_tokens: counted } = await client.messages.countTokens({ model, messages: HELLO });
        const message = await client.messages.create({ model, max_tokens: 1, messages: HELLO });
        const { input_tokens: charged, cache_read_input_tokens: cached } = message.usage;
        assert.equal(counted, charged + (cached ?? 0));
      });

      test('an engine that breaks off fails the stream', async () => {
        const engine = stack.engines[model === 'native' ? 0 : 1];
        await engine.fault({ kind: 'drop', arg: 4, first: 1 });
        let text = '';
        const stream = client.messages.stream({ model, max_tokens: 100, messages: HELLO }).on('text', (delta) => { text += delta; });
        await assert.rejects(stream.finalMessage(), Anthropic.AnthropicError);
        assert.ok(text.length > 0, 'what came before the break was relayed');
        await engine.clearFaults();
      });

      test('errors are the classes that they should be', async () => {
        await assert.rejects(client.messages.create({ model, max_tokens: 5, messages: 'x' }), Anthropic.BadRequestError);
        await assert.rejects(client.messages.create({ model: 'nothing', max_tokens: 5, messages: HELLO }), (error) => {
          assert.ok(error instanceof Anthropic.NotFoundError);
          assert.equal(error.type, 'not_found_error');
          assert.equal(error.error.type, 'error');
          assert.match(error.message, /native/, 'it says what the key may use');
          return true;
        });
      });
    });
  }

  test('a wrong key is an authentication error', async () => {
    const stranger = new Anthropic({ baseURL: stack.url, apiKey: 'tg-0000000000-nothing', maxRetries: 0 });
    await assert.rejects(stranger.messages.create({ model: 'native', max_tokens: 5, messages: HELLO }), (error) => {
      assert.ok(error instanceof Anthropic.AuthenticationError);
      assert.equal(error.type, 'authentication_error');
      return true;
    });
  });

  test('models are listed in this protocol for its clients', async () => {
    const ids = [];
    for await (const model of client.models.list()) {
      assert.equal(model.type, 'model');
      ids.push(model.id);
    }
    assert.deepEqual(ids.sort(), ['native', 'translated']);
  });
});
