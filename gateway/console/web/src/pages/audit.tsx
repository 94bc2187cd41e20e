import { useEffect, useState } from 'preact/hooks';
import { get, post } from '../api';
import { refresh, useGet } from '../data';
import { bytes, percent, plural } from '../format';
import { type LedgerRecord, reasonOf } from '../records';
import { query, range, setQuery, tenant } from '../route';
import { Button, Copy, Empty, Fact, Loaded, Name, Num, Time } from '../ui/basics';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { Actor, Deed, useHeld, useTail } from '../ui/happenings';
import { type Column, Table } from '../ui/table';

const KINDS: [kinds: string, words: string][] = [
  ['action,config,key,admin', 'Changes and actions'], ['action', 'Actions'], ['key', 'Keys'], ['config', 'Configuration'], ['admin', 'Administration'],
  ['close', 'Requests that ended'], ['open', 'Requests that began'], ['devices', 'Device time'], ['start,stop,recovery,retention,segment,checkpoint,refusals', 'The ledger itself'],
];

export function Audit() {
  const kinds = query.value.get('kind') ?? KINDS[0]![0];
  const filter = query.value.get('find') ?? '';
  const tail = useTail(kinds, range.value, { ...(tenant.value ? { tenant: tenant.value } : {}) });
  const wanted = filter.toLowerCase();
  const rows = (tail.value ?? []).filter((record) => !wanted || JSON.stringify(record).toLowerCase().includes(wanted));
  const { shown, fresh, release, hold } = useHeld(rows);
  const open = opened('record');
  return (
    <>
      <div class="tools">
        <select aria-label="Kind" value={kinds} onChange={(event) => setQuery({ kind: event.currentTarget.value === KINDS[0]![0] ? undefined : event.currentTarget.value })}>
          {KINDS.map(([of, words]) => <option key={of} value={of}>{words}</option>)}
        </select>
        <input type="search" class="filter" aria-label="Filter records" placeholder="Text in a record" value={filter} onInput={(event) => setQuery({ find: event.currentTarget.value }, true)} />
        <span class="space" />
        <Button kind="quiet" onClick={() => save(rows)}>Save as JSON lines</Button>
        <ExportAll kinds={kinds} />
      </div>
      <Verification />
      <Loaded from={tail} what="the ledger">
        {() => (rows.length === 0
          ? <Empty title={filter ? `No record of this time has “${filter}” in it` : 'No such record in this time'}>Choose a longer time or another kind above.</Empty>
          : (
            <div {...hold}>
              <p class="hint">{fresh > 0 ? <button type="button" class="fresh" onClick={release}>{plural(fresh, 'new record')}</button> : <>{plural(rows.length, 'record')}, newest first; new ones appear by themselves.{!tail.whole && <> There are older ones in this time: <code>tidegate audit export</code> writes all of them.</>}</>}</p>
              <Table caption="Records" columns={COLUMNS} rows={shown} id={(record) => String(record.seq)} open={open} onOpen={(record) => openDrawer('record', String(record.seq))} />
            </div>
          ))}
      </Loaded>
      {open && <RecordDrawer key={open} seq={Number(open)} known={rows.find((record) => String(record.seq) === open)} />}
    </>
  );
}

