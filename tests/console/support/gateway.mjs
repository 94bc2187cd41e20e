// The demo on free ports and in a folder of its own: a gateway, its engines, a training job and some requests.
// stop() ends everything that was started, by its process id.
//
// TIDEGATE and TIDEGATE_ENGINE name the binaries, TIDEGATE_ROOT the repository.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

const START_MS = 30_000;
const STOP_MS = 30_000;
const root = process.env.TIDEGATE_ROOT;

function binary(name) {
  assert.ok(process.env[name], `${name} must name the binary; ctest sets it`);
  return process.env[name];
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function eventually(what, check, timeout = 20_000) {
  const until = performance.now() + timeout;
  for (;;) {
    const found = await check().catch(() => undefined);
    if (found) return found;
    if (performance.now() > until) assert.fail(`not within ${timeout} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// A model beside the demo's: it loads adapters, and its version v2 waits at the first step of a rollout.
const TUNED = 'chat-tuned';
const engine = (speed) => `engine: vllm, command: [tidegate-engine, --listen, "{host}", --port, "{port}", --model, ${TUNED}, --enable-lora, --lora-load, 5ms, --preset, ${speed}, --load-time, 0s]`;
const POLICY = `model: ${TUNED}
replicas: {min: 1, max: 1}
scaling: {policy: demand}
version: v1
replica: {${engine('demo')}}
rollout:
  version: v2
  replica: {${engine('instant')}}
  steps: [25, 50, 100]
  hold: 1h
  patience: 2h
  min_requests: 1000
`;

// Without the section scaling; the only endpoint is never up.
const UNSCALED = `server: {listen: 127.0.0.1:8080, admin: 127.0.0.1:9090, state_dir: ./var/demo, shutdown_delay: 0s, shutdown_grace: 5s}
tenants:
  - {name: demo, models: ["*"], limits: {requests_per_minute: 600}, self_service: true}
  - {name: research, parent: demo, limits: {requests_per_minute: 300}}
models:
  - {name: chat-small, price: {input: 0.15, output: 0.6}, endpoints: [{url: http://127.0.0.1:9, engine: vllm}]}
`;

export class Gateway {
  // `tuned`: with the model above; `scaled`: the demo, whose models are.
  static async start({ tuned = false, scaled = true } = {}) {
    const gateway = new Gateway();
    gateway.folder = await mkdtemp(join(tmpdir(), 'tidegate-console-'));
    const [listen, admin] = [await freePort(), await freePort()];
    gateway.url = `http://127.0.0.1:${listen}`;
    gateway.admin = `http://127.0.0.1:${admin}`;
    gateway.config = join(gateway.folder, 'tidegate.yaml');
    const demo = scaled ? await readFile(join(root, 'conf/demo.yaml'), 'utf8') : UNSCALED;
    const declared = tuned ? await gateway.declareTuned(demo) : demo;
    await writeFile(gateway.config, declared
      .replace('127.0.0.1:8080', `127.0.0.1:${listen}`)
      .replace('127.0.0.1:9090', `127.0.0.1:${admin}`)
      .replace(/state_dir: [^,\n]*/, `state_dir: ${gateway.folder}/state`));
    const secret = async (...flags) => (await gateway.run('keys', 'create', '--name', 'tests', ...flags)).trim();
    gateway.key = await secret('--tenant', 'demo/research');
    gateway.adminKey = await secret('--admin', 'admin');
    await gateway.serve();
    return gateway;
  }

  // The demo with the model; the folder of an adapter is as engines expect it.
  async declareTuned(demo) {
    this.adapters = join(this.folder, 'adapters');
    await mkdir(join(this.adapters, 'sql'), { recursive: true });
    await writeFile(join(this.adapters, 'sql/adapter_config.json'), '{}');
    const policy = join(this.folder, `${TUNED}.yaml`);
    await writeFile(policy, POLICY);
    return demo
      .replace('\nscaling:', `  - name: ${TUNED}\n    price: {input: 0.20, output: 0.80}\n    adapters: {sources: [${this.adapters}]}\n\nscaling:`)
      .replace('conf/demo/chat-large.yaml]', `conf/demo/chat-large.yaml, ${policy}]`);
  }

  async serve() {
    this.output = '';
    this.process = spawn(binary('TIDEGATE'), ['serve', '--config', this.config], {
      cwd: root, stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, PATH: `${dirname(binary('TIDEGATE_ENGINE'))}${delimiter}${process.env.PATH}` },
    });
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on('data', (data) => { this.output += data; });
    this.exited = new Promise((resolve) => { this.process.on('exit', (code) => { this.ended = true; resolve(code); }); });
    process.once('exit', () => { if (!this.ended) this.process.kill('SIGKILL'); });
    await eventually(`the gateway is ready:\n${this.output}`, async () => (await fetch(`${this.admin}/readyz`)).ok, START_MS);
  }

  async run(...args) {
    const { stdout } = await promisify(execFile)(binary('TIDEGATE'), [...args, '--config', this.config], {
      cwd: root, env: { ...process.env, TIDEGATE_ADMIN_KEY: this.adminKey ?? '' },
    });
    return stdout;
  }

  async signInLink(...flags) {
    return (await this.run('console', 'login', ...flags)).trim();
  }

  async call(path, body) {
    const answer = await fetch(`${this.admin}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${this.adminKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return answer.json();
  }

  // A training job, and requests of a tenant, until the ledger has them.
  async use(requests = 6) {
    const job = (await readFile(join(root, 'conf/demo/training.yaml'), 'utf8')).replace('./var/demo/training', `${this.folder}/training`);
    // A gateway serves requests before it knows what runs, and takes jobs after that.
    await eventually('the job is taken', async () => (await this.call('/admin/v1/jobs', { job })).jobs.length > 0);
    await eventually('a replica answers', async () => (await this.chat('chat-small')).ok, START_MS);
    await Promise.all(Array.from({ length: requests }, () => this.chat('chat-small')));
    await eventually('the ledger has the requests', async () => (await this.call('/admin/v1/usage?by=model')).data.some((row) => row.requests > requests));
  }

  // The rollout has reached its first step, and both versions have answered.
  async tryBothVersions() {
    const rollout = async () => (await this.call('/admin/v1/rollouts')).data[0];
    await eventually('the first step has begun', async () => (await rollout()).percent === 25, START_MS);
    await eventually('both versions have answered', async () => {
      await Promise.all(Array.from({ length: 8 }, () => this.chat(TUNED)));
      const { new: fresh, old } = await rollout();
      return fresh.tries > 0 && old.tries > 0;
    }, START_MS);
  }

  // A model under its two names compared by a set of two examples; the id of the batch.
  async evaluate() {
    const set = join(this.folder, 'set.jsonl');
    const example = (question, answer) => JSON.stringify({ messages: [{ role: 'user', content: question }, { role: 'assistant', content: answer }] });
    await writeFile(set, [example('Which <b>port</b> is usual?', '8080.'), example('Why?', 'Ports below 1024 take rights of their own.')].join('\n'));
    await promisify(execFile)(binary('TIDEGATE'), ['dataset', 'evaluate', '--set', set, '--models', 'chat-small,gpt-4o-mini', '--max-tokens', '60'], {
      cwd: root, env: { ...process.env, TIDEGATE_URL: this.url, TIDEGATE_KEY: this.key },
    });
    return (await this.call('/admin/v1/evaluations')).data[0].id;
  }

  chat(model, key = this.key) {
    return fetch(`${this.url}/v1/chat/completions`, {
      method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, max_tokens: 24, messages: [{ role: 'user', content: 'Say hello' }] }),
    });
  }

  async end() {
    if (!this.ended) this.process.kill('SIGTERM');
    const timer = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS);
    const code = await this.exited;
    clearTimeout(timer);
    return code;
  }

  async stop() {
    // Jobs outlive a gateway on purpose.
    for (const job of (await this.call('/admin/v1/jobs?state=open').catch(() => ({}))).data ?? []) {
      await this.call(`/admin/v1/jobs/${job.id}:cancel`, {}).catch(() => undefined);
    }
    await eventually('the jobs have ended', async () => ((await this.call('/admin/v1/jobs?state=open')).data ?? []).length === 0).catch(() => undefined);
    const code = await this.end();
    await rm(this.folder, { recursive: true, force: true });
    assert.equal(code, 0, `the gateway ended badly:\n${this.output.slice(-4000)}`);
  }
}
