// Who is signed in, and the way out.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { post } from '../api';
import { now } from '../data';
import { listed, relative } from '../format';
import { me } from '../me';
import { hrefOf } from '../route';
import { forgetTyped } from '../typed';
import { Icon } from './icons';

async function signOut() {
  const { url } = await post('/admin/v1/session:end');
  forgetTyped();
  location.assign(url ?? '/sign-in');
}

export function Person() {
  const open = useSignal(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const away = (event: Event) => { if (!box.current?.contains(event.target as Node)) open.value = false; };
    addEventListener('pointerdown', away);
    return () => removeEventListener('pointerdown', away);
  }, []);
  const who = me.value!;
  const roles = listed(who.roles.map((each) => (each.tenant ? `${each.role} of ${each.tenant}` : each.role)));
  return (
    <div class="person" ref={box} onKeyDown={(event) => { if (event.key === 'Escape') open.value = false; }}>
      <button type="button" class="button quiet person-button" aria-expanded={open.value} aria-label={`Signed in as ${who.name}`} onClick={() => { open.value = !open.value; }}>
        <span class="initial" aria-hidden="true">{(who.name || who.actor).slice(0, 1).toUpperCase()}</span>
      </button>
      {open.value && (
        <div class="menu">
          <p><b><bdi>{who.name || who.actor}</bdi></b></p>
          {who.name && <p class="faint"><bdi>{who.actor}</bdi></p>}
          <p class="faint">{roles || 'no role'}</p>
          {who.session_ends && <p class="faint">The session ends {relative(Date.parse(who.session_ends), now.value)}.</p>}
          <a class="button" href={hrefOf('sessions')} onClick={() => { open.value = false; }}>Sessions</a>
          {who.csrf && <button type="button" class="button" onClick={() => void signOut()}><Icon name="out" />Sign out</button>}
        </div>
      )}
    </div>
  );
}
