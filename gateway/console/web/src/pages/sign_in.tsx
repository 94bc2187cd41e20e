import { useEffect, useState } from 'preact/hooks';
import { ApiError, get, signedOut } from '../api';
import type { SignInProvider } from '../api_types';
import { loadMe, me } from '../me';
import { go } from '../route';
import { keptSome } from '../typed';
import { Code } from '../ui/basics';

const RETRY_MS = 2000;

// The words that the gateway puts into the address. Nothing else of an address is shown: anybody can write a link.
const PROBLEMS = new Map(Object.entries({
  link_used: 'This link was used already, or is older than a minute. Make another one with “tidegate console login”.',
  no_role: 'You have no role here: no rule of people.providers gives you one, and no lead has added you to a tenant. Ask an admin or a lead, then sign in again.',
  declined: 'The provider did not sign you in: you broke off there, or it does not let you use Tidegate. Sign in again, or ask those who run the provider.',
  other_attempt: 'This answer of the provider belongs to no attempt of this browser: it was opened twice, or is too old. Sign in again.',
  answer_refused: 'The provider’s answer cannot be accepted. Sign in again; if it stays so, an operator finds the reason in the gateway’s log at “sign-in refused”.',
  unknown_provider: 'No provider of this name is configured. Choose one of those below.',
  provider_unavailable: 'The provider cannot be used now. Try again in a minute; an operator finds the reason in the gateway’s log at “sign-in refused”.',
  too_many_sessions: 'Too many sessions are open. End some, or wait until they end.',
  store_unavailable: 'The gateway could not store the session. Try again in a minute; an operator finds the reason in the gateway’s log at “sign-in refused”.',
}));

export function SignIn() {
  const [providers, setProviders] = useState<SignInProvider[] | undefined>();
  const [trouble, setTrouble] = useState('');
  useEffect(() => {
    let retry = 0;
    const ask = async () => {
      try {
        setProviders((await get('/admin/v1/sign-in')).providers);
        setTrouble('');
      } catch (error) {
        setTrouble(error instanceof ApiError ? error.message : 'The gateway does not answer. This page tries again by itself.');
        retry = window.setTimeout(() => void ask(), RETRY_MS);
      }
    };
    void ask();
    // Somebody may have signed in elsewhere in this browser.
    const again = () => { if (!document.hidden) void loadMe(); };
    addEventListener('visibilitychange', again);
    return () => {
      clearTimeout(retry);
      removeEventListener('visibilitychange', again);
    };
  }, []);
  useEffect(() => {
    if (me.value && !signedOut.value && location.pathname.startsWith('/sign-in')) go('/');
  }, [me.value, signedOut.value]);
  const ended = me.value !== null;
  const failed = PROBLEMS.get(new URLSearchParams(location.search).get('problem') ?? '');
  const page = location.pathname.startsWith('/sign-in') ? '/' : location.pathname + location.search;
  return (
    <main class="alone sign-in">
      <svg class="mark" viewBox="0 0 24 24" width="40" height="40" aria-hidden="true">
        <path d="M3 10c3 0 3-3 6-3s3 3 6 3 3-3 6-3M3 17c3 0 3-3 6-3s3 3 6 3 3-3 6-3" />
      </svg>
      <h1>Sign in to Tidegate</h1>
      {ended && <p role="status">Your session has ended. Sign in again to go on; with a link, in another tab, this page goes on by itself where it was.{keptSome() && ' What you have typed is kept until then.'}</p>}
      {failed && <p class="problem" role="alert">{failed}</p>}
      {trouble && <p class="problem" role="alert">{trouble}</p>}
      {providers?.map((each) => (
        <a key={each.name} class="button primary big" href={`${each.url}?page=${encodeURIComponent(page)}`}>
          Continue with <bdi>{each.label}</bdi>
        </a>
      ))}
      {providers?.length === 0 && (
        <>
          <p>No sign-in provider is configured. On the gateway's machine, run this and open the link that it prints. The link works once, within one minute.</p>
          <Code text="tidegate console login" label="The command that prints a link" />
        </>
      )}
    </main>
  );
}
