// A body that is too large: the answer reaches clients that send all of it before they read.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { Stack } from './support/stack.mjs';

const TRIES = 20;
const BYTES = 11 << 20;

// Prints the status of each try, or what the library says instead.
const PYTHON = `
import sys
url, kind, tries, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
body = b' ' * size
headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + sys.argv[5]}
for _ in range(tries):
    try:
        if kind == 'http.client':
            import http.client, urllib.parse
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
            connection.request('POST', '/v1/chat/completions', body, headers)
            print(connection.getresponse().status)
        else:
            import requests
            print(requests.post(url + '/v1/chat/completions', data=body, headers=headers, timeout=30).status_code)
    except ImportError:
        print('missing')
    except Exception as error:
        print(type(error).__name__)
`;

describe('bodies beyond the limit', { timeout: 240_000 }, () => {
  let stack;
  before(async () => {
    stack = await Stack.start({ engines: [['--preset', 'instant']], server: { limits: { body_bytes: '1MiB' } } });
  });
  after(() => stack?.stop());

  test('fetch gets 413', async () => {
    const body = ' '.repeat(BYTES);
    for (let i = 0; i < TRIES; ++i) {
      const answer = await fetch(`${stack.url}/v1/chat/completions`, {
        method: 'POST', body, headers: { 'content-type': 'application/json', authorization: `Bearer ${stack.key}` },
      });
      assert.equal(answer.status, 413);
      assert.equal((await answer.json()).error.code, 'request_too_large');
    }
  });

  for (const kind of ['http.client', 'requests']) {
    test(`Python's ${kind} gets 413`, async (t) => {
      const { stdout } = await promisify(execFile)('python3', ['-c', PYTHON, stack.url, kind, TRIES, BYTES, stack.key]);
      const said = stdout.trim().split('\n');
      if (said.includes('missing')) return t.skip(`${kind} is not installed`);
      assert.deepEqual(said, Array(TRIES).fill('413'));
    });
  }
});
