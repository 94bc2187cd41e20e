// The feed of events: while it is open, lists are read again when they have changed, and not by the clock. A hidden
// page closes it, since a browser has few connections to one host; a page that is shown again resumes it.
import { effect, signal } from '@preact/signals';
import { connected, lastContact, signedOut } from './api';
import type { Overview } from './api_types';
import { live, refreshUsed } from './data';
import { loadMe, may, me } from './me';

export const latest = signal<{ value: Overview; at: number } | undefined>(undefined);
// Rises whenever something is told that the ledger has, too.
export const happened = signal(0);

const RETRY_MS = 5000;
const GATHER_MS = 300; // changes come together

// The lists that a change of this kind is seen in.
const LISTS: { [kind: string]: string[] } = {
  jobs: ['/admin/v1/jobs', '/admin/v1/queues', '/admin/v1/nodes'],
  replicas: ['/admin/v1/replicas', '/admin/v1/endpoints', '/admin/v1/nodes', '/admin/v1/scaling', '/admin/v1/rollouts'],
  nodes: ['/admin/v1/nodes', '/admin/v1/jobs'],
  models: ['/admin/v1/models', '/admin/v1/scaling'],
  tenants: ['/admin/v1/tenants', '/admin/v1/limits'],
};
// What moves with the load.
const LOAD = ['/admin/v1/scaling', '/admin/v1/traffic', '/admin/v1/queue?', '/admin/v1/rollouts', '/admin/v1/replicas?model='];
const LOAD_MS = 2000;

let source: EventSource | undefined;
let last = '';
let retry = 0;
let gathering = 0;
let loading = 0;
let loaded = 0; // when that was read
const gathered = new Set<string>();

function gather(...paths: string[]) {
  for (const path of paths) gathered.add(path);
  gathering ||= window.setTimeout(() => {
    gathering = 0;
    const some = [...gathered];
    gathered.clear();
    refreshUsed(...some);
    ++happened.value;
  }, GATHER_MS);
}

function readLoad() {
  loading = 0;
  loaded = Date.now();
  refreshUsed(...LOAD);
}

function heard(event: Event): unknown {
  const { data, lastEventId } = event as MessageEvent<string>;
  if (lastEventId) last = lastEventId;
  lastContact.value = Date.now();
  return JSON.parse(data);
}

function close() {
  source?.close();
  source = undefined;
  live.value = false;
  clearTimeout(retry);
}

function open() {
  if (source || document.hidden) return;
  clearTimeout(retry);
  last ||= me.peek()?.last_event ?? ''; // lists are read after that, so no change is missed between
  const made = new EventSource(`/admin/v1/events${last ? `?after=${encodeURIComponent(last)}` : ''}`);
  source = made;
  made.onopen = () => {
    live.value = true;
    connected.value = true;
    lastContact.value = Date.now();
  };
  made.onerror = () => {
    live.value = false;
    // Whether the gateway is gone, the session, or a role, is told at once on pages that read seldom, too.
    void loadMe();
    if (made.readyState !== EventSource.CLOSED || source !== made) return; // the browser tries again by itself
    source = undefined;
    retry = window.setTimeout(follow, RETRY_MS);
  };
  made.addEventListener('overview', (event) => {
    latest.value = { value: heard(event) as Overview, at: Date.now() };
    loading ||= window.setTimeout(readLoad, Math.max(0, loaded + LOAD_MS - Date.now()));
  });
  made.addEventListener('changed', (event) => {
    const { kind } = heard(event) as { kind: string };
    if (kind === 'tenants') void loadMe();
    gather(...LISTS[kind] ?? [`/admin/v1/${kind}`]);
  });
  made.addEventListener('action', (event) => { heard(event); gather(); });
  made.addEventListener('reset', (event) => { heard(event); void loadMe(); gather('/'); });
}

function follow() {
  if (me.value && !signedOut.value && may('see_models')) return open();
  close();
  latest.value = undefined; // the next person may see less
}

effect(follow);
// A connection that went with the gateway may look open for long.
connected.subscribe((is) => {
  if (is || !source) return;
  close();
  retry = window.setTimeout(follow, RETRY_MS);
});
addEventListener('visibilitychange', () => { if (document.hidden) close(); else follow(); });
