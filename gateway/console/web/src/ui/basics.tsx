// The small parts that every page is made of.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api';
import { now } from '../data';
import { type Quantity, fullTime, relative, sentence, visible } from '../format';
import { hueOf } from '../holders';
import { Icon } from './icons';

type Children = ComponentChildren;

// A number with its unit in a lighter tone.
export function Num({ of, unit, title }: { of: string | Quantity; unit?: string; title?: string }) {
  const [number, its] = typeof of === 'string' ? [of, unit ?? ''] : of;
  return <span class="num" title={title}>{number}{its && <span class="unit">{'\u00a0'}{its}</span>}</span>;
}

// Relative, with the absolute time on hover.
export function Time({ at }: { at: string | number | null | undefined }) {
  if (at === null || at === undefined || at === '') return <span class="faint">never</span>;
  const ms = typeof at === 'number' ? at : Date.parse(at);
  return <time dateTime={new Date(ms).toISOString()} title={fullTime(ms)}>{relative(ms, now.value)}</time>;
}

// States are told by a shape and a word; the colour only repeats it.
const STATES: Record<string, [shape: string, tone: string]> = {
  ready: ['●', 'good'], running: ['●', 'good'], up: ['●', 'good'], active: ['●', 'good'], healthy: ['●', 'good'], ok: ['●', 'good'],
  leads: ['●', 'good'], follows: ['○', ''], gone: ['✕', 'look'],
  in_force: ['●', 'good'], approved: ['✓', ''], planned: ['○', ''], ended: ['–', ''], withdrawn: ['–', ''], declined: ['✕', ''], disabled: ['☾', 'look'], not_in_force: ['☾', 'look'],
  launching: ['◔', ''], warming: ['◔', ''], starting: ['◔', ''], waking: ['◔', ''], placed: ['◔', ''], saving: ['◔', ''], unknown: ['◌', ''],
  draining: ['◑', ''], stopping: ['◑', ''], suspending: ['◑', ''], cordoned: ['◑', 'look'], suspect: ['◑', 'look'], drained: ['◑', 'look'], quarantined: ['◑', 'look'], paused: ['☾', 'look'],
  asleep: ['☾', ''], suspended: ['☾', ''], stopped: ['☾', ''],
  waiting: ['○', ''], pending: ['○', ''], held: ['○', ''], free: ['○', ''],
  done: ['✓', ''], succeeded: ['✓', ''], completed: ['✓', ''], replaced: ['↻', ''], expired: ['⌛', ''], cancelled: ['–', ''], revoked: ['✕', ''],
  loaded: ['●', 'good'], loading: ['◔', ''], leaving: ['◑', ''], refused: ['✕', 'look'],
  promoted: ['✓', ''], rolled_back: ['↩', 'look'], aborted: ['–', ''],
  failed: ['✕', 'act'], faulty: ['✕', 'act'], down: ['✕', 'act'], lost: ['✕', 'act'], unhealthy: ['✕', 'act'],
};

export function State({ of, count }: { of: string; count?: number }) {
  const [shape, tone] = STATES[of] ?? ['○', ''];
  return (
    <span class={`state ${tone}`}>
      <span class="shape" aria-hidden="true">{shape}</span>
      {count !== undefined && <>{count} </>}{of.replaceAll('_', ' ')}
    </span>
  );
}

// A model or a job with its colour.
export function Holder({ name }: { name: string }) {
  return <span class="holder"><span class={`swatch hue-${hueOf(name)}`} aria-hidden="true" /><bdi>{visible(name)}</bdi></span>;
}

// What people may have named: shown as text, cut where it is too long, whole on hover.
export function Name({ of, mono }: { of: string; mono?: boolean }) {
  return <bdi class={mono ? 'name mono' : 'name'} title={of.length > 24 ? visible(of) : undefined}>{visible(of)}</bdi>;
}

export function Empty({ title, children }: { title: string; children?: Children }) {
  return <div class="empty"><p class="empty-title">{title}</p>{children && <div>{children}</div>}</div>;
}

export function Problem({ error, what }: { error: Error; what?: string }) {
  const api = error instanceof ApiError ? error : undefined;
  return (
    <div class="problem" role="alert">
      <p><b>{what ? `${what}: ` : ''}</b>{api ? api.message : 'the gateway does not answer; this page tries again by itself'}</p>
      {api?.requestId && <p class="faint">Request <code>{api.requestId}</code></p>}
    </div>
  );
}

// The value when it is there, else what is the matter. No wait is longer than a second without words.
export function Loaded<T>({ from, what, children }: {
  from: { value?: T; error?: Error; at: number }; what: string; children: (value: T) => Children;
}) {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 700);
    return () => clearTimeout(timer);
  }, []);
  if (from.value !== undefined) return <>{children(from.value)}</>;
  // What this gateway does not do is no fault of anybody.
  if (from.error instanceof ApiError && from.error.status === 409) return <Empty title={sentence(from.error.message)} />;
  if (from.error) return <Problem error={from.error} what={what} />;
  return <p class="loading" aria-live="polite">{slow ? `Reading ${what} …` : '\u00a0'}</p>;
}

