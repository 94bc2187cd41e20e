// What the ledger says equals what clients were told: to the token, to the micro-dollar, request by request.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

import { eventually, PRICE, Stack } from './support/stack.mjs';

const RATE_HEADERS = ['limit', 'remaining', 'reset'].flatMap((what) => [`x-ratelimit-${what}-requests`, `x-ratelimit-${what}-tokens`]);
const HELLO = [{ role: 'user', content: 'Say hello' }];

describe('accounting', { timeout: 60_000 }, () => {
  let stack;
  let openai;
  let anthropic;
  const told = new Map(); // by request id: {input, cached, output}
  const refused = [];
  let next = 0;

  before(async () => {
    stack = await Stack.start({
      engines: [['--speed-up', '20'], ['--speed-up', '20'], { model: 'chat-large', kind: 'chat-only', flags: ['--speed-up', '20', '--only', 'chat'] }],
      // One cache domain: every client is told what its prompt had in a cache.
      tenants: [{ name: 'acme', models: ['*'], share_prefixes: 'acme', limits: { requests_per_minute: 100_000, tokens_per_minute: 50_000_000 } },
                { name: 'search', parent: 'acme' }],
      keys: { search: { tenant: 'acme/search' } },
    });
    openai = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.keys.search.secret, maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: stack.url, apiKey: stack.key, maxRetries: 0 });
  });
  after(() => stack?.stop());

  function remember(response, usage) {
    const id = response.headers.get('x-request-id') ?? response.headers.get('request-id');
    assert.match(id, /^req_[0-9a-f]{32}$/);
    assert.ok(!told.has(id), 'ids are unique');
    told.set(id, usage);
  }
  const ofChat = (usage) => ({ input: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens ?? 0, output: usage.completion_tokens ?? 0 });
  // The same prompt again and again, so that some of it is in the engines' prefix caches.
  const prompt = () => [{ role: 'system', content: 'You are a patient assistant of a harbour master. '.repeat(8) }, { role: 'user', content: `Question ${next++ % 4}` }];

  async function chat(model) {
    const { data, response } = await openai.chat.completions.create({ model, messages: prompt(), max_tokens: 5 + (next % 7) }).withResponse();
    remember(response, ofChat(data.usage));
  }
  async function stream(model, options) {
    const { data, response } = await openai.chat.completions
      .create({ model, messages: prompt(), max_tokens: 5 + (next % 7), stream: true, ...options })
      .withResponse();
    let usage;
    let deltas = 0;
    for await (const chunk of data) {
      usage = chunk.usage ?? usage;
      deltas += chunk.choices[0]?.delta.content ? 1 : 0;
    }
    // Without include_usage the client sees only text: one event a token.
    remember(response, usage ? ofChat(usage) : { output: deltas });
  }
  async function message(model) {
    const { data, response } = await anthropic.messages.create({ model, max_tokens: 8, messages: prompt().slice(1) }).withResponse();
    const { input_tokens: fresh, cache_read_input_tokens: cached, output_tokens: output } = data.usage;
    remember(response, { input: fresh + (cached ?? 0), cached: cached ?? 0, output });
  }
  async function embedding() {
    const { data, response } = await openai.embeddings.create({ model: 'chat-small', input: ['a', `b ${next++}`] }).withResponse();
    remember(response, { input: data.usage.prompt_tokens, cached: 0, output: 0 });
  }
  async function unknownModel() {
    const error = await openai.chat.completions.create({ model: 'nothing', messages: HELLO }).catch((e) => e);
    assert.ok(error instanceof OpenAI.NotFoundError);
    refused.push(error.requestID);
  }

  test('every answer says who served it, what it cost in time, and what is left', async () => {
    const { response } = await openai.chat.completions
      .create({ model: 'chat-small', messages: HELLO, max_tokens: 2 }, { headers: { 'x-request-id': 'mine-1' } })
      .withResponse();
    assert.match(response.headers.get('x-tidegate-replica'), /^engine-[01]$/);
    assert.match(response.headers.get('x-tidegate-queue-ms'), /^\d+$/);
    assert.match(response.headers.get('x-tidegate-overhead-us'), /^\d+$/);
    for (const name of RATE_HEADERS) assert.ok(response.headers.has(name), name);
    assert.equal(response.headers.get('x-ratelimit-limit-requests'), '100000');
    assert.match(response.headers.get('x-ratelimit-reset-requests'), /^(\d+(\.\d+)?(ms|s|m|h))+$/);
    assert.match(response.headers.get('x-request-id'), /^req_/, 'ours; the own one is in the ledger');
    remember(response, { output: 2 });
  });

  test('a mixed load runs', async () => {
    const work = [];
    for (let round = 0; round < 12; ++round) {
      for (const model of ['chat-small', 'chat-large']) {
        work.push(chat(model), stream(model, { stream_options: { include_usage: true } }), stream(model), message(model));
      }
      work.push(embedding(), unknownModel());
      if (round % 3 === 2) await Promise.all(work.splice(0));
    }
    await Promise.all(work);
  });

  test('a client that leaves is charged for what was made until then', async () => {
    const { cancelled } = await stack.engineSums();
    const { data, response } = await openai.chat.completions
      .create({ model: 'chat-small', messages: HELLO, max_tokens: 4000, ignore_eos: true, stream: true })
      .withResponse();
    let seen = 0;
    for await (const chunk of data) {
      seen += chunk.choices[0]?.delta.content ? 1 : 0;
      if (seen === 10) break;
    }
    await eventually('cancelled', async () => (await stack.engineSums()).cancelled > cancelled);
    remember(response, { leftAfter: seen });
  });

  test('the ledger has each request once, with what its client was told', async () => {
    await stack.stopGateway();
    const lines = await stack.run('audit', 'export', '--config', stack.configPath, '--format', 'jsonl');
    const records = lines.trim().split('\n').map((line) => JSON.parse(line));
    const closes = new Map(records.filter(({ kind }) => kind === 'close').map((record) => [record.request, record]));
    const opens = records.filter(({ kind }) => kind === 'open');
    assert.equal(opens.length, told.size, 'one open record for each request that was admitted');
    assert.equal(closes.size, told.size + refused.length);
    for (const [id, usage] of told) {
      const { input, cached, output, cost_micro_usd: cost, ...record } = closes.get(id);
      assert.equal(record.tenant.split('/')[0], 'acme');
      assert.equal(cost, (input - cached) * PRICE.input + cached * PRICE.cached_input + output * PRICE.output);
      if (usage.leftAfter) {
        assert.equal(record.reason, 'client_gone');
        assert.ok(output >= usage.leftAfter && output < 4000, `${output} tokens`);
        continue;
      }
      assert.equal(record.source, 'upstream');
      assert.ok(['done', 'length'].includes(record.reason), record.reason);
      assert.deepEqual({ input, cached, output, ...usage }, { input, cached, output }, id);
    }
    for (const id of refused) assert.equal(closes.get(id).error, 'model_not_found');
    assert.ok(records.some(({ client_request: id }) => id === 'mine-1'), "the client's own request id is kept");
    assert.ok([...told.values()].some(({ cached }) => cached > 0), 'some of it was cached');
  });

  test('usage adds up to the same', async () => {
    const lines = await stack.run('audit', 'export', '--config', stack.configPath, '--kind', 'close', '--format', 'jsonl');
    const sums = { requests: 0, input: 0, output: 0, cost: 0 };
    for (const line of lines.trim().split('\n')) {
      const record = JSON.parse(line);
      sums.requests += 1;
      sums.input += record.input;
      sums.output += record.output;
      sums.cost += record.cost_micro_usd;
    }
    // As JSON it is a list of rows, one a group.
    const rows = await stack.json('usage', '--config', stack.configPath, '--by', 'tenant,model', '--since', '1h', '--json');
    const total = (pick) => rows.reduce((sum, row) => sum + pick(row), 0);
    assert.equal(total((row) => row.requests), sums.requests);
    assert.equal(total((row) => row.input_tokens), sums.input);
    assert.equal(total((row) => row.output_tokens), sums.output);
    assert.equal(total((row) => row.cost_micro_usd), sums.cost);
  });

  test('the chain verifies', async () => {
    await stack.run('audit', 'verify', '--config', stack.configPath);
  });
});
