// What stands around every page: the rail, the header, the keyboard, and how old the page is.
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { connected, lastContact, signedOut } from './api';
import { now, useAll } from './data';
import { clockTime, relative } from './format';
import { may, me, meProblem, severalTenants } from './me';
import { type PageOf, pages, unscaled } from './pages';
import { SignIn } from './pages/sign_in';
import { RANGES, go, hrefOf, page, query, range, setQuery, tenant } from './route';
import { switchTheme, theme } from './theme';
import { Empty } from './ui/basics';
import { Dialog } from './ui/dialog';
import { closeDrawer } from './ui/drawer';
import { Icon } from './ui/icons';
import { Search } from './ui/search';
import { Person } from './ui/person';

const RANGE_WORDS: Record<string, string> = {
  '1h': 'Last hour', '24h': 'Last 24 hours', '7d': 'Last 7 days', '30d': 'Last 30 days', '90d': 'Last 90 days',
};

export function Shell() {
  const searching = useSignal(false);
  const helping = useSignal(false);
  const more = useSignal(false);
  const shown = pages();
  const first = page.value === '' ? shown[0] : shown.find((each) => each.path === page.value);
  const name = (first ?? unscaled(page.value))?.name;

  useEffect(() => {
    let went = 0;
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.closest('input, textarea, select, [contenteditable]') !== null;
      if (event.key === 'k' && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        searching.value = true;
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (event.key === 'Escape') {
        if (typing) target.blur();
        else closeDrawer();
        return;
      }
      if (typing) return;
      if (Date.now() - went < 1500) {
        went = 0;
        const to = pages().find((each) => each.key === event.key);
        if (to) { event.preventDefault(); go(hrefOf(to.path)); }
      } else if (event.key === 'g') {
        went = Date.now();
      } else if (event.key === '/') {
        event.preventDefault();
        searching.value = true;
      } else if (event.key === '?') {
        helping.value = true;
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);

  useEffect(() => {
    document.title = signedOut.value || page.value === 'sign-in' ? 'Sign in · Tidegate' : name ? `${name} · Tidegate` : 'Tidegate';
  }, [name, signedOut.value, page.value]);

  if (signedOut.value || page.value === 'sign-in') return <SignIn />;
  if (!me.value) {
    return (
      <main class="alone">
        {meProblem.value ? <Empty title="The gateway does not answer">{meProblem.value}. This page tries again by itself.</Empty> : null}
      </main>
    );
  }
  const Shown = first?.show;
  return (
    <div class="shell">
      <a class="skip" href="#main">Skip to the page</a>
      <Rail shown={shown} at={first} more={more.value} onMore={(on) => { more.value = on; }} />
      <header class="top">
        <h1>{name ?? 'No such page'}</h1>
        <div class="top-tools">
          {first?.scoped && <Scope one={first.one ?? false} />}
          {first?.ranged && (
            <select class="quiet-select" aria-label="Time range" value={range.value} onChange={(event) => setQuery({ range: event.currentTarget.value })}>
              {RANGES.map((of) => <option key={of} value={of}>{RANGE_WORDS[of]}</option>)}
            </select>
          )}
          <button type="button" class="search-button" aria-label="Search" onClick={() => { searching.value = true; }}>
            <Icon name="search" /><span>Search</span><kbd>/</kbd>
          </button>
          <button type="button" class="button quiet square" aria-label={theme.value === 'dark' ? 'Light colours' : 'Dark colours'}
            title={theme.value === 'dark' ? 'Light colours' : 'Dark colours'} onClick={switchTheme}><Icon name="sun" /></button>
          <Person />
        </div>
      </header>
      {!connected.value && (
        <p class="banner" role="status">
          The gateway does not answer. This page is as of {clockTime(lastContact.value)} ({relative(lastContact.value, now.value)}) and tries again by itself.
        </p>
      )}
      <main id="main" tabIndex={-1}>
        {Shown ? <Shown key={first.path} /> : name ? <Unscaled to={shown[0]} /> : <Empty title="This page does not exist, or it is not for you"><To page={shown[0]} /></Empty>}
      </main>
      {searching.value && <Search onClose={() => { searching.value = false; }} />}
      {helping.value && <KeysHelp shown={shown} onClose={() => { helping.value = false; }} />}
    </div>
  );
}

const To = ({ page: of }: { page: PageOf | undefined }) => <a href={hrefOf(of?.path ?? '')}>Go to {of?.name}</a>;

function Unscaled({ to }: { to: PageOf | undefined }) {
  return (
    <Empty title="This gateway starts no replicas and runs no jobs">
      Its configuration has no section <code>scaling</code>. {may('change_config')
        ? <>Add one that names the devices, as in <code>conf/demo.yaml</code>, and restart the gateway; the documentation says more under “Scaling”.</>
        : 'Ask an operator to add one.'} <To page={to} />
    </Empty>
  );
}

function Rail({ shown, at, more, onMore }: { shown: PageOf[]; at: PageOf | undefined; more: boolean; onMore: (on: boolean) => void }) {
  return (
    <nav class={`rail ${more ? 'rail-open' : ''}`} aria-label="Pages">
      <a class="brand" href={hrefOf('')} aria-label="Tidegate, overview">
        <svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
          <path d="M3 10c3 0 3-3 6-3s3 3 6 3 3-3 6-3M3 17c3 0 3-3 6-3s3 3 6 3 3-3 6-3" />
        </svg>
        <span>Tidegate</span>
      </a>
      {shown.filter((each) => !each.aside).map((each, index) => (
        <a key={each.path} href={hrefOf(each.path)} class={`rail-link ${index > 3 ? 'rail-later' : ''}`} aria-current={each === at ? 'page' : undefined}
          title={`${each.name} (g ${each.key})`} onClick={() => onMore(false)}>
          <Icon name={each.icon} /><span>{each.name}</span>
        </a>
      ))}
      {shown.length > 5 && (
        <button type="button" class="rail-link rail-more" aria-expanded={more} onClick={() => onMore(!more)}><Icon name="more" /><span>More</span></button>
      )}
    </nav>
  );
}

// The tenant that lists are about: it and everything below it.
function Scope({ one }: { one: boolean }) {
  const { value } = useAll(may('see_tenants') ? '/admin/v1/tenants' : null, { everyMs: 60_000 });
  const paths = value?.data.map((each) => each.path) ?? me.value!.tenants;
  if (paths.length < 2 && !query.value.get('tenant')) return null;
  const own = one ? severalTenants()[0] : undefined;
  return (
    <select class="quiet-select" aria-label="Tenant" value={tenant.value || own} onChange={(event) => setQuery({ tenant: event.currentTarget.value })}>
      {!own && <option value="">All tenants</option>}
      {tenant.value && !paths.includes(tenant.value) && <option value={tenant.value}>{tenant.value}</option>}
      {paths.map((path) => <option key={path} value={path}>{path}</option>)}
    </select>
  );
}

function KeysHelp({ shown, onClose }: { shown: PageOf[]; onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl class="facts">
        <dt><kbd>/</kbd></dt><dd>Search</dd>
        <dt><kbd>Esc</kbd></dt><dd>Close what is open</dd>
        {shown.map((each) => <><dt><kbd>g</kbd> <kbd>{each.key}</kbd></dt><dd>{each.name}</dd></>)}
      </dl>
    </Dialog>
  );
}
