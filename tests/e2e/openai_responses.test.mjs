// The openai package's Responses API: on an engine that knows it, and translated for one that only knows chat.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

import { Stack } from './support/stack.mjs';

const TOOL = {
  type: 'function', name: 'get_weather', description: 'The weather of a city', strict: true,
  parameters: {
    type: 'object', properties: { city: { type: 'string', minLength: 1 } }, required: ['city'], additionalProperties: false,
  },
};

describe('openai responses', { timeout: 60_000 }, () => {
  let stack;
  let client;

  before(async () => {
    stack = await Stack.start({
      engines: [
        { model: 'native', flags: ['--speed-up', '20'] },
        { model: 'translated', kind: 'chat-only', flags: ['--speed-up', '20', '--only', 'chat'] },
      ],
    });
    client = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.key, maxRetries: 0 });
  });
  after(() => stack?.stop());

  for (const model of ['native', 'translated']) {
    describe(model, () => {
      test('a response is given, with usage', async () => {
        const response = await client.responses.create({
          model, input: 'Say hello', instructions: 'Be short', max_output_tokens: 12,
        });
        assert.equal(response.object, 'response');
        assert.match(response.id, /^resp_/);
        assert.ok(response.output_text.length > 0);
        assert.equal(response.usage.output_tokens, 12);
        assert.equal(response.usage.total_tokens, response.usage.input_tokens + 12);
        assert.equal(response.status, 'incomplete');
        assert.equal(response.incomplete_details.reason, 'max_output_tokens');
      });

      test('a stream gives what the whole response gives', async () => {
        const ask = { model, input: [{ role: 'user', content: 'Tell me of the sea' }], max_output_tokens: 20 };
        const whole = await client.responses.create(ask);
        let text = '';
        const kinds = new Set();
        let last;
        let sequence = -1;
        for await (const event of await client.responses.create({ ...ask, stream: true })) {
          assert.ok(event.sequence_number > sequence, 'events are numbered upwards');
          sequence = event.sequence_number;
          kinds.add(event.type);
          if (event.type === 'response.output_text.delta') text += event.delta;
          last = event;
        }
        assert.equal(text, whole.output_text);
        assert.ok(kinds.has('response.created') && kinds.has('response.output_item.added') && kinds.has('response.output_text.done'));
        assert.ok(['response.completed', 'response.incomplete'].includes(last.type), last.type);
        assert.equal(last.response.usage.output_tokens, 20);
      });

      test('the tokens of the input are counted', async () => {
        const ask = { model, input: 'Tell me of the sea', instructions: 'Be short' };
        const counted = await client.responses.inputTokens.count(ask);
        assert.equal(counted.object, 'response.input_tokens');
        if (model === 'native') {
          const response = await client.responses.create({ ...ask, max_output_tokens: 4 });
          assert.equal(counted.input_tokens, response.usage.input_tokens);
        } else {
          assert.ok(counted.input_tokens > 0); // estimated
        }
      });

      test('the streaming helper ends with the whole response', async () => {
        const stream = client.responses.stream({ model, input: 'Say hello', max_output_tokens: 10 });
        const final = await stream.finalResponse();
        assert.equal(final.usage.output_tokens, 10);
        assert.ok(final.output_text.length > 0);
      });

      test('a tool is called, whole and streamed alike', async () => {
        const ask = { model, input: 'What is the weather in Kiel?', tools: [TOOL], tool_choice: 'required' };
        const whole = await client.responses.create(ask);
        const call = whole.output.find((item) => item.type === 'function_call');
        assert.equal(call.name, 'get_weather');
        const wanted = JSON.parse(call.arguments);
        assert.equal(typeof wanted.city, 'string');

        let done;
        for await (const event of await client.responses.create({ ...ask, stream: true })) {
          if (event.type === 'response.function_call_arguments.done') done = event;
        }
        assert.deepEqual(JSON.parse(done.arguments), wanted);
      });

      test('what a tool gave goes back into the conversation', async () => {
        const input = [{ role: 'user', content: 'What is the weather in Kiel?' }];
        const first = await client.responses.create({ model, input, tools: [TOOL], tool_choice: 'required' });
        const call = first.output.find((item) => item.type === 'function_call');
        input.push(...first.output, { type: 'function_call_output', call_id: call.call_id, output: '{"degrees":12}' });
        const second = await client.responses.create({ model, input, tools: [TOOL], tool_choice: 'none', max_output_tokens: 7 });
        assert.equal(second.usage.output_tokens, 7);
      });

      test('structured output is parsed into its schema', async () => {
        const Event = z.object({ name: z.string().min(1), day: z.enum(['monday', 'friday']) });
        const response = await client.responses.parse({
          model, input: 'Plan something', text: { format: zodTextFormat(Event, 'event') },
        });
        assert.deepEqual(Event.parse(response.output_parsed), response.output_parsed);
      });

      test('a wrong request is the class that it should be', async () => {
        await assert.rejects(client.responses.create({ model, input: 42 }), OpenAI.BadRequestError);
        await assert.rejects(client.responses.create({ model: 'nothing', input: 'x' }), OpenAI.NotFoundError);
      });
    });
  }

  test('what chat cannot say is refused with its name, not dropped', async () => {
    await assert.rejects(
      client.responses.create({ model: 'translated', input: 'x', previous_response_id: 'resp_1' }),
      (error) => error instanceof OpenAI.BadRequestError && error.message.includes('previous_response_id'),
    );
  });

  test('an engine that breaks off fails the stream', async () => {
    for (const [model, engine] of [['native', 0], ['translated', 1]]) {
      await stack.engines[engine].fault({ kind: 'drop', arg: 4, first: 1 });
      const types = [];
      const consume = async () => {
        for await (const event of await client.responses.create({ model, input: 'Go', max_output_tokens: 50, stream: true })) {
          types.push(event.type);
          if (event.type === 'response.failed') throw new Error('failed');
        }
      };
      await assert.rejects(consume(), undefined, `${model}: ${types}`);
      assert.ok(!types.includes('response.completed'));
      await stack.engines[engine].clearFaults();
    }
  });
});
