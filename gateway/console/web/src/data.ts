// What pages read: fetched, kept while it is fetched again, and shared by all that ask for the same.
import { type Signal, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ApiError, call, pathOf } from './api';
import type { Gets } from './api_types';

export interface Fetched<T> {
  value?: T;
  error?: ApiError | Error;
  at: number; // when the value came; 0: not yet
}

class Source {
  readonly state: Signal<Fetched<unknown>> = signal({ at: 0 });
  private users = new Map<object, number>();
  private timer = 0;
  private running = false;

  constructor(readonly href: string) {}

  add(user: object, everyMs: number) {
    this.users.set(user, everyMs);
    if (Date.now() - this.state.peek().at > Math.min(everyMs, 1000)) void this.load();
    else this.schedule();
  }

  remove(user: object) {
    this.users.delete(user);
    if (this.users.size > 0) return;
    clearTimeout(this.timer);
    setTimeout(() => { if (this.users.size === 0) sources.delete(this.href); }, 60_000);
  }

  async load() {
    if (this.running) return;
    this.running = true;
    clearTimeout(this.timer);
    try {
      const value = await (await call(this.href)).json();
      this.state.value = { value, at: Date.now() };
    } catch (error) {
      const { value, at } = this.state.peek();
      // An answer that refuses is new; while the gateway does not answer, what it said last stands.
      this.state.value = error instanceof ApiError ? { error, at: Date.now() } : { value, at, error: error as Error };
    }
    this.running = false;
    this.schedule();
  }

  private schedule() {
    clearTimeout(this.timer);
    const every = Math.min(...this.users.values());
    if (!Number.isFinite(every)) return;
    const failing = this.state.peek().error !== undefined;
    this.timer = window.setTimeout(() => {
      if (document.hidden) this.schedule();
      else void this.load();
    }, failing ? Math.max(every, 2000) : every);
  }
}

const sources = new Map<string, Source>();

function sourceOf(href: string): Source {
  let source = sources.get(href);
  if (!source) sources.set(href, (source = new Source(href)));
  return source;
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

type Query = Record<string, string | number | undefined>;

// The answer of a GET, fetched again every `everyMs`; null as the path: nothing is asked.
export function useGet<P extends keyof Gets>(
  path: P | null, { items, query, everyMs = Infinity }: { items?: Record<string, string>; query?: Query; everyMs?: number } = {},
): Fetched<Gets[P]> {
  const href = path === null ? null : pathOf(path, items, query);
  useEffect(() => {
    if (href === null) return undefined;
    const source = sourceOf(href);
    const user = {};
    source.add(user, everyMs);
    return () => source.remove(user);
  }, [href, everyMs]);
  if (href === null) return { at: 0 };
  return sourceOf(href).state.value as Fetched<Gets[P]>;
}

// All pages of a list, up to `most` rows.
export async function getAll<T>(path: string, query: Query = {}, most = 10_000): Promise<T[]> {
  const rows: T[] = [];
  let after: string | undefined;
  do {
    const page = await (await call(pathOf(path, {}, { ...query, limit: 1000, after }))).json() as { data: T[]; has_more: boolean; next?: string };
    rows.push(...page.data);
    after = page.has_more ? page.next : undefined;
  } while (after && rows.length < most);
  return rows;
}

// A clock for relative times; one for the page.
export const now = signal(Date.now());
setInterval(() => { if (!document.hidden) now.value = Date.now(); }, 1000);
