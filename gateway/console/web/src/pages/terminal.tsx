// A command line that waits to be signed in: the person compares its code and confirms it, or does not.
import { useEffect, useState } from 'preact/hooks';
import { get, post } from '../api';
import type { TerminalSignIn } from '../api_types';
import { refresh } from '../data';
import { me } from '../me';
import { hrefOf, query, setQuery } from '../route';
import { Button, Empty, Fact, Name, Time } from '../ui/basics';

type State = { code: string; shown?: TerminalSignIn; done?: 'confirm' | 'refuse'; problem?: string };

export function Terminal() {
  const code = query.value.get('code') ?? '';
  const [state, setState] = useState<State>({ code: '' });
  const [typed, setTyped] = useState('');
  useEffect(() => {
    if (!code) return;
    get('/admin/v1/terminal-sign-ins/{code}', { code })
      .then((shown) => setState({ code, shown }))
      .catch((error: Error) => setState({ code, problem: error.message }));
  }, [code]);
  const now = state.code === code ? state : { code };
  const decide = async (done: 'confirm' | 'refuse') => {
    try {
      await post(done === 'confirm' ? '/admin/v1/terminal-sign-ins/{code}:confirm' : '/admin/v1/terminal-sign-ins/{code}:refuse', { code });
      setState({ ...now, done });
      refresh('/admin/v1/sessions');
    } catch (error) {
      setState({ ...now, problem: (error as Error).message });
    }
  };
  if (now.done) {
    return now.done === 'confirm'
      ? <Empty title="The command line is signed in">Go back to the terminal; it goes on by itself. <a href={hrefOf('sessions')}>Sessions</a> lists it, and can end it.</Empty>
      : <Empty title="The command line was refused">It has been informed, and has no session.</Empty>;
  }
  return (
    <section>
      {now.problem && <p class="problem" role="alert"><bdi>{now.problem}</bdi></p>}
      {!now.shown && (
        <form onSubmit={(event) => { event.preventDefault(); setQuery({ code: typed.trim().toUpperCase() }); }}>
          <p>Type the code that <code>tidegate login</code> shows in the terminal.</p>
          <p class="acts">
            <input aria-label="Code" placeholder="WDJB-MJHT" autocomplete="off" spellcheck={false} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
            <Button kind="primary" type="submit">Continue</Button>
          </p>
        </form>
      )}
      {now.shown && !now.problem && (
        <>
          <p>A command line asks to act as you. Confirm it only if you have just run <code>tidegate login</code> yourself, and the terminal shows this code:</p>
          <p class="terminal-code"><strong>{now.shown.code}</strong></p>
          <dl class="facts">
            <Fact label="It says that it is"><Name of={now.shown.client || 'unknown'} /></Fact>
            <Fact label="It calls from"><Name of={now.shown.address} /></Fact>
            <Fact label="The code ends"><Time at={now.shown.ends} /></Fact>
            <Fact label="It will act as"><Name of={me.value!.name || me.value!.actor} /></Fact>
          </dl>
          <p class="acts">
            <Button kind="primary" onClick={() => void decide('confirm')}>Sign it in</Button>
            <Button kind="danger" onClick={() => void decide('refuse')}>Refuse</Button>
          </p>
        </>
      )}
    </section>
  );
}