const COLUMNS: Column<LedgerRecord>[] = [
  { key: 'time', name: 'When', show: (of) => <Time at={of.time_us / 1000} /> },
  { key: 'kind', name: 'Kind', show: (of) => of.kind },
  {
    key: 'what', name: 'What', wide: true,
    show: (of) => (
      <span class="two-lines">
        <Deed of={of} />
        {of.kind !== 'close' && reasonOf(of) && <span class="reason">{reasonOf(of)}</span>}
      </span>
    ),
  },
  { key: 'who', name: 'By', less: true, show: (of) => (of.actor ? <Actor id={of.actor} /> : of['key'] ? <Actor id={String(of['key'])} /> : <span class="faint">–</span>) },
  { key: 'tenant', name: 'Tenant', less: true, show: (of) => (of.tenant ? <Name of={of.tenant} /> : <span class="faint">–</span>) },
  { key: 'seq', name: 'Number', number: true, show: (of) => <span class="num">#{of.seq}</span> },
];

function RecordDrawer({ seq, known }: { seq: number; known: LedgerRecord | undefined }) {
  const found = useGet(known ? null : '/admin/v1/audit', { query: { from_seq: seq, limit: 1 } });
  const record = known ?? (found.value?.data[0] as unknown as LedgerRecord | undefined);
  return (
    <Drawer kind="record" title={`#${seq}`}>
      {!record || record.seq !== seq ? <Loaded from={found} what="the record">{() => <Empty title="This record is not in the ledger">Retention may have removed it.</Empty>}</Loaded> : (
        <>
          <dl class="facts">
            <Fact label="When"><Time at={record.time_us / 1000} /> <span class="faint">{new Date(record.time_us / 1000).toISOString()}</span></Fact>
            {Object.entries(record).filter(([key]) => !['seq', 'time_us', 'detail'].includes(key)).map(([key, value]) => (
              <Fact key={key} label={key.replaceAll('_', ' ')}><bdi>{typeof value === 'object' ? JSON.stringify(value) : String(value)}</bdi></Fact>
            ))}
          </dl>
          {record.detail !== undefined && <><h3>Detail</h3><pre class="file" tabIndex={0}>{JSON.stringify(record.detail, null, 2)}</pre></>}
          <p class="acts">
            <a class="button" href={`/admin/v1/audit/records/${seq}/proof`} download={`tidegate-record-${seq}.json`}>Proof of this record</a>
            <span class="faint">With the lines up to the next signed checkpoint, for <code>tidegate audit verify --proof</code>.</span>
          </p>
          <Neighbours seq={seq} />
          <p><Copy text={JSON.stringify(record)} label="Copy the record" /></p>
        </>
      )}
    </Drawer>
  );
}

function Neighbours({ seq }: { seq: number }) {
  const [trouble, setTrouble] = useState('');
  const next = async () => {
    const list = await get('/admin/v1/audit', {}, { from_seq: seq + 1, limit: 1 });
    const record = list.data[0];
    if (record) openDrawer('record', String(record.seq));
    else setTrouble('This is the last record.');
  };
  return (
    <p class="acts">
      {seq > 1 && <Button kind="quiet" onClick={() => openDrawer('record', String(seq - 1))}>The one before</Button>}
      <Button kind="quiet" onClick={() => void next()}>The next one</Button>
      {trouble && <span class="faint">{trouble}</span>}
    </p>
  );
}

const MOST_EXPORTED = 100_000;

// All records of the time and kinds, page by page; a longer one is for the command line.
function ExportAll({ kinds }: { kinds: string }) {
  const [state, setState] = useState('');
  const run = async () => {
    const rows: LedgerRecord[] = [];
    try {
      for (let from = 1; ;) {
        const page = await get('/admin/v1/audit', {}, { kind: kinds, since: range.peek(), tenant: tenant.peek() || undefined, from_seq: from, limit: 1000 });
        rows.push(...page.data as unknown as LedgerRecord[]);
        setState(`${plural(rows.length, 'record')} …`);
        if (!page.has_more || rows.length >= MOST_EXPORTED) {
          save(rows);
          setState(page.has_more ? `The first ${MOST_EXPORTED} are saved; tidegate audit export writes all.` : '');
          return;
        }
        from = page.next_from_seq;
      }
    } catch (error) {
      setState((error as Error).message);
    }
  };
  const running = state.endsWith('…');
  return <>{state && <span class="faint" role="status">{state}</span>}<Button kind="quiet" disabled={running} onClick={() => void run()}>Export all of this time</Button></>;
}

function Verification() {
  const [every, setEvery] = useState(60_000);
  const found = useGet('/admin/v1/audit/verification', { everyMs: every });
  const of = found.value;
  useEffect(() => setEvery(of?.state === 'running' ? 1000 : 60_000), [of?.state]);
  if (!of) return null;
  const start = async () => {
    await post('/admin/v1/audit:verify', {});
    refresh('/admin/v1/audit/verification');
    setEvery(1000);
  };
  const share = of.total_bytes > 0 ? of.done_bytes / of.total_bytes : 0;
  return (
    <p class="hint">
      {of.state === 'running' && <span role="status">The ledger is being verified: {percent(share)} of <Num of={bytes(of.total_bytes)} />. </span>}
      {of.state === 'good' && <>The ledger was verified <Time at={of.ended} />: {plural(of.records, 'record')} and {plural(of.checkpoints, 'checkpoint')} are good, up to #{of.last_seq}; {of.unsigned_records} not signed yet. </>}
      {of.state === 'bad' && of.first_bad && <b class="problem" role="alert">The ledger is damaged or was changed at {of.first_bad.segment}, record {of.first_bad.seq}: {of.first_bad.why}. </b>}
      {(of.state === 'failed' || of.state === 'stopped') && <>The last verification did not end: {of.why || 'it was stopped'}. </>}
      {of.state === 'never' && <>The gateway has not verified its ledger since it started. </>}
      {of.state !== 'running' && <Button kind="quiet" onClick={() => void start()}>Verify the ledger</Button>}
    </p>
  );
}

function save(records: LedgerRecord[]) {
  const url = URL.createObjectURL(new Blob(records.map((record) => `${JSON.stringify(record)}\n`), { type: 'application/x-ndjson' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = 'tidegate-audit.jsonl';
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
