// Details stand on the right, beside the list that they belong to. What is open is in the address: ?open=KIND:NAME.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { query, setQuery } from '../route';
import { Icon } from './icons';

export function opened(kind: string): string | undefined {
  const open = query.value.get('open');
  return open?.startsWith(`${kind}:`) ? open.slice(kind.length + 1) : undefined;
}

export function openDrawer(kind: string, name: string) {
  setQuery({ open: opened(kind) === name ? undefined : `${kind}:${name}` });
}

export function closeDrawer() {
  if (query.peek().has('open')) setQuery({ open: undefined, change: undefined });
}

export function Drawer({ title, kind, children, onClose = closeDrawer }: {
  title: ComponentChildren; kind: string; children: ComponentChildren; onClose?: () => void;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    heading.current?.focus({ preventScroll: true });
    document.body.classList.add('has-drawer');
    return () => {
      document.body.classList.remove('has-drawer');
      if (before?.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <aside class="drawer" aria-label={kind}>
      <header>
        <div>
          <p class="kind">{kind}</p>
          <h2 ref={heading} tabIndex={-1}>{title}</h2>
        </div>
        <button type="button" class="button quiet" aria-label="Close" title="Close (Esc)" onClick={onClose}><Icon name="close" /></button>
      </header>
      <div class="drawer-body">{children}</div>
    </aside>
  );
}
