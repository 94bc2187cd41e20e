// Calls of the admin API. Errors carry the API's own words, the field that they are about and the request's id.
import { signal } from '@preact/signals';
import type { Deletes, Gets, Posts } from './api_types';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string,
    readonly details: { param: string; message: string }[] = [],
  ) {
    super(message);
  }

  // What the API says of one field of a form.
  of(param: string): string | undefined {
    return this.details.find((detail) => detail.param === param || detail.param.startsWith(`${param}.`))?.message;
  }
}

// When the gateway last answered, and whether it does now.
export const lastContact = signal(Date.now());
export const connected = signal(true);
// Set while nobody is signed in; what to do then is the sign-in page's.
export const signedOut = signal(false);

let csrf = '';
export function setCsrf(token: string) {
  csrf = token;
}

type Query = Record<string, string | number | undefined>;

// The path with its {items} and the query.
export function pathOf(path: string, items: Record<string, string> = {}, query: Query = {}): string {
  let text = path;
  for (const [name, value] of Object.entries(items)) text = text.replace(`{${name}}`, encodeURIComponent(value));
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  if (pairs.length === 0) return text;
  return `${text}?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`;
}

async function problemOf(response: Response): Promise<ApiError> {
  const id = response.headers.get('x-request-id') ?? '';
  try {
    const { error } = await response.json();
    return new ApiError(response.status, error.code, error.message, id, error.details);
  } catch {
    return new ApiError(response.status, 'no_answer', `the gateway answered ${response.status}`, id);
  }
}

export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, credentials: 'same-origin', redirect: 'error' });
  } catch (error) {
    if ((error as Error).name !== 'AbortError') connected.value = false;
    throw error;
  }
  connected.value = true;
  lastContact.value = Date.now();
  if (response.status === 401) signedOut.value = true;
  if (!response.ok) throw await problemOf(response);
  return response;
}

// A network that swallows what is sent gives no error for minutes. So a gateway that was not heard for a while is asked
// something small, which has to be answered soon.
const QUIET_MS = 20_000;
const ANSWERED_MS = 10_000;
const LOOK_MS = 5000;
let probing = false;

async function probe() {
  probing = true;
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), ANSWERED_MS);
  await call('/admin/v1/sign-in', { signal: stop.signal }).catch(() => { if (stop.signal.aborted) connected.value = false; });
  clearTimeout(timer);
  probing = false;
}

setInterval(() => {
  if (!document.hidden && !probing && Date.now() - lastContact.peek() >= QUIET_MS) void probe();
}, LOOK_MS);

export async function get<P extends keyof Gets>(
  path: P, items: Record<string, string> = {}, query: Query = {}, stop?: AbortSignal,
): Promise<Gets[P]> {
  return (await call(pathOf(path, items, query), stop ? { signal: stop } : {})).json();
}

const csrfHeader = (): Record<string, string> => (csrf ? { 'x-csrf-token': csrf } : {});

export function posted(body: unknown, stop?: AbortSignal): RequestInit {
  return {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...csrfHeader() },
    body: JSON.stringify(body ?? {}),
    ...(stop ? { signal: stop } : {}),
  };
}

export async function post<P extends keyof Posts>(
  path: P, items: Record<string, string> = {}, body?: Posts[P]['body'],
): Promise<Posts[P]['answer']> {
  return (await call(pathOf(path, items), posted(body))).json();
}

export async function remove<P extends keyof Deletes>(path: P, items: Record<string, string>): Promise<Deletes[P]> {
  return (await call(pathOf(path, items), { method: 'DELETE', headers: csrfHeader() })).json();
}
