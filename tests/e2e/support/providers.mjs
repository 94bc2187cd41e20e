// Identity providers on loopback ports: a real one (npm's oidc-provider), and one whose answers a test makes up.
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { createServer } from 'node:http';

import { Provider } from 'oidc-provider';

const encode = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

// A key that signs tokens; `jwk` is its public half.
export class Key {
  static #made = 0;

  constructor(alg, kid = `key-${++Key.#made}`) {
    const pair = alg === 'RS256' ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : alg === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('ed25519');
    this.alg = alg;
    this.kid = kid;
    this.private = pair.privateKey;
    this.public = pair.publicKey;
    const about = { kid, alg: alg === 'EdDSA' ? 'Ed25519' : alg, use: 'sig' };
    this.jwk = { ...this.public.export({ format: 'jwk' }), ...about };
    this.privateJwk = { ...this.private.export({ format: 'jwk' }), ...about };
  }

  token(claims, header = {}) {
    const text = `${encode({ alg: this.alg, kid: this.kid, typ: 'JWT', ...header })}.${encode(claims)}`;
    return `${text}.${sign('sha256', Buffer.from(text), { key: this.private, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  }
}

// A token that is signed with a shared secret, or (without one) not at all.
export function weakToken(claims, header, secret) {
  const text = `${encode({ typ: 'JWT', ...header })}.${encode(claims)}`;
  return `${text}.${secret === undefined ? '' : createHmac('sha256', secret).update(text).digest('base64url')}`;
}

// An http server at a port that stays its own while it is gone.
class Server {
  #http;
  port = 0;

  get url() { return `http://127.0.0.1:${this.port}`; }

  async start() {
    this.#http = createServer((request, response) => this.serve(request, response));
    await new Promise((resolve, reject) => { this.#http.on('error', reject).listen(this.port, '127.0.0.1', resolve); });
    this.port = this.#http.address().port;
    return this;
  }

  async stop() {
    if (!this.#http?.listening) return;
    const closed = new Promise((resolve) => { this.#http.close(resolve); });
    this.#http.closeAllConnections();
    await closed;
  }
}

// people: {login: claims}. inIdToken: whether the ID token has the claims; else UserInfo alone has them.
export class RealProvider extends Server {
  secrets = []; // all that it gave to the client and got from it, that nothing else may learn
  calls = []; // the paths that were called

  constructor({ client, people, inIdToken }) {
    super();
    Object.assign(this, { client, people, inIdToken });
  }

  async start() {
    await super.start();
    if (!this.handler) this.rotate();
    return this;
  }

  // Begins anew with other keys; the old ones are gone.
  rotate() {
    const { alg } = this.client;
    const provider = new Provider(this.url, {
      clients: [{
        client_id: this.client.id, id_token_signed_response_alg: alg,
        ...(this.client.secret ? { client_secret: this.client.secret } : { token_endpoint_auth_method: 'none' }),
        redirect_uris: [this.client.redirect], post_logout_redirect_uris: [this.client.afterwards],
      }],
      claims: { openid: ['sub'], profile: ['name'], email: ['email'], groups: ['groups'] },
      conformIdTokenClaims: !this.inIdToken,
      pkce: { required: () => true },
      cookies: { keys: ['of the cookies of a test'] },
      jwks: { keys: [new Key('EdDSA').privateJwk, new Key(alg).privateJwk] },
      findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id, ...this.people[id] }) }),
    });
    provider.use(async (context, next) => {
      this.calls.push(context.path);
      await next();
      if (context.path !== '/token') return;
      const { code, code_verifier: verifier } = context.oidc.params;
      this.secrets.push(code, verifier, context.body.access_token, context.body.id_token);
    });
    this.handler = provider.callback();
  }

  serve(request, response) {
    this.handler(request, response);
  }
}

// Many providers, each below a path of its own. By `answers`, {'name/place': (request, body) => answer}, a test says what one
// answers at discovery, keys, token or user-info: a JSON value, a [status, text], or nothing ever.
export class FakeProviders extends Server {
  answers = {};

  issuer(name) { return `${this.url}/${name}`; }

  discovery(name) {
    const issuer = this.issuer(name);
    return {
      issuer, authorization_endpoint: `${issuer}/authorize?tenant=1`, token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/keys`, userinfo_endpoint: `${issuer}/user-info`,
    };
  }

  async serve(request, response) {
    let body = '';
    for await (const part of request) body += part;
    const [, name, place] = request.url.match(/^\/([^/]+)\/(?:\.well-known\/openid-)?(.+)$/);
    const given = this.answers[`${name}/${place}`] ?? (place === 'configuration' ? () => this.discovery(name) : () => [404, '{}']);
    const answer = await given(request, new URLSearchParams(body));
    if (answer === undefined) return;
    const [status, text] = Array.isArray(answer) ? answer : [200, JSON.stringify(answer)];
    response.writeHead(status, { 'content-type': 'application/json' });
    response.write(text.slice(0, 7)); // chunked
    response.end(text.slice(7));
  }
}