export function Section({ title, aside, children, id }: { title: Children; aside?: Children; children: Children; id?: string }) {
  return (
    <section class="section" id={id}>
      <header><h2>{title}</h2>{aside && <div class="aside">{aside}</div>}</header>
      {children}
    </section>
  );
}

export function Fact({ label, children }: { label: string; children: Children }) {
  return <><dt>{label}</dt><dd>{children}</dd></>;
}

// A bar of `value` against `limit`; `warn` and `over` are shares from which it asks for a look or an act.
export function Bar({ value, limit, label, look = Infinity, act = Infinity, mark }: {
  value: number; limit: number; label: string; look?: number; act?: number; mark?: number;
}) {
  const share = limit > 0 ? value / limit : 0;
  const tone = share >= act ? 'act' : share >= look ? 'look' : '';
  return (
    <svg class={`bar ${tone}`} viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={label}>
      <title>{label}</title>
      <rect class="bar-ground" width="100" height="8" rx="1" />
      <rect class="bar-fill" width={Math.max(0, Math.min(100, share * 100))} height="8" rx="1" />
      {mark !== undefined && <rect class="bar-mark" x={Math.min(99, mark * 100)} width="1" height="8" />}
    </svg>
  );
}

export function Spark({ values, label, width = 120 }: { values: number[]; label: string; width?: number }) {
  const height = 24;
  const most = Math.max(...values, 1e-9);
  const step = values.length > 1 ? width / (values.length - 1) : width;
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`);
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={label}>
      <title>{label}</title>
      {points.length > 1 && <path class="spark-area" d={`M0,${height}L${points.join('L')}L${width},${height}Z`} />}
      {points.length > 1 && <path class="spark-line" d={`M${points.join('L')}`} />}
    </svg>
  );
}

export function Button({ children, onClick, kind = '', disabled, type = 'button', title }: {
  children: Children; onClick?: () => void; kind?: '' | 'primary' | 'danger' | 'quiet'; disabled?: boolean; type?: 'button' | 'submit'; title?: string;
}) {
  return <button type={type} class={`button ${kind}`} onClick={onClick} disabled={disabled} title={title}>{children}</button>;
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not allowed here: the old way
      const area = document.createElement('textarea');
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <button type="button" class="button quiet copy" onClick={() => void copy()}><Icon name="copy" />{done ? 'Copied' : label}</button>;
}

export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <pre tabIndex={0} aria-label={label}><code>{text}</code></pre>
      <Copy text={text} />
    </div>
  );
}

let ids = 0;
export function useId(): string {
  const ref = useRef('');
  if (!ref.current) ref.current = `f${++ids}`;
  return ref.current;
}

export function Field({ label, hint, problem, children }: {
  label: string; hint?: Children; problem?: string; children: (id: string, described: string) => JSX.Element;
}) {
  const id = useId();
  return (
    <div class={`field ${problem ? 'wrong' : ''}`}>
      <label for={id}>{label}</label>
      {children(id, `${id}-hint`)}
      <p id={`${id}-hint`} class="hint">{problem ? <span class="field-problem">{problem}</span> : hint}</p>
    </div>
  );
}

export function Text({ label, value, onInput, hint, problem, placeholder, mono }: {
  label: string; value: string; onInput: (value: string) => void; hint?: Children; problem?: string; placeholder?: string; mono?: boolean;
}) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(id, described) => (
        <input id={id} class={mono ? 'mono' : ''} type="text" value={value} placeholder={placeholder} aria-describedby={described}
          aria-invalid={!!problem} autocomplete="off" spellcheck={false} onInput={(event) => onInput(event.currentTarget.value)} />
      )}
    </Field>
  );
}

export function Select({ label, value, onChange, options, hint, problem }: {
  label: string; value: string; onChange: (value: string) => void; options: [value: string, words: string][]; hint?: Children; problem?: string;
}) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(id, described) => (
        <select id={id} value={value} aria-describedby={described} onChange={(event) => onChange(event.currentTarget.value)}>
          {options.map(([of, words]) => <option key={of} value={of}>{words}</option>)}
        </select>
      )}
    </Field>
  );
}

// One of a few, as buttons.
export function Choice({ label, value, options, onChange }: {
  label: string; value: string; options: [value: string, words: string][]; onChange: (value: string) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([of, words]) => (
        <button key={of} type="button" aria-pressed={of === value} onClick={() => onChange(of)}>{words}</button>
      ))}
    </div>
  );
}
