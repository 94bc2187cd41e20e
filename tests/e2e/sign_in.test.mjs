// People sign in at OpenID Connect providers: at real ones (oidc-provider), which also go, come back and change their keys,
// and at made-up ones that lie, break or fall silent. And callers with tokens of an issuer.

import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Browser } from './support/browser.mjs';
import { FakeProviders, Key, RealProvider, weakToken } from './support/providers.mjs';
import { freePort, Stack } from './support/stack.mjs';

const PATIENCE_MS = 10_000; // of the gateway with a provider, and the least time between two looks at its keys
const PEOPLE = {
  ada: { name: 'Ada L.', email: 'ada@example.com', groups: ['platform', 'search-leads'] },
  grace: { name: 'Grace H.', email: 'grace@example.com', groups: ['search'] },
  mallory: { name: 'Mallory', email: 'mallory@example.com', groups: ['visitors'] },
};
const ROLES = [
  { claim: 'groups', value: 'platform', role: 'operator' },
  { claim: 'groups', value: 'search-leads', role: 'lead', tenant: 'search' },
  { claim: 'groups', value: 'search', role: 'member', tenant: 'search' },
];
const OPERATOR_AND_LEAD = [{ role: 'operator', tenant: null }, { role: 'lead', tenant: 'search' }];
const SECRET = 'client-secret/with+odd:characters&that=need%encoding';
const CALLBACK = /\/callback\?/;
const JWT_ISSUER = 'https://tokens.example.com';

const now = () => Math.floor(Date.now() / 1000);

