// Records of the ledger, newest first, each with its reason; they wait while the pointer is on the list.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from '../api';
import { plural } from '../format';
import { type LedgerRecord, actionWords, reasonOf } from '../records';
import { hrefOf } from '../route';
import { Empty, Name, Time } from './basics';
import { Icon } from './icons';

const EVERY_MS = 3000;
const KEPT = 2000;

export interface Tail { value?: LedgerRecord[]; error?: Error; at: number }

// The records of some kinds since a time, newest first, and those that come.
export function useTail(kinds: string, since: string, more: { tenant?: string; model?: string } = {}): Tail {
  const [tail, setTail] = useState<Tail>({ at: 0 });
  const key = JSON.stringify([kinds, since, more]);
  useEffect(() => {
    let over = false;
    let timer = 0;
    let from: number | undefined;
    let records: LedgerRecord[] = [];
    setTail({ at: 0 });
    const load = async () => {
      if (document.hidden) { timer = window.setTimeout(load, EVERY_MS); return; }
      try {
        let full = true;
        while (full && !over) {
          const list = await get('/admin/v1/audit', {}, { kind: kinds, limit: 1000, ...more, ...(from === undefined ? { since } : { from_seq: from }) });
          const rows = list.data as unknown as LedgerRecord[];
          from = list.next_from_seq;
          full = list.has_more;
          if (rows.length > 0) records = [...rows.toReversed(), ...records].slice(0, KEPT);
        }
        if (!over) setTail({ value: records, at: Date.now() });
      } catch (error) {
        if (!over) setTail({ ...(from === undefined ? {} : { value: records }), at: Date.now(), error: error as Error });
      }
      if (!over) timer = window.setTimeout(load, EVERY_MS);
    };
    void load();
    return () => { over = true; clearTimeout(timer); };
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
              <span class="deed">{record.subject && <Name of={record.subject} />} <span>{actionWords(record.action ?? record.kind)}</span></span>
              {reasonOf(record) && <span class="reason">{reasonOf(record)}</span>}
              {record.actor && record.actor !== 'control' && <span class="faint"> by <Name of={record.actor} /></span>}
            </span>
            <a class="seq" href={hrefOf('audit', { open: `record:${record.seq}` })} title="The record in the ledger">#{record.seq}</a>
          </li>
        ))}
      </ol>
    </div>
  );
}
