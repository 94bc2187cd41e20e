import { useEffect, useState } from 'preact/hooks';
import { ApiError, get, signedOut } from '../api';
import type { SignInProvider } from '../api_types';
import { loadMe, me } from '../me';
import { go } from '../route';
import { Code } from '../ui/basics';

const RETRY_MS = 2000;

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
  const failed = new URLSearchParams(location.search).get('problem');
  const page = location.pathname.startsWith('/sign-in') ? '/' : location.pathname + location.search;
  return (
    <main class="alone sign-in">
      <svg class="mark" viewBox="0 0 24 24" width="40" height="40" aria-hidden="true">
        <path d="M3 10c3 0 3-3 6-3s3 3 6 3 3-3 6-3M3 17c3 0 3-3 6-3s3 3 6 3 3-3 6-3" />
      </svg>
      <h1>Sign in to Tidegate</h1>
      {ended && <p role="status">Your session has ended. Sign in again to go on; with a link, in another tab, this page goes on by itself where it was.</p>}
      {failed && <p class="problem" role="alert"><bdi>{failed}</bdi></p>}
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
