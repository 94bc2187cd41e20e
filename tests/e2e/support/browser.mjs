// What a browser does while somebody signs in, without one: it keeps cookies by host and path, follows redirects and
// sends forms.

// Of Set-Cookie; a cookie of this name, host and path that was there before goes.
function keep(cookies, url, text) {
  const [pair, ...attributes] = text.split(';').map((part) => part.trim());
  const cookie = { host: url.hostname, path: '/', name: pair.slice(0, pair.indexOf('=')), value: pair.slice(pair.indexOf('=') + 1) };
  let gone = false;
  for (const attribute of attributes) {
    const [name, value] = attribute.split('=');
    if (/^path$/i.test(name)) cookie.path = value;
    if (/^max-age$/i.test(name)) gone = Number(value) <= 0;
    if (/^expires$/i.test(name)) gone ||= Date.parse(value) < Date.now();
  }
  const others = cookies.filter((one) => one.host !== cookie.host || one.path !== cookie.path || one.name !== cookie.name);
  return gone ? others : [...others, cookie];
}

const matches = (path, prefix) => path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`);

export class Browser {
  cookies = [];

  cookie(name) {
    return this.cookies.find((cookie) => cookie.name === name)?.value;
  }

  // One call; a redirect is not followed.
  async call(address, { headers = {}, form, ...rest } = {}) {
    const url = new URL(address);
    const cookie = this.cookies.filter(({ host, path }) => host === url.hostname && matches(url.pathname, path))
      .map(({ name, value }) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, {
      redirect: 'manual', method: form ? 'POST' : 'GET', body: form && new URLSearchParams(form),
      headers: { ...(cookie ? { cookie } : {}), ...headers }, ...rest,
    });
    for (const text of answer.headers.getSetCookie()) this.cookies = keep(this.cookies, url, text);
    return answer;
  }

  // Follows redirects, as far as an address that `before` matches, which is not called any more. Where it is then.
  async go(address, { before, ...options } = {}) {
    const answer = await this.call(address, options);
    const location = answer.headers.get('location');
    if (answer.status < 300 || answer.status >= 400 || !location) return { url: address, status: answer.status, text: await answer.text() };
    await answer.arrayBuffer();
    const next = new URL(location, address).href;
    return before?.test(next) ? { url: next, text: '' } : this.go(next, { before });
  }

  // Sends the form of a page, with what it holds already.
  async send(page, fields, options) {
    const action = page.text.match(/<form[^>]* action="([^"]+)"/)[1];
    const hidden = [...page.text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(([, name, value]) => [name, value]);
    return this.go(new URL(action, page.url).href, { ...options, form: { ...Object.fromEntries(hidden), ...fields } });
  }

  // Signs in at a provider as that person, and consents; where it is then.
  async signIn(address, person, options) {
    let page = await this.go(address, options);
    while (page.text.includes('name="prompt"')) page = await this.send(page, { login: person, password: 'any' }, options);
    return page;
  }
}
