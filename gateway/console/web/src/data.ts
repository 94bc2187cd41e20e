// What pages read: fetched, kept while it is fetched again, and shared by all that ask for the same.
import { type Signal, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ApiError, call, connected, pathOf } from './api';
import type { Gets } from './api_types';

export interface Fetched<T> {
  value?: T;
  error?: ApiError | Error;
  at: number; // when the value came; 0: not yet
}

// Whether the feed of events is open (feed.ts): what it tells of is then read by the clock only seldom.
export const live = signal(false);
const TOLD = ['keys', 'sessions', 'jobs', 'queues', 'queue', 'nodes', 'replicas', 'endpoints', 'models', 'tenants', 'grants', 'requests', 'scaling', 'traffic', 'rollouts'].map((list) => `/admin/v1/${list}`);
const SELDOM_MS = 30_000;
const PATIENCE_MS = 60_000;
const isTold = (href: string) => TOLD.some((path) => href === path || href.startsWith(`${path}?`)) || /^\/admin\/v1\/jobs\/[^/]+$/.test(href);

class Source {
  readonly state: Signal<Fetched<unknown>> = signal({ at: 0 });
  private users = new Map<object, number>();
  private timer = 0;
  private running = false;
  private again = false; // it has changed while it was read
  private stop = new AbortController();
  private began = 0;

  // `paged`: a list whose pages are all fetched, one after the other.
  constructor(readonly href: string, private readonly paged: boolean) {}

  add(user: object, everyMs: number) {
    this.users.set(user, everyMs);
    if (Date.now() - this.state.peek().at > Math.min(everyMs, 1000)) void this.load();
    else this.schedule();
  }

  remove(user: object) {
    this.users.delete(user);
    if (this.users.size > 0) return;
    clearTimeout(this.timer);
    setTimeout(() => { if (this.users.size === 0) sources.delete(keyOf(this.href, this.paged)); }, 60_000);
  }

  get used() { return this.users.size > 0; }

  async load() {
    if (this.running) {
      this.again = true;
      return;
    }
    this.running = true;
    this.stop = new AbortController();
    this.began = Date.now();
    clearTimeout(this.timer);
    try {
      const value = this.paged ? await allPages(this.href, this.stop.signal) : await (await call(this.href, { signal: this.stop.signal })).json();
      this.state.value = { value, at: Date.now() };
    } catch (error) {
      const { value, at } = this.state.peek();
      // An answer that refuses is new; while the gateway does not answer, what it said last stands.
      this.state.value = error instanceof ApiError ? { error, at: Date.now() } : { value, at, error: error as Error };
    }
    this.running = false;
    if (this.again) {
      this.again = false;
      return void this.load();
    }
    this.schedule();
  }

  // What may never be answered is asked again; a long list on a slow network is left alone.
  giveUp() { if (Date.now() - this.began > PATIENCE_MS) this.stop.abort(); }

  schedule() {
    clearTimeout(this.timer);
    const wanted = Math.min(...this.users.values());
    if (!Number.isFinite(wanted)) return;
    const every = live.peek() && isTold(this.href) ? Math.max(wanted, SELDOM_MS) : wanted;
    const failing = this.state.peek().error !== undefined;
    this.timer = window.setTimeout(() => {
      if (document.hidden) this.schedule();
      else void this.load();
    }, failing ? Math.max(every, 2000) : every);
  }
}

const sources = new Map<string, Source>();
const keyOf = (href: string, paged: boolean) => `${paged ? 'all' : 'one'} ${href}`;

function sourceOf(href: string, paged: boolean): Source {
  const key = keyOf(href, paged);
  let source = sources.get(key);
  if (!source) sources.set(key, (source = new Source(href, paged)));
  return source;
}

// What a list has on all its pages, as one answer; at most MOST rows.
const MOST = 20_000;

async function allPages(href: string, signal: AbortSignal): Promise<unknown> {
  const url = new URL(href, location.origin);
  url.searchParams.set('limit', '1000');
  const rows: unknown[] = [];
  for (;;) {
    const page = await (await call(url.pathname + url.search, { signal })).json() as { data: unknown[]; has_more: boolean; next?: string };
    rows.push(...page.data);
    if (!page.has_more || !page.next || rows.length >= MOST) return { ...page, data: rows };
    url.searchParams.set('after', page.next);
  }
}

addEventListener('visibilitychange', () => {
  if (!document.hidden) for (const source of sources.values()) void source.load();
});

// Fetches again what begins with one of these paths, after a change.
export function refresh(...paths: string[]) {
  for (const source of sources.values()) {
    if (paths.some((path) => source.href.startsWith(path))) void source.load();
  }
}

// Likewise those that a page shows now; "/": all.
export function refreshUsed(...paths: string[]) {
  for (const source of sources.values()) {
    if (source.used && paths.some((path) => source.href.startsWith(path))) void source.load();
  }
}

connected.subscribe(() => { for (const source of sources.values()) source.giveUp(); });
live.subscribe(() => { for (const source of sources.values()) if (source.used) source.schedule(); });

type Query = Record<string, string | number | undefined>;
interface How { items?: Record<string, string>; query?: Query; everyMs?: number }

function useSource(href: string | null, paged: boolean, everyMs: number): Fetched<unknown> {
  useEffect(() => {
    if (href === null) return undefined;
    const source = sourceOf(href, paged);
    const user = {};
    source.add(user, everyMs);
    return () => source.remove(user);
  }, [href, paged, everyMs]);
  return href === null ? { at: 0 } : sourceOf(href, paged).state.value;
}

// The answer of a GET, fetched again every `everyMs`; null as the path: nothing is asked.
export function useGet<P extends keyof Gets>(path: P | null, { items, query, everyMs = Infinity }: How = {}): Fetched<Gets[P]> {
  return useSource(path === null ? null : pathOf(path, items, query), false, everyMs) as Fetched<Gets[P]>;
}

// Likewise all pages of a list.
export function useAll<P extends keyof Gets>(path: P | null, { items, query, everyMs = Infinity }: How = {}): Fetched<Gets[P]> {
  return useSource(path === null ? null : pathOf(path, items, query), true, everyMs) as Fetched<Gets[P]>;
}

// A clock for relative times; one for the page.
export const now = signal(Date.now());
setInterval(() => { if (!document.hidden) now.value = Date.now(); }, 1000);
