// Who is signed in, and what they may do. What they may not is not offered; the gateway refuses it, too.
import { signal } from '@preact/signals';
import { ApiError, get, setCsrf, signedOut } from './api';
import type { Me } from './api_types';

export const me = signal<Me | null>(null);
export const meProblem = signal<string>('');

// Roles and tenants change while a page is open, so it is read again when the feed tells of it.
export async function loadMe() {
  try {
    const found = await get('/admin/v1/me');
    // Nothing that the page has of one person is for another who signed in after them.
    if (me.peek() && me.peek()!.actor !== found.actor) return location.reload();
    setCsrf(found.csrf ?? '');
    const { last_event: _told, ...rest } = found;
    const { last_event: _before, ...known } = me.peek() ?? {};
    if (JSON.stringify(rest) !== JSON.stringify(known)) me.value = found;
    meProblem.value = '';
    signedOut.value = false;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return;
    meProblem.value = (error as Error).message;
    if (!me.peek()) setTimeout(() => void loadMe(), 2000);
  }
}

export function may(...permissions: string[]): boolean {
  const has = me.value?.permissions;
  return has !== undefined && permissions.every((permission) => has.includes(permission));
}

// Whether there are devices, jobs and replicas at all; calls about them are refused elsewhere.
export const scales = () => me.value?.scaling === true;

const within = (path: string, above: string) => path === above || path.startsWith(`${above}/`);

// Whether what leads may do for their tenants, and operators for all, may be done for this one; null: what is no tenant's.
export function manages(tenant: string | null | undefined): boolean {
  return me.value?.roles.some((of) => (of.tenant === null ? of.role !== 'viewer' : of.role === 'lead' && !!tenant && within(tenant, of.tenant))) ?? false;
}

// The tenants of somebody with roles over several; usage is told of one of them at a time.
export function severalTenants(): string[] {
  const roles = me.value?.roles ?? [];
  if (roles.some((of) => of.tenant === null)) return [];
  const paths = [...new Set(roles.map((of) => of.tenant!))].sort();
  const highest = paths.filter((path) => !paths.some((above) => above !== path && within(path, above)));
  return highest.length > 1 ? highest : [];
}

export function mayAny(...permissions: string[]): boolean {
  return permissions.length === 0 || permissions.some((permission) => may(permission));
}
