// The openai package: feedback on answers; data sets of it, and models compared by them.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import OpenAI from 'openai';

import { Stack, eventually } from './support/stack.mjs';

describe('feedback', { timeout: 120_000 }, () => {
  let stack;
  let client;
  let other;

  const connect = () => {
    client = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.key, maxRetries: 0 });
    other = new OpenAI({ baseURL: stack.baseURL, apiKey: stack.keys.other.secret, maxRetries: 0 });
  };
  before(async () => {
    stack = await Stack.start({
      engines: [{ flags: ['--speed-up', '20'] }, { model: 'chat-large', flags: ['--speed-up', '20'] }],
      tenants: [{ name: 'acme', models: ['*'], store_content: 'full' }, { name: 'other', models: ['*'] }],
      keys: { other: { tenant: 'other' }, slow: { tenant: 'acme', limits: { requests_per_minute: 3 } } },
      files: {},
      datasets: { redact: [{ name: 'customer', pattern: 'K-[0-9]{4}' }] },
    });
    connect();
  });
  after(() => stack?.stop());

  // The id of a request that was answered.
  const ask = async (content = 'Hello', by = client, more = {}) => {
    const answer = await by.chat.completions.create({ model: 'chat-small', max_tokens: 6, messages: [{ role: 'user', content }], ...more });
    return answer._request_id;
  };
  const say = (id, value, { name = 'helpful', by = client, ...more } = {}) =>
    by.post('/feedback', { body: { request_id: id, name, value, ...more } });
  const rates = async (...args) =>
    JSON.parse(await stack.run('usage', '--by', 'feedback', '--json', '--config', stack.configPath, ...args));
  const records = async (kind) =>
    (await stack.run('audit', 'export', '--config', stack.configPath, '--kind', kind)).trim().split('\n').filter(Boolean).map(JSON.parse);
  // Runs a command that may fail; what it printed and its exit code.
  const command = (...args) => new Promise((resolve) => {
    execFile(process.env.TIDEGATE, args, { env: { ...process.env, TIDEGATE_URL: stack.url, TIDEGATE_KEY: stack.key } },
      (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }));
  });

  test('a judgement is taken, shown, replaced and counted by model and version', async () => {
    const ids = await Promise.all([ask(), ask(), ask()]);
    const first = await say(ids[0], false, { comment: 'too long', correction: 'Hi!' });
    assert.equal(first.object, 'feedback');
    assert.equal(first.request_id, ids[0]);
    assert.equal(first.model, 'chat-small');
    assert.equal(first.comment, 'too long');
    await say(ids[1], true);
    await say(ids[2], false);
    await say(ids[2], true);
    await say(ids[2], 4.5, { name: 'score' });
    const list = await client.get(`/feedback?request_id=${ids[2]}`);
    assert.deepEqual(list.data.map((one) => [one.name, one.value]), [['helpful', true], ['score', 4.5]]);
    const rows = await rates();
    const helpful = rows.find((row) => row.name === 'helpful');
    assert.equal(helpful.model, 'chat-small');
    assert.ok(helpful.version);
    assert.equal(helpful.count, 3);
    assert.equal(helpful.positive, 2);
    assert.ok(helpful.rate_low < 2 / 3 && helpful.rate_high > 2 / 3);
    assert.equal(rows.find((row) => row.name === 'score').mean, 4.5);
    const metrics = await (await fetch(`${stack.admin}/metrics`)).text();
    assert.match(metrics, /tidegate_feedback_total\{model="chat-small",value="true"\} 2/);
  });

  test('a stream takes feedback before it has ended', async () => {
    const { data: stream, response } = await client.chat.completions.create({
      model: 'chat-small', stream: true, max_tokens: 40, messages: [{ role: 'user', content: 'A long one' }],
    }).withResponse();
    const id = response.headers.get('x-request-id');
    await say(id, 'fine', { name: 'tone' });
    for await (const part of stream) assert.ok(part);
    const one = await eventually('the version, known once the request has ended',
      async () => (await client.get(`/feedback?request_id=${id}`)).data.find((each) => each.version));
    assert.equal(one.value, 'fine');
  });

  test('requests of other tenants do not exist, and strangers leave no records', async () => {
    const id = await ask();
    const none = `req_${'0'.repeat(32)}`;
    const problems = [];
    for (const request of [id, none]) {
      await assert.rejects(say(request, true, { by: other }), (error) => {
        problems.push(error.message.replace(request, 'ID'));
        return error instanceof OpenAI.NotFoundError && error.code === 'not_found';
      });
    }
    assert.equal(problems[0], problems[1]);
    const before = (await records('feedback,close')).length;
    const answers = await Promise.all(Array.from({ length: 60 }, () =>
      stack.fetch('/v1/feedback', { key: 'tg-nobody', body: { request_id: id, name: 'helpful', value: true } })));
    assert.ok(answers.every((answer) => [401, 429].includes(answer.status)));
    assert.equal((await records('feedback,close')).length, before);
  });

  test('wrong calls are told what would be right', async () => {
    const id = await ask();
    const good = { request_id: id, name: 'helpful', value: true };
    const cases = [
      [{ ...good, value: null }, 400, 'invalid_type', 'value'],
      [{ ...good, name: 'a b' }, 400, 'invalid_value', 'name'],
      [{ name: 'helpful', value: true }, 400, 'missing_required_parameter', 'request_id'],
      [{ ...good, score: 1 }, 400, 'unsupported_parameter', 'score'],
      [{ ...good, comment: 'x'.repeat(5000) }, 400, 'invalid_value', 'comment'],
      ['{"request_id"', 400, 'invalid_json', null],
      [{ ...good, request_id: '../../etc/passwd' }, 404, 'not_found', 'request_id'],
      [{ ...good, correction: 'x'.repeat(1 << 20) }, 413, 'request_too_large', null],
    ];
    for (const [body, status, code, param] of cases) {
      const answer = await stack.fetch('/v1/feedback', { body });
      const { error } = await answer.json();
      assert.deepEqual([answer.status, error.code, error.param ?? null], [status, code, param], JSON.stringify(body).slice(0, 80));
    }
    assert.equal((await stack.fetch('/v1/feedback', { method: 'DELETE' })).status, 405);
    assert.equal((await stack.fetch('/v1/feedback')).status, 400);
    const slow = stack.keys.slow.secret;
    const statuses = [];
    for (let i = 0; i < 4; ++i) statuses.push((await stack.fetch('/v1/feedback', { key: slow, body: good })).status);
    assert.deepEqual(statuses, [200, 200, 200, 429]);
  });

  test('a data set has what was judged, redacted, with its manifest', async () => {
    const bad = await ask('Customer K-1234, ada@example.com, sk-proj-0123456789abcdef0123: why?');
    const stream = await client.chat.completions.create({
      model: 'chat-small', stream: true, max_tokens: 5, messages: [{ role: 'user', content: 'Streamed' }],
    }).withResponse();
    for await (const part of stream.data) assert.ok(part);
    await say(bad, 1, { name: 'stars', correction: 'Because, K-9999.' });
    await say(stream.response.headers.get('x-request-id'), 2, { name: 'stars' });
    await say(await ask('Not kept', other), 1, { name: 'stars', by: other });
    const out = join(stack.folder, 'bad.jsonl');
    const where = 'feedback.stars <= 2 and model = chat-small';
    const made = await command('dataset', 'export', '--config', stack.configPath, '--where', where, '--out', out, '--json');
    assert.equal(made.code, 0, made.stderr);
    const text = await readFile(out, 'utf8');
    const lines = text.trim().split('\n').map(JSON.parse);
    assert.equal(lines.length, 2);
    assert.equal(lines[0].messages[0].content, 'Customer [customer], [email], [api_key]: why?');
    assert.ok(lines.every((line) => line.messages.at(-1).role === 'assistant' && line.messages.at(-1).content));
    const manifest = JSON.parse(await readFile(`${out}.manifest.json`, 'utf8'));
    assert.equal(manifest.sha256, createHash('sha256').update(text).digest('hex'));
    assert.equal(manifest.where, where);
    assert.equal(manifest.counts.not_kept, 1);
    assert.deepEqual(manifest.redactions, { api_key: 1, customer: 1, email: 1 });
    const corrected = await command('dataset', 'export', '--config', stack.configPath, '--where', 'corrected = true and feedback.stars = 1', '--use-corrections');
    assert.equal(JSON.parse(corrected.stdout).messages.at(-1).content, 'Because, [customer].');
    const again = await command('dataset', 'export', '--config', stack.configPath, '--out', out);
    assert.equal(again.code, 1);
    assert.match(again.stderr, /exists: name another file/);
    const wrong = await command('dataset', 'export', '--where', 'modle = x', '--config', stack.configPath, '--out', join(stack.folder, 'no.jsonl'));
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /character 1: unknown field "modle", did you mean "model"/);
    assert.ok(!existsSync(join(stack.folder, 'no.jsonl')) && !existsSync(join(stack.folder, 'no.jsonl.part')));
  });

  test('two models are compared by a data set', async () => {
    const set = join(stack.folder, 'set.jsonl');
    await ask('Compare me').then((id) => say(id, true, { name: 'compared' }));
    const made = await command('dataset', 'export', '--config', stack.configPath, '--where', 'feedback.compared exists', '--out', set);
    assert.equal(made.code, 0, made.stderr);
    const page = join(stack.folder, 'comparison.html');
    const run = await command('dataset', 'evaluate', '--set', set, '--models', 'chat-small,chat-large', '--max-tokens', '8', '--html', page, '--json');
    assert.equal(run.code, 0, run.stderr);
    const { models, rows } = JSON.parse(run.stdout);
    assert.deepEqual(models.map((model) => [model.model, model.answered, model.failed]), [['chat-small', 1, 0], ['chat-large', 1, 0]]);
    assert.equal(rows[0].question, 'Compare me');
    assert.ok(rows[0].reference);
    for (const answer of rows[0].answers) {
      assert.ok(answer.text && answer.output_tokens > 0 && answer.cost_usd > 0 && answer.latency_s >= 0);
    }
    assert.match(await readFile(page, 'utf8'), /<th>chat-large<\/th>/);

    const { secret } = await stack.json('keys', 'create', '--config', stack.configPath, '--admin', 'admin', '--json');
    const evaluations = async (path = '') =>
      (await fetch(`${stack.admin}/admin/v1/evaluations${path}`, { headers: { authorization: `Bearer ${secret}` } })).json();
    const list = await evaluations();
    assert.deepEqual(list.data.map((each) => [each.set, each.models, each.state, each.completed]), [['set.jsonl', ['chat-small', 'chat-large'], 'completed', 2]]);
    const { id } = list.data[0];
    const shown = await evaluations(`/${id}`);
    assert.deepEqual(shown.data, rows);
    assert.deepEqual(shown.models, models);
    const again = await command('dataset', 'evaluate', '--batch', id, '--delete-files', '--json');
    assert.equal(again.code, 0, again.stderr);
    assert.deepEqual(JSON.parse(again.stdout).rows, rows);
    assert.match((await evaluations(`/${id}`)).error.message, /no longer kept/);
    assert.equal((await records('admin')).filter((record) => record.action === 'evaluation.read').length, 1);
    const wrong = await command('dataset', 'evaluate', '--set', set, '--models', 'chat-small,none');
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /none/);
  });

  test('what was acknowledged survives kill -9', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => ask()));
    const acknowledged = new Set();
    const calls = ids.flatMap((id) => [1, 2, 3].map((n) => `n${n}`).map((name) =>
      say(id, true, { name, comment: 'kept' }).then(() => acknowledged.add(`${id} ${name}`), () => {})));
    await Promise.race(calls);
    await stack.killGateway();
    await Promise.all(calls);
    assert.ok(acknowledged.size > 0);
    await stack.startGateway();
    connect();
    const found = new Set();
    for (const id of ids) {
      for (const one of (await client.get(`/feedback?request_id=${id}`)).data) {
        assert.equal(one.comment, 'kept');
        found.add(`${id} ${one.name}`);
      }
    }
    for (const one of acknowledged) assert.ok(found.has(one), one);
  });
});
