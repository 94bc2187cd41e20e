// Keys by their ids, for pages that are told of a key by its id alone.
import type { Key, KeyList } from './api_types';
import { useAll } from './data';
import { mayAny } from './me';

const NONE = new Map<string, Key>();
// Made once for all who ask.
const made = new WeakMap<KeyList, Map<string, Key>>();

export function useKeysById(wanted = true): Map<string, Key> {
  const list = useAll(wanted && mayAny('see_keys', 'see_own_keys') ? '/admin/v1/keys' : null, { everyMs: 60_000 }).value;
  if (!list) return NONE;
  const keys = made.get(list) ?? new Map(list.data.map((key) => [key.id, key]));
  made.set(list, keys);
  return keys;
}
