// What people type is kept over the end of their session: when the same person signs in again, in this tab, the fields have it
// again, whether the page was left for a provider meanwhile or not. Fields for secrets are not kept.
import { type Signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { signedOut } from './api';
import { me } from './me';

const STORE = 'tidegate.typed';

interface Kept { actor: string; values: Record<string, unknown> }

const typed = new Map<string, unknown>(); // into the fields that are shown now

function readKept(): Kept | undefined {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORE) ?? 'null') as Kept | null;
    if (kept?.actor === me.peek()?.actor) return kept ?? undefined;
    if (me.peek()) sessionStorage.removeItem(STORE); // somebody else signed in
    return undefined;
  } catch {
    return undefined;
  }
}

function write(kept: Kept) {
  try {
    if (Object.keys(kept.values).length > 0) sessionStorage.setItem(STORE, JSON.stringify(kept));
    else sessionStorage.removeItem(STORE);
  } catch { /* no store, or a full one: then it is typed again */ }
}

// Whether something waits for its person.
export const keptSome = () => readKept() !== undefined;

// The person goes by choice.
export function forgetTyped() {
  typed.clear();
  write({ actor: '', values: {} });
}

signedOut.subscribe((is) => {
  const actor = me.peek()?.actor;
  if (is && actor && typed.size > 0) write({ actor, values: Object.fromEntries(typed) });
});

// What was kept is given once: a form that is opened again later is empty.
function take<T>(name: string, initial: T): T {
  const kept = readKept();
  if (!kept || typeof kept.values[name] !== typeof initial) return initial;
  const { [name]: value, ...others } = kept.values;
  write({ actor: kept.actor, values: others });
  return value as T;
}

// A field's value; `name` says the form, and the thing that it is about.
export function useTypedSignal<T>(name: string, initial: T): Signal<T> {
  const value = useSignal<T | undefined>(undefined) as Signal<T>;
  if (value.peek() === undefined) value.value = take(name, initial);
  useEffect(() => {
    const stop = value.subscribe((is) => {
      if (JSON.stringify(is) === JSON.stringify(initial)) typed.delete(name);
      else typed.set(name, is);
    });
    return () => {
      stop();
      typed.delete(name);
    };
  }, [name]);
  return value;
}

export function useTyped<T>(name: string, initial: T): [T, (to: T) => void] {
  const value = useTypedSignal(name, initial);
  return [value.value, (to) => { value.value = to; }];
}
