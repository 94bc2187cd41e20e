// Dialogs: forms, and the one question before what cannot be undone.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api';
import { Button, Problem } from './basics';

// `stays`: only its own button closes it, since what it shows is not shown again.
export function Dialog({ title, children, onClose, stays }: { title: ComponentChildren; children: ComponentChildren; onClose: () => void; stays?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  // A selection that begins inside and ends outside is a click on the dialog, too.
  const pressed = useRef<EventTarget | null>(null);
  useEffect(() => { if (!dialog.current?.open) dialog.current?.showModal(); }, []);
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="dialog-title" onClose={onClose}
      onKeyDown={(event) => { if (stays && event.key === 'Escape') event.preventDefault(); }}
      onPointerDown={(event) => { pressed.current = event.target; }}
      onClick={(event) => { if (!stays && event.target === dialog.current && pressed.current === dialog.current) dialog.current?.close(); }}>
      <div class="dialog-inside">
        <h2 id="dialog-title">{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

// Says what the act will do, does it, and shows an error where it belongs.
export function Confirm({ title, children, act, word, danger, onClose }: {
  title: ComponentChildren; children: ComponentChildren; act: () => Promise<unknown>; word: string; danger?: boolean; onClose: () => void;
}) {
  const { busy, error, run } = useAct();
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void run(act).then((done) => { if (done) onClose(); }); }}>
        {children}
        {error && <Problem error={error} />}
        <footer>
          <Button onClick={onClose}>Keep it so</Button>
          <Button type="submit" kind={danger ? 'danger' : 'primary'} disabled={busy}>{busy ? `${word} …` : word}</Button>
        </footer>
      </form>
    </Dialog>
  );
}

// An act under way, and its error.
export function useAct() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | Error | undefined>();
  const run = async (act: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true);
    setError(undefined);
    try {
      await act();
      return true;
    } catch (problem) {
      setError(problem as Error);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, run };
}