describe('signing in', { timeout: 240_000 }, () => {
  let stack, origin, corp, partner, fakes, key, corpKeysKnown, silences;
  const jwtKey = new Key('ES256');
  const secrets = [SECRET];
  const running = []; // what is ended, the last first

  before(async () => {
    const admin = await freePort();
    origin = `http://127.0.0.1:${admin}`;
    process.env.TIDEGATE_E2E_CLIENT_SECRET = SECRET;
    const client = (name) => ({ redirect: `${origin}/sign-in/with/${name}/callback`, afterwards: `${origin}/sign-in` });
    corp = await new RealProvider({ client: { id: 'tide:gate', secret: SECRET, alg: 'RS256', ...client('corp') }, people: PEOPLE }).start();
    running.push(corp);
    partner = await new RealProvider({ client: { id: 'tidegate', alg: 'ES256', ...client('partner') }, people: PEOPLE, inIdToken: true }).start();
    running.push(partner);
    fakes = await new FakeProviders().start();
    running.push(fakes);
    key = new Key('RS256');
    // Before the gateway starts: it asks for the keys of issuers at once, and after a failure not for a while.
    fakes.answers = {
      'made-up/keys': () => ({ keys: [key.jwk] }), 'tokens/keys': () => ({ keys: [jwtKey.jwk] }), 'silent/keys': () => ({ keys: [key.jwk] }),
      'odd/keys': () => ({ keys: [key.jwk] }), 'nameless/keys': () => ({ keys: [key.jwk] }),
      'made-up/user-info': () => ({ sub: 'ada', groups: ['search'] }),
      'liar/configuration': () => fakes.discovery('made-up'), 'broken/configuration': () => [500, 'out of order'],
      'unsafe/configuration': () => ({ ...fakes.discovery('unsafe'), token_endpoint: 'http://login.example.com/token' }),
      'dumb/configuration': () => undefined, 'silent/token': () => undefined,
    };
    const provider = (name, issuer, more) => ({ name, issuer, client_id: 'tidegate', roles: ROLES, ...more });
    stack = await Stack.start({
      engines: [], models: { nothing: { endpoints: [{ name: 'nowhere', url: 'http://127.0.0.1:1', engine: 'vllm' }] } },
      tenants: [{ name: 'search', models: ['*'] }, { name: 'other', models: ['*'] }],
      server: { admin: `127.0.0.1:${admin}` },
      people: {
        url: origin,
        providers: [
          provider('corp', corp.url, {
            label: 'Corporate account', client_id: 'tide:gate', client_secret: 'env:TIDEGATE_E2E_CLIENT_SECRET',
            scopes: ['openid', 'profile', 'email', 'groups'],
          }),
          provider('partner', partner.url, { scopes: ['openid', 'profile', 'email', 'groups'] }),
          ...['made-up', 'liar', 'broken', 'unsafe', 'keyless', 'nameless', 'dumb', 'silent'].map((name) => provider(name, fakes.issuer(name))),
          provider('odd', fakes.issuer('odd'), { roles: [{ claim: '/realm/a~1b~0c~d', value: 'x', role: 'viewer' }] }),
          provider('gone', `http://127.0.0.1:${await freePort()}`),
        ],
      },
      auth: {
        jwt: [{
          issuer: JWT_ISSUER, audience: 'tidegate', jwks: `${fakes.issuer('tokens')}/keys`, algorithms: ['ES256'],
          role: { claim: 'role', values: { ops: 'operator', dev: 'member' } },
        }],
      },
    });
    running.push(stack);
    // They take as long as the gateway has patience; meanwhile everything else is tried.
    const started = performance.now();
    silences = Promise.all(['dumb', 'silent'].map(async (name) => {
      const problem = name === 'dumb' ? await problemOf(await new Browser().call(`${origin}/sign-in/with/dumb`)) : await attempt('silent');
      return { name, problem, ms: performance.now() - started };
    }));
    silences.catch(() => undefined);
  });
  after(async () => {
    for (const one of running.reverse()) await one.stop();
  });

  const me = (browser) => browser.call(`${origin}/admin/v1/me`);

  // What the sign-in page is to tell, a word, and what the log has of it; null where the answer leads elsewhere.
  async function problemOf(answer) {
    assert.equal(answer.status, 303);
    const to = new URL(answer.headers.get('location'), origin);
    if (to.origin !== origin || to.pathname !== '/sign-in') return null;
    const word = to.searchParams.get('problem');
    assert.match(word, /^[a-z_]+$/);
    const id = answer.headers.get('x-request-id');
    assert.ok(id);
    for (;;) {
      const told = stack.gateway.output.split('\n').find((line) => line.includes('sign-in refused') && line.includes(id));
      if (told) return `${word}: ${JSON.parse(told).why}`;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  // Begins at a made-up provider, which sends the browser back at once; `answer` makes what it gives for the code.
  async function attempt(name, answer, browser = new Browser(), returns = name) {
    const begun = await browser.call(`${origin}/sign-in/with/${name}`);
    const sent = new URL(begun.headers.get('location')).searchParams;
    const code = `code-${Math.random()}`;
    secrets.push(code, sent.get('nonce'), browser.cookie('tidegate-sign-in'));
    if (answer) fakes.answers[`${returns}/token`] = () => answer(sent.get('nonce'));
    const back = new URLSearchParams({ code, state: sent.get('state') });
    return problemOf(await browser.call(`${origin}/sign-in/with/${returns}/callback?${back}`));
  }

  async function signedIn(person, provider = 'corp') {
    const browser = new Browser();
    const at = await browser.signIn(`${origin}/sign-in/with/${provider}`, person);
    assert.equal(at.url, `${origin}/`, at.text);
    secrets.push(browser.cookie('tidegate'));
    const answer = await me(browser);
    assert.equal(answer.status, 200);
    browser.me = await answer.json();
    secrets.push(browser.me.csrf);
    return browser;
  }

  test('the providers are listed, without their secrets', async () => {
    const answer = await fetch(`${origin}/admin/v1/sign-in`);
    const { providers } = await answer.json();
    assert.deepEqual(providers.slice(0, 2), [
      { name: 'corp', label: 'Corporate account', url: '/sign-in/with/corp' },
      { name: 'partner', label: 'partner', url: '/sign-in/with/partner' },
    ]);
    assert.equal(providers.length, 12);
  });

  test('the browser goes to the provider with PKCE, state and nonce, each new', async () => {
    const sent = [];
    for (let i = 0; i < 2; ++i) {
      const answer = await fetch(`${origin}/sign-in/with/corp`, { redirect: 'manual' });
      corpKeysKnown ??= performance.now();
      assert.equal(answer.status, 303);
      const url = new URL(answer.headers.get('location'));
      assert.equal(url.origin + url.pathname, `${corp.url}/auth`);
      const fields = Object.fromEntries(url.searchParams);
      const { state, nonce, code_challenge: challenge, ...rest } = fields;
      assert.deepEqual(rest, {
        response_type: 'code', client_id: 'tide:gate', redirect_uri: `${origin}/sign-in/with/corp/callback`,
        scope: 'openid profile email groups', code_challenge_method: 'S256',
      });
      for (const value of [state, nonce, challenge]) assert.match(value, /^[\w-]{43,64}$/);
      assert.match(answer.headers.get('set-cookie'), /^tidegate-sign-in=[\w-]{43}\.[\w-]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600$/);
      assert.equal(answer.headers.get('cache-control'), 'no-store');
      sent.push(state, nonce, challenge);
    }
    assert.equal(new Set(sent).size, 6);
    const query = (await fetch(`${origin}/sign-in/with/made-up`, { redirect: 'manual' })).headers.get('location');
    assert.ok(query.startsWith(`${fakes.issuer('made-up')}/authorize?tenant=1&response_type=code&`), query);
  });

  test('roles come by rule from groups that UserInfo alone has', async () => {
    const browser = new Browser();
    const back = await browser.signIn(`${origin}/sign-in/with/corp?page=/usage`, 'ada', { before: CALLBACK });
    assert.equal(browser.cookie('tidegate'), undefined);
    const answer = await browser.call(back.url);
    assert.equal(answer.status, 303);
    assert.equal(answer.headers.get('location'), '/usage');
    const [session, attemptCookie] = answer.headers.getSetCookie();
    assert.match(session, /^tidegate=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/);
    assert.match(attemptCookie, /^tidegate-sign-in=; .*Max-Age=0$/);
    secrets.push(browser.cookie('tidegate'), back.url.match(/code=([^&]+)/)[1]);
    assert.ok(corp.calls.includes('/me'), 'UserInfo was asked');
    const who = await (await me(browser)).json();
    assert.equal(who.kind, 'person');
    assert.equal(who.name, 'Ada L.');
    assert.equal(who.actor, 'person:corp:ada');
    assert.deepEqual(who.roles, OPERATOR_AND_LEAD);
    assert.ok(who.permissions.includes('see_config') && !who.permissions.includes('see_people'));
    assert.equal((await browser.call(`${origin}/admin/v1/config`)).status, 200);
  });

  test('and from groups of the ID token, of a public client', async () => {
    const ada = await signedIn('ada', 'partner');
    assert.deepEqual(ada.me.roles, OPERATOR_AND_LEAD);
    assert.equal(ada.me.actor, 'person:partner:ada');
    assert.ok(!partner.calls.includes('/me'), 'UserInfo was not asked');
    const grace = await signedIn('grace', 'partner');
    assert.deepEqual(grace.me.roles, [{ role: 'member', tenant: 'search' }]);
    assert.deepEqual(grace.me.tenants, ['search']);
    assert.equal((await grace.call(`${origin}/admin/v1/config`)).status, 403);
  });

  test('who has no role is refused, and told so', async () => {
    const browser = new Browser();
    const back = await browser.signIn(`${origin}/sign-in/with/corp`, 'mallory', { before: CALLBACK });
    const answer = await browser.call(back.url);
    assert.match(await problemOf(answer), /^no_role: Mallory has no role here: .*ask an admin$/);
    assert.equal(browser.cookie('tidegate'), undefined);
    assert.equal(browser.cookie('tidegate-sign-in'), undefined);
    assert.equal((await me(browser)).status, 401);
  });

  test('who breaks off at the provider is told so', async () => {
    const browser = new Browser();
    const page = await browser.go(`${origin}/sign-in/with/corp`);
    const back = await browser.go(`${page.url}/abort`, { before: CALLBACK });
    assert.match(await problemOf(await browser.call(back.url)), /^declined: the provider refused: access_denied$/);
  });

  test('an answer that another browser asked for is refused, and a code works once', async () => {
    const browser = new Browser();
    const { url } = await browser.signIn(`${origin}/sign-in/with/corp`, 'ada', { before: CALLBACK });
    const other = new Browser();
    await other.call(`${origin}/sign-in/with/corp`);
    const calls = corp.calls.length;
    for (const stranger of [new Browser(), other]) {
      assert.match(await problemOf(await stranger.call(url)), /^other_attempt: .*belongs to no attempt of this browser/);
      assert.equal(stranger.cookie('tidegate'), undefined);
    }
    const bare = new URL(url);
    bare.searchParams.delete('state');
    const again = new Browser();
    again.cookies = [...browser.cookies];
    assert.match(await problemOf(await again.call(bare)), /belongs to no attempt of this browser/);
    assert.equal(corp.calls.length, calls, 'the code went nowhere');

    const replay = new Browser();
    replay.cookies = [...browser.cookies];
    assert.equal(await problemOf(await browser.call(url)), null);
    secrets.push(browser.cookie('tidegate'), replay.cookie('tidegate-sign-in'));
    assert.match(await problemOf(await browser.call(url)), /belongs to no attempt of this browser/);
    assert.match(await problemOf(await replay.call(url)), /^answer_refused: .*answered 400, invalid_grant$/);
    assert.equal(replay.cookie('tidegate'), undefined);
  });

  test('pages of others are not returned to', async () => {
    for (const page of ['//example.com/', 'https://example.com/', '/\\example.com', 'usage']) {
      const browser = new Browser();
      const { url } = await browser.signIn(`${origin}/sign-in/with/partner?${new URLSearchParams({ page })}`, 'ada', { before: CALLBACK });
      assert.equal((await browser.call(url)).headers.get('location'), '/');
    }
  });

  test('a call that changes something needs the token, from a page of the same origin', async () => {
    const { cookies, me: { csrf } } = await signedIn('ada');
    const browser = Object.assign(new Browser(), { cookies });
    const make = (headers) => browser.call(`${origin}/admin/v1/keys`, {
      method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify({ tenant: 'search', name: 'of ada' }),
    });
    const other = await signedIn('grace');
    for (const headers of [{}, { 'x-csrf-token': 'x' }, { 'x-csrf-token': other.me.csrf },
                           { 'x-csrf-token': csrf, origin: 'https://example.com' }, { 'x-csrf-token': csrf, origin: 'null' }]) {
      assert.equal((await make(headers)).status, 403, JSON.stringify(headers));
    }
    const made = await make({ 'x-csrf-token': csrf, origin });
    assert.equal(made.status, 201);
    secrets.push((await made.json()).secret);
  });

  test('a session works at the addresses of the gateway only, by one cookie', async () => {
    const browser = await signedIn('ada');
    const status = await new Promise((resolve, reject) => {
      request(`${origin}/admin/v1/me`, { headers: { host: 'rebound.example.com', cookie: `tidegate=${browser.cookie('tidegate')}` } },
              (answer) => { answer.resume(); resolve(answer.statusCode); }).on('error', reject).end();
    });
    assert.equal(status, 403);
    const secure = await fetch(`${origin}/admin/v1/me`, { headers: { cookie: `__Host-tidegate=${browser.cookie('tidegate')}` } });
    assert.equal(secure.status, 401, 'nor by the cookie of another scheme');
  });

  test('signing out ends the session at once, and leads to where the provider ends its own', async () => {
    const browser = await signedIn('ada');
    const copy = Object.assign(new Browser(), { cookies: [...browser.cookies] });
    const out = await browser.call(`${origin}/admin/v1/session:end`, { method: 'POST', headers: { 'x-csrf-token': browser.me.csrf } });
    assert.equal(out.status, 200);
    assert.equal(browser.cookie('tidegate'), undefined);
    const again = await me(copy);
    assert.equal(again.status, 401);
    assert.match((await again.json()).error.message, /this session has ended/);

    const { url } = await out.json();
    const to = new URL(url);
    assert.equal(to.origin + to.pathname, `${corp.url}/session/end`);
    assert.equal(to.searchParams.get('client_id'), 'tide:gate');
    assert.equal(to.searchParams.get('post_logout_redirect_uri'), `${origin}/sign-in`);
    const asked = await browser.go(url);
    assert.equal(asked.status, 200, asked.text);
    const ended = await browser.send(asked, { logout: 'yes' }, { before: /\/sign-in/ });
    assert.equal(ended.url, `${origin}/sign-in`);
    const login = await browser.go(`${origin}/sign-in/with/corp`);
    assert.match(login.text, /name="login"/, 'the provider asks who it is again');
  });

  test('an admin ends a session of somebody else', async () => {
    const browser = await signedIn('grace', 'partner');
    const { secret } = await stack.json('keys', 'create', '--config', stack.configPath, '--admin', 'admin', '--json');
    secrets.push(secret);
    const asAdmin = { authorization: `Bearer ${secret}` };
    const { data } = await (await fetch(`${origin}/admin/v1/sessions`, { headers: asAdmin })).json();
    const session = data.find((one) => one.actor === 'person:partner:grace' && one.created === data.filter(({ actor }) => actor === one.actor)
      .map(({ created }) => created).sort().at(-1));
    assert.deepEqual({ email: session.email, provider: session.provider, address: session.address },
                     { email: 'grace@example.com', provider: 'partner', address: '127.0.0.1' });
    const own = await (await browser.call(`${origin}/admin/v1/sessions`)).json();
    assert.ok(own.data.length >= 1 && own.data.every(({ actor }) => actor === 'person:partner:grace'));
    const ended = await fetch(`${origin}/admin/v1/sessions/${session.id}:end`, { method: 'POST', headers: asAdmin });
    assert.equal(ended.status, 200);
    assert.equal((await me(browser)).status, 401);
  });

  test('an ID token that is not for this attempt, or not of this provider, is refused', async () => {
    const right = (nonce) => ({ iss: fakes.issuer('made-up'), aud: 'tidegate', sub: 'ada', nonce, iat: now(), exp: now() + 300 });
    const give = (token) => (nonce) => {
      const made = token(right(nonce));
      secrets.push(made);
      return { id_token: made, access_token: 'an-access-token', token_type: 'Bearer' };
    };
    const stranger = new Key('RS256', key.kid);
    const pem = key.public.export({ type: 'spki', format: 'pem' });
    for (const [what, token, why] of [
      ['another audience', (claims) => key.token({ ...claims, aud: 'another' }), /"aud"/],
      ['several audiences and no party', (claims) => key.token({ ...claims, aud: ['tidegate', 'another'] }), /another client/],
      ['another party', (claims) => key.token({ ...claims, azp: 'another' }), /another client/],
      ['another nonce', (claims) => key.token({ ...claims, nonce: 'another' }), /another attempt/],
      ['no nonce', (claims) => key.token({ ...claims, nonce: undefined }), /another attempt/],
      ['another issuer', (claims) => key.token({ ...claims, iss: fakes.issuer('liar') }), /"iss"/],
      ['an end that is past', (claims) => key.token({ ...claims, iat: now() - 600, exp: now() - 300 }), /expired/],
      ['no end', (claims) => key.token({ ...claims, exp: undefined }), /"exp"/],
      ['a time to come', (claims) => key.token({ ...claims, iat: now() + 600, exp: now() + 900 }), /in the future/],
      ['no subject', (claims) => key.token({ ...claims, sub: undefined }), /"sub"/],
      ['no signature', (claims) => weakToken(claims, { alg: 'none' }), /"alg"/],
      ['the public key as a secret', (claims) => weakToken(claims, { alg: 'HS256', kid: key.kid }, pem), /"alg"/],
      ["another's key", (claims) => stranger.token(claims), /signature/],
      ['a key of its own', (claims) => stranger.token(claims, { kid: undefined, jwk: stranger.jwk }), /signature/],
      ['an algorithm that is not allowed', (claims) => key.token(claims, { alg: 'PS256' }), /"alg"/],
      ['no token at all', () => 'nothing', /three parts/],
    ]) {
      const browser = new Browser();
      const problem = await attempt('made-up', give(token), browser);
      assert.match(problem ?? 'signed in', why, what);
      assert.equal(browser.cookie('tidegate'), undefined, what);
    }
    const browser = new Browser();
    assert.equal(await attempt('made-up', give((claims) => key.token(claims)), browser), null);
    secrets.push(browser.cookie('tidegate'));
    assert.deepEqual((await (await me(browser)).json()).roles, [{ role: 'member', tenant: 'search' }]);

    fakes.answers['made-up/user-info'] = () => ({ sub: 'grace', groups: ['platform'] });
    assert.match(await attempt('made-up', give((claims) => key.token(claims))), /names another person than its ID token/);
  });

  test('an attempt at one provider is none at another', async () => {
    const problem = await attempt('odd', (nonce) => ({
      id_token: key.token({ iss: fakes.issuer('made-up'), aud: 'tidegate', sub: 'ada', name: 'Ada', groups: ['search'], nonce, exp: now() + 300 }),
    }), new Browser(), 'made-up');
    assert.match(problem ?? 'signed in', /belongs to no attempt of this browser/);
  });

  test('a claim may have an odd name', async () => {
    assert.equal(await attempt('odd', (nonce) => ({
      id_token: key.token({ iss: fakes.issuer('odd'), aud: 'tidegate', sub: 'ada', name: 'Ada', realm: { 'a/b~c~d': ['x'] }, nonce, exp: now() + 300 }),
    })), null);
  });

  test('where only the name is missing, UserInfo may be, too', async () => {
    const claims = { iss: fakes.issuer('nameless'), aud: 'tidegate', sub: 'ada', exp: now() + 300 };
    const browser = new Browser();
    assert.equal(await attempt('nameless', (nonce) => ({ access_token: 'x', id_token: key.token({ ...claims, groups: ['search'], nonce }) }), browser), null);
    secrets.push(browser.cookie('tidegate'));
    assert.equal((await (await me(browser)).json()).name, 'ada');
    assert.match(await attempt('nameless', (nonce) => ({ access_token: 'x', id_token: key.token({ ...claims, nonce }) })), /answered 404$/);
  });

  test('a provider that answers what it must not is told of by its name', async () => {
    for (const [answer, why] of [
      [[500, 'out of order'], /answered 500$/], [[400, '{"error":"invalid_client","error_description":"secret"}'], /answered 400, invalid_client$/],
      [[200, 'no JSON'], /no ID token/], [{ access_token: 'x' }, /no ID token/],
      [[302, ''], /answered 302/], [[200, ' '.repeat(2 << 20)], /cannot be used now/],
    ]) {
      assert.match(await attempt('made-up', () => answer), why);
    }
    for (const [name, why] of [
      ['liar', /calls itself/], ['broken', /answered 500/], ['unsafe', /token_endpoint is not an https address/],
      ['keyless', /answered 404/], ['gone', /cannot be used now: .*refused/i], ['unknown', /no provider has the name/],
    ]) {
      const browser = new Browser();
      const problem = await problemOf(await browser.call(`${origin}/sign-in/with/${name}`));
      assert.ok(problem.startsWith(name === 'unknown' ? 'unknown_provider: ' : 'provider_unavailable: '), problem);
      assert.match(problem, why);
      assert.ok(problem.includes(name), problem);
      assert.equal(browser.cookies.length, 0);
    }
  });

  test('tokens of an issuer work, with the role that they claim', async () => {
    const ask = async (claims, path) => {
      const token = jwtKey.token({ iss: JWT_ISSUER, aud: 'tidegate', sub: 'a-service', iat: now(), exp: now() + 300, ...claims });
      secrets.push(token);
      const answer = await fetch(`${origin}/admin/v1/${path}`, { headers: { authorization: `Bearer ${token}` } });
      return { status: answer.status, body: await answer.json() };
    };
    const operator = await ask({ role: ['visitor', 'ops'] }, 'me');
    assert.equal(operator.body.kind, 'token', JSON.stringify(operator));
    assert.deepEqual(operator.body.roles, [{ role: 'operator', tenant: null }]);
    assert.equal((await ask({ role: 'ops' }, 'usage')).status, 200);
    const member = await ask({ role: 'dev', tenant: 'search' }, 'me');
    assert.deepEqual(member.body.roles, [{ role: 'member', tenant: 'search' }]);
    assert.equal((await ask({ role: 'dev', tenant: 'search' }, 'usage')).status, 200);
    assert.equal((await ask({ role: 'dev', tenant: 'search' }, 'config')).status, 403);

    for (const role of [undefined, 'visitor']) {
      const plain = await ask({ role, tenant: 'search' }, 'me');
      assert.equal(plain.status, 200);
      assert.deepEqual(plain.body.roles, []);
      assert.equal((await ask({ role, tenant: 'search' }, 'usage')).status, 403);
    }
    assert.equal((await ask({}, 'me')).status, 401, 'neither tenant nor role');
    assert.equal((await ask({ role: 'ops', aud: 'another' }, 'usage')).status, 401);
    assert.equal((await ask({ role: 'ops', exp: now() - 300 }, 'usage')).status, 401);
  });

  test('while a provider is gone nobody signs in there, and sessions go on', async () => {
    const browser = await signedIn('ada');
    const late = new Browser();
    const { url } = await late.signIn(`${origin}/sign-in/with/corp`, 'ada', { before: CALLBACK });
    await corp.stop();
    try {
      assert.match(await problemOf(await late.call(url)), /the provider corp cannot be used now: .*refused/i);
      assert.equal((await me(browser)).status, 200);
      assert.equal((await signedIn('ada', 'partner')).me.name, 'Ada L.', 'other providers go on');
    } finally {
      await corp.start();
    }
    await signedIn('ada');
  });

  test('one that does not answer is waited for, but not long', async () => {
    for (const { name, problem, ms } of await silences) {
      assert.match(problem, new RegExp(`the provider ${name} cannot be used now`));
      assert.ok(ms > PATIENCE_MS - 500 && ms < 3 * PATIENCE_MS, `${name}: ${ms} ms`);
    }
  });

  test('a provider signs with new keys, of which the gateway has not heard', async () => {
    await sleep(Math.max(0, corpKeysKnown + PATIENCE_MS + 200 - performance.now()));
    const before = await signedIn('ada');
    corp.rotate();
    await Promise.all(['ada', 'grace', 'ada'].map((person) => signedIn(person)));
    assert.equal((await me(before)).status, 200);
  });

  test('no secret, code or token is in what the gateway says', async () => {
    await stack.stopGateway();
    const { output } = stack.gateway;
    assert.match(output, /"event":"sign-in refused"/);
    const all = new Set([...secrets, ...corp.secrets, ...partner.secrets].filter(Boolean));
    assert.ok(all.size > 60, `${all.size} secrets`);
    for (const secret of all) {
      for (const form of [secret, encodeURIComponent(secret), secret.split('.')[0].length > 40 ? secret.split('.')[0] : secret]) {
        assert.ok(form.length < 8 || !output.includes(form), `${form} is in the log`);
      }
    }
  });
});
