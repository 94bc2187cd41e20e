// The openai package: files and batches; @anthropic-ai/sdk: batches of messages.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';

import { Stack } from './support/stack.mjs';

const line = (id, body, url = '/v1/chat/completions') => JSON.stringify({
  custom_id: id, method: 'POST', url, body: { model: 'chat-small', ...body },
});
const chat = (id) => line(id, { max_tokens: 6, messages: [{ role: 'user', content: `Question ${id}` }] });

describe('batches', { timeout: 120_000 }, () => {
  let stack;
  let client;
  let other;

  before(async () => {
    stack = await Stack.start({
      engines: [['--speed-up', '20']],
      tenants: [{ name: 'acme', models: ['*'] }, { name: 'other', models: ['*'] }],
      keys: { other: { tenant: 'other' } },
      files: {},
      batches: { max_in_flight: 8 },
    });
    client = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.key, maxRetries: 0 });
    other = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.keys.other.secret, maxRetries: 0 });
  });
  after(() => stack?.stop());

  const upload = async (lines) => client.files.create({ file: await toFile(Buffer.from(`${lines.join('\n')}\n`), 'in.jsonl'), purpose: 'batch' });
  const run = async (lines, endpoint = '/v1/chat/completions', more = {}) => {
    const file = await upload(lines);
    return client.batches.create({ input_file_id: file.id, endpoint, completion_window: '24h', ...more });
  };
  const ended = async (batch) => {
    for (;;) {
      const now = await client.batches.retrieve(batch.id);
      if (['completed', 'failed', 'cancelled', 'expired'].includes(now.status)) return now;
      await sleep(50);
    }
  };
  const results = async (id) => (await (await client.files.content(id)).text()).trim().split('\n').map(JSON.parse);

  test('a file is kept, listed, read and deleted', async () => {
    const text = 'some text\nof a user\n';
    const file = await client.files.create({ file: await toFile(Buffer.from(text), 'notes "1".txt'), purpose: 'user_data' });
    assert.equal(file.object, 'file');
    assert.equal(file.bytes, text.length);
    assert.equal(file.purpose, 'user_data');
    assert.equal((await client.files.retrieve(file.id)).id, file.id);
    assert.equal(await (await client.files.content(file.id)).text(), text);
    const listed = [];
    for await (const one of client.files.list({ purpose: 'user_data', limit: 1 })) listed.push(one.id);
    assert.deepEqual(listed, [file.id]);
    await assert.rejects(other.files.retrieve(file.id), OpenAI.NotFoundError);
    await assert.rejects(other.files.delete(file.id), OpenAI.NotFoundError);
    assert.equal((await client.files.delete(file.id)).deleted, true);
    await assert.rejects(client.files.content(file.id), OpenAI.NotFoundError);
  });

  test('a batch of chats gives one line for each, with its usage', async () => {
    const ids = Array.from({ length: 25 }, (_, i) => `q-${i}`);
    const batch = await run(ids.map(chat), undefined, { metadata: { purpose: 'a test' } });
    assert.equal(batch.object, 'batch');
    assert.equal(batch.metadata.purpose, 'a test');
    const now = await ended(batch);
    assert.equal(now.status, 'completed');
    assert.deepEqual(now.request_counts, { total: 25, completed: 25, failed: 0 });
    assert.ok(now.in_progress_at >= now.created_at && now.completed_at >= now.in_progress_at);
    assert.equal(now.expires_at, now.created_at + 86_400);
    assert.equal(now.error_file_id, null);
    const lines = await results(now.output_file_id);
    assert.deepEqual(lines.map((one) => one.custom_id).sort(), ids.sort());
    for (const one of lines) {
      assert.equal(one.error, null);
      assert.equal(one.response.status_code, 200);
      assert.equal(one.response.body.usage.completion_tokens, 6);
    }
    assert.equal(now.usage.output_tokens, 25 * 6);
    assert.equal((await client.files.retrieve(now.output_file_id)).purpose, 'batch_output');
    const listed = await client.batches.list({ limit: 1 });
    assert.equal(listed.data[0].id, batch.id);
    await assert.rejects(other.batches.retrieve(batch.id), OpenAI.NotFoundError);
    await assert.rejects(other.files.content(now.output_file_id), OpenAI.NotFoundError);
  });

  test('embeddings, completions and responses run as well', async () => {
    for (const [url, body] of [
      ['/v1/embeddings', { input: 'a text' }],
      ['/v1/completions', { prompt: 'Say', max_tokens: 3 }],
      ['/v1/responses', { input: 'Say', max_output_tokens: 16 }],
    ]) {
      const now = await ended(await run([line('one', body, url)], url));
      assert.equal(now.status, 'completed', url);
      assert.deepEqual(now.request_counts, { total: 1, completed: 1, failed: 0 }, url);
    }
  });

  test('a line that an engine refuses is in the error file', async () => {
    const now = await ended(await run([chat('good'), line('bad', { messages: [{ role: 'user', content: 'x' }], temperature: -1 })]));
    assert.equal(now.status, 'completed');
    assert.deepEqual(now.request_counts, { total: 2, completed: 1, failed: 1 });
    const [bad] = await results(now.error_file_id);
    assert.equal(bad.custom_id, 'bad');
    assert.equal(bad.response.status_code, 400);
    assert.ok(bad.response.body.error.message);
  });

  test('what is wrong with a file or a call is named', async () => {
    const failed = await ended(await run([chat('a'), chat('a'), '{']));
    assert.equal(failed.status, 'failed');
    assert.deepEqual(failed.errors.data.map((one) => [one.code, one.line]), [['duplicate_custom_id', 2], ['invalid_json_line', 3]]);
    const create = (more) => client.batches.create({ input_file_id: 'file-none', endpoint: '/v1/chat/completions', completion_window: '24h', ...more });
    await assert.rejects(create(), (error) => error instanceof OpenAI.NotFoundError && error.param === 'input_file_id');
    await assert.rejects(create({ endpoint: '/v1/moderations' }), (error) => error.status === 400 && error.param === 'endpoint');
    await assert.rejects(create({ completion_window: '5m' }), (error) => error.status === 400 && error.param === 'completion_window');
  });

  describe('of messages', () => {
    let messages;
    before(() => {
      messages = new Anthropic({ baseURL: stack.url, apiKey: stack.key, maxRetries: 0 }).messages.batches;
    });
    const request = (id, more = {}) => ({ custom_id: id, params: { model: 'chat-small', max_tokens: 6, messages: [{ role: 'user', content: `Question ${id}` }], ...more } });
    const end = async (batch) => {
      for (;;) {
        const now = await messages.retrieve(batch.id);
        if (now.processing_status === 'ended') return now;
        await sleep(50);
      }
    };
    const all = async (pages) => {
      const found = [];
      for await (const one of pages) found.push(one);
      return found;
    };

    test('a batch gives one result for each request, and is deleted with its files', async () => {
      const ids = Array.from({ length: 12 }, (_, i) => `m-${i}`);
      const batch = await messages.create({ requests: [...ids.map((id) => request(id)), request('bad', { temperature: -1 })] });
      assert.equal(batch.type, 'message_batch');
      assert.equal(batch.processing_status, 'in_progress');
      assert.equal(batch.results_url, null);
      const now = await end(batch);
      assert.deepEqual(now.request_counts, { processing: 0, succeeded: 12, errored: 1, canceled: 0, expired: 0 });
      assert.ok(Date.parse(now.ended_at) >= Date.parse(now.created_at));
      const results = await all(await messages.results(batch.id));
      assert.deepEqual(results.map((one) => one.custom_id).sort(), [...ids, 'bad'].sort());
      for (const one of results) {
        if (one.custom_id === 'bad') {
          assert.equal(one.result.type, 'errored');
          assert.equal(one.result.error.error.type, 'invalid_request_error');
          continue;
        }
        assert.equal(one.result.type, 'succeeded');
        assert.equal(one.result.message.role, 'assistant');
        assert.equal(one.result.message.usage.output_tokens, 6);
      }
      await assert.rejects(client.batches.retrieve(batch.id), OpenAI.NotFoundError, 'each API has its own batches');
      const before = (await all(client.files.list())).length;
      assert.equal((await messages.delete(batch.id)).type, 'message_batch_deleted');
      assert.equal((await all(client.files.list())).length, before - 2);
      await assert.rejects(messages.retrieve(batch.id), Anthropic.NotFoundError);
    });

    test('a cancelled batch keeps what was done', async () => {
      const batch = await messages.create({ requests: Array.from({ length: 200 }, (_, i) => request(`c-${i}`, { max_tokens: 200 })) });
      await assert.rejects(messages.results(batch.id), Anthropic.AnthropicError, 'it runs still');
      await assert.rejects(messages.delete(batch.id), (error) => error.status === 409);
      assert.equal((await messages.cancel(batch.id)).processing_status, 'canceling');
      const now = await end(batch);
      const { succeeded, canceled } = now.request_counts;
      assert.equal(succeeded + canceled, 200);
      assert.ok(canceled > 0);
      assert.ok(now.cancel_initiated_at);
      const results = await all(await messages.results(batch.id));
      assert.equal(results.length, 200);
      assert.equal(results.filter((one) => one.result.type === 'canceled').length, canceled);
    });

    test('batches are listed in pages, the newest first', async () => {
      const made = [];
      for (let i = 0; i < 3; ++i) made.unshift((await messages.create({ requests: [request('only')] })).id);
      const listed = (await all(messages.list({ limit: 2 }))).map((one) => one.id);
      assert.deepEqual(listed.slice(0, 3), made);
      const page = await messages.list({ limit: 1, before_id: made[2] });
      assert.deepEqual(page.data.map((one) => one.id), [made[1]]);
      assert.equal(page.has_more, true);
    });

    test('all are deleted while they are listed in pages', async () => {
      for (let i = 0; i < 5; ++i) await messages.create({ requests: [request('only')] });
      while ((await all(messages.list())).some((one) => one.processing_status !== 'ended')) await sleep(50);
      for await (const one of messages.list({ limit: 2 })) await messages.delete(one.id);
      assert.deepEqual(await all(messages.list()), []);
    });

    test('what is wrong with a request is said at once', async () => {
      const refused = (requests, words) => assert.rejects(messages.create({ requests }), (error) => {
        assert.equal(error.status, 400);
        assert.equal(error.error.error.type, 'invalid_request_error');
        for (const word of words) assert.ok(error.message.includes(word), `${word} in ${error.message}`);
        return true;
      });
      await refused([request('a'), request('a'), request('b', { model: 'none' }), request('c', { stream: true })],
        ['requests[1].custom_id', 'requests[2].params.model', 'requests[3].params.stream']);
      await refused([], ['requests']);
      await refused([{ custom_id: 'a' }], ['requests[0].params']);
    });
  });
});
