// Where the page is: its path and query are the whole state of a view, so that an address can be sent.
import { computed, signal } from '@preact/signals';

const here = signal(new URL(location.href));
addEventListener('popstate', () => { here.value = new URL(location.href); });

// The first segment of the path; empty for the overview.
export const page = computed(() => here.value.pathname.split('/')[1] ?? '');
export const query = computed(() => here.value.searchParams);

// What every page keeps when another is opened.
const KEPT = ['tenant', 'range'];

export function hrefOf(name: string, params: Record<string, string | undefined> = {}): string {
  const url = new URL(`/${name}`, location.origin);
  for (const key of KEPT) {
    const value = here.value.searchParams.get(key);
    if (value) url.searchParams.set(key, value);
  }
  for (const [key, value] of Object.entries(params)) {
    if (value === undefined || value === '') url.searchParams.delete(key);
    else url.searchParams.set(key, value);
  }
  return url.pathname + url.search;
}

export function go(href: string) {
  if (href === location.pathname + location.search) return;
  history.pushState(null, '', href);
  const before = here.value.pathname;
  here.value = new URL(location.href);
  if (here.value.pathname !== before) scrollTo(0, 0);
}

// Changes the query of this page. A change while one types replaces the entry in the history.
export function setQuery(changes: Record<string, string | undefined>, replace = false) {
  const url = new URL(here.value);
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined || value === '') url.searchParams.delete(key);
    else url.searchParams.set(key, value);
  }
  const href = url.pathname + url.search;
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  here.value = url;
}

// Links inside the console change the page without a load.
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest?.('a');
  if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (link.pathname.startsWith('/admin/') || link.pathname.startsWith('/sign-in/')) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

// The time that a page shows: an age that the API takes for `since`.
export const RANGES = ['1h', '24h', '7d', '30d', '90d'] as const;
export const range = computed(() => {
  const asked = query.value.get('range') ?? '';
  return (RANGES as readonly string[]).includes(asked) ? asked : '24h';
});
export const tenant = computed(() => query.value.get('tenant') ?? '');
