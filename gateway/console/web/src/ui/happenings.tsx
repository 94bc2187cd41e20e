// Records of the ledger, newest first, each with its reason; they wait while the pointer is on the list.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from '../api';
import { live } from '../data';
import { happened } from '../feed';
import { plural } from '../format';
import { useKeysById } from '../key_names';
import { type LedgerRecord, deedOf, reasonOf } from '../records';
import { hrefOf } from '../route';
import { Empty, Name, Time } from './basics';
import { Icon } from './icons';

const EVERY_MS = 3000;
const SELDOM_MS = 30_000; // while events tell what happens
const KEPT = 2000;
const ENOUGH = 500;
const PAGES = 3;
// The ledger is read forwards only, so the newest records are found by asking for longer and longer times.
const TIMES = ['1h', '24h', '7d', '30d', '90d'];

// `whole`: no older record of the time is missing.
export interface Tail { value?: LedgerRecord[]; error?: Error; at: number; whole?: boolean }

interface Read { records: LedgerRecord[]; next: number; whole: boolean }

// The records of some kinds since a time, newest first, and those that come.
export function useTail(kinds: string, since: string, more: { tenant?: string; model?: string } = {}): Tail {
  const [tail, setTail] = useState<Tail>({ at: 0 });
  const key = JSON.stringify([kinds, since, more]);
  useEffect(() => {
    let over = false;
    let timer = 0;
    let known: Read | undefined;

    const read = async (from: { since: string } | { from_seq: number }): Promise<Read> => {
      let begin: typeof from = from;
      const rows: LedgerRecord[] = [];
      for (let page = 1; ; ++page) {
        const list = await get('/admin/v1/audit', {}, { kind: kinds, limit: 1000, ...more, ...begin });
        rows.push(...list.data as unknown as LedgerRecord[]);
        if (!list.has_more || page === PAGES || over) return { records: rows.reverse(), next: list.next_from_seq, whole: !list.has_more };
        begin = { from_seq: list.next_from_seq };
      }
    };
    const first = async (): Promise<Read> => {
      let found: Read | undefined;
      for (const time of [...TIMES.slice(0, Math.max(0, TIMES.indexOf(since))), since]) {
        const wider = await read({ since: time });
        if (!wider.whole) return { ...(found ?? wider), whole: false };
        found = { ...wider, whole: time === since };
        if (wider.records.length >= ENOUGH) break;
      }
      return found!;
    };
    let reading = false;
    const load = async () => {
      if (reading) return;
      reading = true;
      clearTimeout(timer);
      try {
        if (!document.hidden) {
          if (!known) {
            known = await first();
          } else {
            const fresh = await read({ from_seq: known.next });
            if (fresh.records.length > 0) known = { records: [...fresh.records, ...known.records].slice(0, KEPT), next: fresh.next, whole: known.whole };
            else known.next = fresh.next;
          }
          if (!over) setTail({ value: known.records, whole: known.whole, at: Date.now() });
        }
      } catch (error) {
        if (!over) setTail({ ...(known ? { value: known.records, whole: known.whole } : {}), at: Date.now(), error: error as Error });
      }
      reading = false;
      if (!over) timer = window.setTimeout(load, live.peek() ? SELDOM_MS : EVERY_MS);
    };
    setTail({ at: 0 });
    void load();
    const told = happened.subscribe(() => { if (known) void load(); });
    return () => { over = true; clearTimeout(timer); told(); };
  }, [key]);
  return tail;
}

// A list that stands still while the pointer is on it, and how many are new.
export function useHeld<T>(rows: T[]): { shown: T[]; fresh: number; release: () => void; hold: { onPointerEnter: () => void; onPointerLeave: () => void } } {
  const [held, setHeld] = useState<T[] | null>(null);
  const latest = useRef(rows);
  latest.current = rows;
  return {
    shown: held ?? rows,
    fresh: held ? rows.length - held.length : 0,
    release: () => setHeld(latest.current),
    hold: { onPointerEnter: () => setHeld(latest.current), onPointerLeave: () => setHeld(null) },
  };
}

const ICONS: Record<string, string> = { config: 'settings', key: 'keys', admin: 'audit', action: 'models' };

// A key has a name for people beside its id.
export function Actor({ id }: { id: string }) {
  const name = useKeysById().get(id)?.name;
  return <Name of={name ? `${name} (${id})` : id} />;
}

export function Deed({ of }: { of: LedgerRecord }) {
  const deed = deedOf(of);
  return <span class="deed">{deed.of && <><Name of={deed.of} /> </>}<span>{deed.words}</span></span>;
}

export function Happenings({ records, most }: { records: LedgerRecord[]; most: number }) {
  const { shown, fresh, release, hold } = useHeld(records);
  if (records.length === 0) return <Empty title="Nothing has happened in this time">Starts and stops of replicas and jobs, changes of keys and of the configuration appear here with their reasons.</Empty>;
  return (
    <div {...hold}>
      {fresh > 0 && <button type="button" class="fresh" onClick={release}>{plural(fresh, 'new record')}</button>}
      <ol class="happenings">
        {shown.slice(0, most).map((record) => (
          <li key={record.seq}>
            <Time at={record.time_us / 1000} />
            <Icon name={ICONS[record.kind] ?? 'requests'} />
            <span class="what">
              <Deed of={record} />
              {reasonOf(record) && <span class="reason">{reasonOf(record)}</span>}
              {record.actor && record.actor !== 'control' && <span class="faint"> by <Actor id={record.actor} /></span>}
            </span>
            <a class="seq" href={hrefOf('audit', { open: `record:${record.seq}` })} title="The record in the ledger">#{record.seq}</a>
          </li>
        ))}
      </ol>
    </div>
  );
}
