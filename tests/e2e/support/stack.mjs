// Engines and a Tidegate in front of them, for one test file: real processes on free loopback ports, in a folder of
// their own. stop() ends them by their process ids and fails when Tidegate did not end cleanly.
//
// TIDEGATE and TIDEGATE_ENGINE name the binaries.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const START_MS = 30_000; // sanitized binaries on a busy machine
const STOP_MS = 20_000;

export const PRICE = { input: 2, cached_input: 1, output: 8 }; // USD per million tokens

function binary(name) {
  const path = process.env[name];
  assert.ok(path, `${name} must name the binary; ctest sets it`);
  return path;
}

// A child whose output is kept, for what it says once it is ready and for the report when a test fails.
class Child {
  constructor(name, path, args, options = {}) {
    this.name = name;
    this.output = '';
    this.process = spawn(path, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.on('data', (data) => { this.output += data; this.onOutput?.(); });
    }
    this.exited = new Promise((resolve) => {
      this.process.on('error', (error) => { this.output += `${error}\n`; resolve({ code: null, signal: null }); });
      this.process.on('exit', (code, signal) => resolve({ code, signal }));
    });
    this.exited.then((how) => { this.ended = how; this.onOutput?.(); });
    // The last resort, for a test that throws where nothing stops the stack.
    process.once('exit', () => { if (!this.ended) this.process.kill('SIGKILL'); });
  }

  // Waits until the output matches; the match. Throws when the process ends before, or takes too long.
  says(pattern) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${this.name} is not ready:\n${this.output}`)), START_MS);
      this.onOutput = () => {
        const match = this.output.match(pattern);
        if (!match && !this.ended) return;
        clearTimeout(timer);
        this.onOutput = undefined;
        if (match) resolve(match);
        else reject(new Error(`${this.name} ended before it was ready:\n${this.output}`));
      };
      this.onOutput();
    });
  }

  async stop() {
    if (!this.ended) this.process.kill('SIGTERM');
    const timer = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS);
    const how = await this.exited;
    clearTimeout(timer);
    return how;
  }
}

// One tidegate-engine.
class Engine {
  static async start(name, flags) {
    const engine = new Engine();
    engine.name = name;
    engine.child = new Child(name, binary('TIDEGATE_ENGINE'), ['--load-time', '0s', ...flags]);
    engine.url = `http://${(await engine.child.says(/listening on (\S+:\d+)/))[1]}`;
    return engine;
  }

  async stats() {
    return (await fetch(`${this.url}/engine/stats`)).json();
  }

  async fault(fault) {
    const answer = await fetch(`${this.url}/engine/fault`, { method: 'POST', body: JSON.stringify(fault) });
    assert.ok(answer.ok, await answer.text());
  }

  async clearFaults() {
    await fetch(`${this.url}/engine/fault`, { method: 'DELETE' });
  }
}

export class Stack {
  // engines: flags of each engine, or {model, kind, flags, endpoint}; all engines of one model stand behind it.
  // models: what else their configuration says, by name, or models without an engine; keys: {name: {tenant, limits}};
  // what is left: other sections of the configuration.
  static async start({ engines = [[], []], tenants, models = {}, keys = {}, server = {}, ledger = {}, ...sections } = {}) {
    const stack = new Stack();
    stack.folder = await mkdtemp(join(tmpdir(), 'tidegate-e2e-'));
    stack.engines = [];
    stack.children = [];
    try {
      const config = { ...sections, ...await stack.#startEngines(engines, models) };
      config.server = {
        listen: '127.0.0.1:0', admin: '127.0.0.1:0', threads: 2, shutdown_delay: '0s', shutdown_grace: '2s',
        state_dir: join(stack.folder, 'state'), ...server,
      };
      config.tenants = tenants ?? [{ name: 'acme', models: ['*'] }];
      config.ledger = ledger;
      stack.configPath = join(stack.folder, 'tidegate.yaml'); // JSON is YAML
      await writeFile(stack.configPath, JSON.stringify(config, null, 1));
      stack.keys = {};
      for (const [name, key] of Object.entries({ default: { tenant: config.tenants[0].name }, ...keys })) {
        stack.keys[name] = await stack.#createKey(key);
      }
      await stack.startGateway();
    } catch (error) {
      for (const child of stack.children) await child.stop();
      throw error;
    }
    return stack;
  }

  get key() { return this.keys.default.secret; }
  get baseURL() { return `${this.url}/v1`; }

  async #startEngines(engines, models) {
    const byName = new Map();
    for (const [index, given] of engines.entries()) {
      const { model = 'chat-small', kind = 'vllm', flags, endpoint = {} } = Array.isArray(given) ? { flags: given } : given;
      const engine = await Engine.start(`engine-${index}`, ['--model', model, ...(flags ?? [])]);
      this.engines.push(engine);
      this.children.push(engine.child);
      if (!byName.has(model)) byName.set(model, { name: model, price: PRICE, health: { probe: true }, endpoints: [], ...models[model] });
      byName.get(model).endpoints.push({ name: engine.name, url: engine.url, engine: kind, ...endpoint });
    }
    for (const [name, model] of Object.entries(models)) {
      if (!byName.has(name)) byName.set(name, { name, price: PRICE, ...model });
    }
    return { models: [...byName.values()] };
  }

