// Search over what this person may see: pages, models, nodes, jobs, tenants and keys, by parts of their names.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { useAll } from '../data';
import { may, scales } from '../me';
import { pages } from '../pages';
import { go, hrefOf } from '../route';

interface Found { kind: string; name: string; more?: string; href: string }

const MOST = 12;

function rank(found: Found, words: string[]): number {
  const text = `${found.name} ${found.more ?? ''} ${found.kind}`.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const at = text.indexOf(word);
    if (at < 0) return -1;
    sum += at === 0 ? 3 : /\W/.test(text[at - 1] ?? '') ? 2 : 1;
  }
  return sum;
}

export function Search({ onClose }: { onClose: () => void }) {
  const text = useSignal('');
  const at = useSignal(0);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { if (!dialog.current?.open) dialog.current?.showModal(); }, []);
  const models = useAll(may('see_models') ? '/admin/v1/models' : null).value?.data ?? [];
  const nodes = useAll(scales() && may('see_cluster') ? '/admin/v1/nodes' : null).value?.data ?? [];
  const jobs = useAll(scales() && may('see_jobs') ? '/admin/v1/jobs' : null).value?.data ?? [];
  const tenants = useAll(may('see_tenants') ? '/admin/v1/tenants' : null).value?.data ?? [];
  const keys = useAll(may('see_keys') ? '/admin/v1/keys' : null).value?.data ?? [];
  const all: Found[] = [
    ...pages().map((each) => ({ kind: 'page', name: each.name, href: hrefOf(each.path) })),
    ...models.map((each) => ({ kind: 'model', name: each.name, more: each.aliases.join(' '), href: hrefOf('models', { open: `model:${each.name}` }) })),
    ...jobs.map((each) => ({ kind: 'job', name: each.id, more: each.state, href: hrefOf('queues', { open: `job:${each.id}` }) })),
    ...nodes.map((each) => ({ kind: 'node', name: each.name, more: each.kind ?? '', href: hrefOf('cluster', { open: `node:${each.name}` }) })),
    ...tenants.map((each) => ({ kind: 'tenant', name: each.path, href: hrefOf('usage', { tenant: each.path }) })),
    ...keys.map((each) => ({ kind: 'key', name: each.name || each.id, more: `${each.id} ${each.tenant ?? ''}`, href: hrefOf('keys', { open: `key:${each.id}` }) })),
  ];
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.map((each) => [rank(each, words), each] as const).filter(([value]) => value >= 0)
    .sort(([one], [other]) => other - one).slice(0, MOST).map(([, each]) => each);
  const take = (each: Found | undefined) => {
    if (!each) return;
    onClose();
    go(each.href);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') at.value = Math.min(at.value + 1, found.length - 1);
    else if (event.key === 'ArrowUp') at.value = Math.max(at.value - 1, 0);
    else if (event.key === 'Enter') take(found[at.value]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="search" aria-label="Search" onClose={onClose} onClick={(event) => { if (event.target === dialog.current) dialog.current?.close(); }}>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-label="Search pages, models, jobs, nodes, tenants and keys"
        aria-activedescendant={found.length > 0 ? `found-${at.value}` : undefined} placeholder="A model, job, node, tenant, key or page" autocomplete="off" spellcheck={false} value={text.value}
        onInput={(event) => { text.value = event.currentTarget.value; at.value = 0; }} onKeyDown={pressed} />
      <ul id="found" role="listbox" aria-label="Found">
        {found.map((each, index) => (
          <li key={each.href + each.kind} id={`found-${index}`} role="option" aria-selected={index === at.value} onPointerMove={() => { at.value = index; }} onClick={() => take(each)}>
            <span class="faint">{each.kind}</span><bdi>{each.name}</bdi>{each.more && <span class="faint more-words"><bdi>{each.more}</bdi></span>}
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="faint nothing">Nothing that you may see has this in its name.</p>}
    </dialog>
  );
}
