// Who is signed in, and what they may do. What they may not is not offered; the gateway refuses it, too.
import { signal } from '@preact/signals';
import { ApiError, get, setCsrf, signedOut } from './api';
import type { Me } from './api_types';


export const me = signal<Me | null>(null);
export const meProblem = signal<string>('');

export async function loadMe() {
  try {
    const found = await get('/admin/v1/me');
    setCsrf(found.csrf ?? '');
    me.value = found;
    meProblem.value = '';
    signedOut.value = false;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return;
    meProblem.value = (error as Error).message;
    setTimeout(() => void loadMe(), 2000);
  }
}

export function may(...permissions: string[]): boolean {
  const has = me.value?.permissions;
  return has !== undefined && permissions.every((permission) => has.includes(permission));
}

export function mayAny(...permissions: string[]): boolean {
  return permissions.length === 0 || permissions.some((permission) => may(permission));
}