  async #createKey({ tenant, limits }) {
    const args = ['keys', 'create', '--config', this.configPath, '--tenant', tenant, '--json'];
    if (limits) args.push('--limits', JSON.stringify(limits));
    return this.json(...args);
  }

  // Runs the command line on this stack's state; its standard output.
  async run(...args) {
    const { stdout } = await promisify(execFile)(binary('TIDEGATE'), args, { maxBuffer: 64 << 20 });
    return stdout;
  }

  async json(...args) {
    return JSON.parse(await this.run(...args));
  }

  // A plain call, where a client would hide what is looked for.
  fetch(path, { body, headers = {}, key = this.key, ...rest } = {}) {
    return fetch(`${this.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}), ...headers },
      body: body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
      ...rest,
    });
  }

  async engineSums() {
    const all = await Promise.all(this.engines.map((engine) => engine.stats()));
    const sum = (pick) => all.reduce((total, stats) => total + pick(stats), 0);
    return {
      received: sum((s) => s.requests.received), cancelled: sum((s) => s.requests.cancelled),
      running: sum((s) => s.running + s.waiting), generated: sum((s) => s.tokens.generated),
      forNobody: sum((s) => s.tokens.for_nobody),
    };
  }

  // The engine that was asked last for a body with this text in it, and what it got.
  async lastRequest(text) {
    for (const engine of this.engines) {
      const { last_request: last } = await engine.stats();
      if (last && Buffer.from(last.body_base64, 'base64').includes(text)) return last;
    }
    return undefined;
  }

  // A call of a client that loses patience, until the engines have it: on a busy machine it may leave before.
  async impatiently(call) {
    const { received } = await this.engineSums();
    do await call(); while ((await this.engineSums()).received === received);
  }

  async clearFaults() {
    await Promise.all(this.engines.map((engine) => engine.clearFaults()));
  }

  async faultAll(fault) {
    await Promise.all(this.engines.map((engine) => engine.fault(fault)));
  }

  // On other ports than before.
  async startGateway() {
    this.gateway = new Child('tidegate', binary('TIDEGATE'), ['serve', '--config', this.configPath]);
    this.children.push(this.gateway);
    const [, listen, admin] = await this.gateway.says(/"event":"serving","listen":"([^"]+)","admin":"([^"]+)"/);
    this.url = `http://${listen}`;
    this.admin = `http://${admin}`;
    await this.gateway.says(new RegExp(`(?:"is":"up"[^]*){${this.engines.length}}`));
  }

  // As a power cut would, but for the disk.
  async killGateway() {
    this.gateway.process.kill('SIGKILL');
    await this.gateway.exited;
  }

  // Ends the gateway alone: streams finish, the ledger is flushed; its state can still be asked with run().
  async stopGateway() {
    const how = await this.gateway.stop();
    assert.deepEqual(how, { code: 0, signal: null }, `tidegate ended badly:\n${this.gateway.output}`);
  }

  async stop() {
    try {
      await this.stopGateway();
    } finally {
      for (const engine of this.engines) await engine.child.stop();
      await rm(this.folder, { recursive: true, force: true });
    }
  }

}

// A port that is free now, for what must be known before it is bound.
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// Polls until `check` gives something truthy; fails with `what` after a time that only a fault takes.
export async function eventually(what, check, timeout = 10_000) {
  const until = performance.now() + timeout;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (performance.now() > until) assert.fail(`not within ${timeout} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
