// What was used and what it cost, by any two of its groups; each row leads to the requests behind it.
import { useMemo, useState } from 'preact/hooks';
import type { Key, UsageRow } from '../api_types';
import { useAll } from '../data';
import { deviceTime, money, percent, plural, short, visible } from '../format';
import { useKeysById } from '../key_names';
import { may, severalTenants } from '../me';
import { hrefOf, query, range, setQuery, tenant } from '../route';
import { Button, Choice, Empty, Loaded, Name, Num, Section, Time } from '../ui/basics';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { Plot } from '../ui/plot';
import { type LedgerRecord } from '../records';
import { type Column, Table } from '../ui/table';
import { useTail } from '../ui/happenings';
import { hueOf } from '../holders';
import { Feedback } from './feedback';

const GROUPS: [string, string][] = [['tenant', 'Tenant'], ['model', 'Model'], ['key', 'Key'], ['job', 'Job'], ['api', 'Call'], ['reason', 'Outcome'], ['replica', 'Replica'], ['person', 'Person'], ['day', 'Day'], ['hour', 'Hour']];
const TIMES = ['day', 'hour'];
// Groups whose requests can be found by a member of their records.
const TRACED = ['tenant', 'model', 'key', 'api', 'reason', 'replica'];
const MEASURES: [string, string][] = [['cost', 'Money'], ['tokens', 'Tokens'], ['requests', 'Requests'], ['devices', 'Device time'], ['energy', 'Energy']];

const scope = () => tenant.value || severalTenants()[0] || '';

const deviceSeconds = (row: UsageRow) => Object.values(row.device_seconds).reduce((sum, each) => sum + each, 0);

function measured(row: UsageRow, measure: string): number {
  if (measure === 'cost') return row.cost_micro_usd;
  if (measure === 'tokens') return row.input_tokens + row.output_tokens;
  if (measure === 'requests') return row.requests;
  if (measure === 'energy') return row.energy_kwh ?? 0;
  return deviceSeconds(row);
}

function shown(value: number, measure: string): string {
  if (measure === 'cost') return money(value);
  if (measure === 'devices') return deviceTime(value).join('\u00a0');
  if (measure === 'energy') return energy(value);
  return short(value);
}

function energy(kwh: number): string {
  return kwh > 0 && kwh < 1 ? `${short(kwh * 1000)}\u00a0Wh` : `${short(kwh)}\u00a0kWh`;
}

const EMPTY: UsageRow = { requests: 0, errors: 0, failed: 0, input_tokens: 0, cached_tokens: 0, output_tokens: 0, cost_micro_usd: 0, device_seconds: {} };

function sum(rows: UsageRow[]): UsageRow {
  const total = { ...EMPTY, device_seconds: {} as Record<string, number> };
  for (const row of rows) {
    total.requests += row.requests;
    total.errors += row.errors;
    total.failed += row.failed;
    total.input_tokens += row.input_tokens;
    total.cached_tokens += row.cached_tokens;
    total.output_tokens += row.output_tokens;
    total.cost_micro_usd += row.cost_micro_usd;
    for (const [kind, seconds] of Object.entries(row.device_seconds)) total.device_seconds[kind] = (total.device_seconds[kind] ?? 0) + seconds;
    if (row.energy_kwh !== undefined) total.energy_kwh = (total.energy_kwh ?? 0) + row.energy_kwh;
    if (row.energy_micro_usd !== undefined) total.energy_micro_usd = (total.energy_micro_usd ?? 0) + row.energy_micro_usd;
    if (row.co2_grams !== undefined) total.co2_grams = (total.co2_grams ?? 0) + row.co2_grams;
  }
  return total;
}

// Rows that get the same name as one row. Where they are by hour or day, too, those stay apart.
function regroup(rows: UsageRow[], by: 'person' | 'tenant', name: (row: UsageRow) => string): UsageRow[] {
  const found = new Map<string, UsageRow[]>();
  for (const row of rows) {
    const group = `${row.hour ?? row.day ?? ''}\n${name(row)}`;
    found.set(group, [...found.get(group) ?? [], row]);
  }
  return [...found].map(([group, of]) => {
    const [time, named] = group.split('\n') as [string, string];
    const at = of[0]!.hour !== undefined ? { hour: time } : of[0]!.day !== undefined ? { day: time } : {};
    return { ...sum(of), ...at, [by]: named } as unknown as UsageRow;
  });
}

// The person who owns the key of a row; keys of nobody stand for themselves.
const personOf = (row: UsageRow, keys: Map<string, Key>) => keys.get(row.key ?? '')?.owner || (row.key ? `key ${row.key}` : '');

const below = (path: string, above: string) => above === '' || path.startsWith(`${above}/`);

// What the gateway itself accounts for has a name in parentheses, as no tenant has: devices that nobody held.
const isTenant = (name: string) => /^[A-Za-z0-9]/.test(name);

// The tenant that stands above all these rows and is the lowest of them; "": there is none.
function topOf(rows: UsageRow[], scoped: string): string {
  const paths = rows.map((row) => row.tenant ?? '').filter(isTenant);
  let top = scoped;
  while (paths.length > 0 && paths.every((path) => below(path, top))) {
    const child = levelOf(paths[0]!, top);
    if (!paths.every((path) => path === child || below(path, child)) || paths.every((path) => path === child)) break;
    top = child;
  }
  return top;
}

// The tenant right below `top` that a path stands in, or `top` itself.
function levelOf(path: string, top: string): string {
  if (!below(path, top)) return path;
  const end = path.indexOf('/', top === '' ? 0 : top.length + 1);
  return end < 0 ? path : path.slice(0, end);
}

const SECONDS: Record<string, number> = { '1h': 3600, '24h': 86_400, '7d': 604_800, '30d': 2_592_000, '90d': 7_776_000 };

export function Usage() {
  const by = query.value.get('by') ?? 'tenant';
  const measure = query.value.get('measure') ?? 'cost';
  const span = SECONDS[range.value]!;
  const step = span <= 604_800 ? 'hour' : 'day';
  const where = { tenant: scope() || undefined, since: range.value };
  const asked = by === 'person' ? 'key' : by;
  const timed = TIMES.includes(by);
  const keys = useKeysById(asked === 'key');
  const levels = by === 'tenant' && query.value.get('level') !== 'each';
  const rows = useAll('/admin/v1/usage', { query: { ...where, by: asked }, everyMs: 30_000 });
  const before = useAll('/admin/v1/usage', { query: { tenant: where.tenant, since: `${(span * 2) / 3600}h`, until: range.value, by: timed ? undefined : asked } });
  const series = useAll('/admin/v1/usage', { query: { ...where, by: timed ? step : `${step},${asked}` }, everyMs: 60_000 });
  const open = opened('row');
  const file = (format: string, groups?: string) => `/admin/v1/usage?${new URLSearchParams({ format, since: range.value, ...(groups ? { by: groups } : {}), ...(scope() ? { tenant: scope() } : {}) })}`;
  return (
    <>
      <Loaded from={rows} what="the usage">
        {(of) => {
          const total = sum(of.data);
          const top = topOf(of.data, scope());
          const grouped = (all: UsageRow[]) => (by === 'person' ? regroup(all, by, (row) => personOf(row, keys))
            : levels ? regroup(all, 'tenant', (row) => levelOf(row.tenant ?? '', top)) : all);
          const belowOf = (name: string) => (levels && name !== top ? of.data.filter((row) => below(row.tenant ?? '', name)).length : 0);
          const last = before.value ? sum(before.value.data) : undefined;
          const data = grouped(of.data);
          const earlier = before.value && !timed ? new Map(grouped(before.value.data).map((row) => [nameOf(row, by), row.cost_micro_usd])) : undefined;
          return (
            <>
              <div class="totals">
                <Total label="Money" value={money(total.cost_micro_usd)} now={total.cost_micro_usd} before={last?.cost_micro_usd} />
                <Total label="Requests" value={short(total.requests)} now={total.requests} before={last?.requests} />
                <Total label="Tokens in" value={short(total.input_tokens)} now={total.input_tokens} before={last?.input_tokens} note={total.input_tokens > 0 ? `${percent(total.cached_tokens / total.input_tokens)} from cache` : undefined} />
                <Total label="Tokens out" value={short(total.output_tokens)} now={total.output_tokens} before={last?.output_tokens} />
                <Total label="Device time" value={deviceTime(deviceSeconds(total)).join('\u00a0')} now={deviceSeconds(total)} before={last && deviceSeconds(last)} />
                {(total.energy_kwh ?? 0) > 0 && <Total label="Energy" value={energy(total.energy_kwh ?? 0)} now={total.energy_kwh ?? 0} before={last && (last.energy_kwh ?? 0)} />}
                <Total label="Errors" value={short(total.errors)} now={total.errors} before={last?.errors} note={total.requests > 0 ? `${percent(total.errors / total.requests)} of requests` : undefined} />
              </div>
              {of.as_of && (
                <p class="hint">Of all gateways; the others&apos; figures are as of <Time at={of.as_of} /> at the oldest{may('see_replicas') && <>, <a href={hrefOf('gateways')}>each by itself</a></>}.</p>
              )}
              <div class="tools">
                <Choice label="Group by" value={by} options={GROUPS} onChange={(to) => setQuery({ by: to === 'tenant' ? undefined : to, open: undefined })} />
                {by === 'tenant' && <Choice label="Levels" value={levels ? 'below' : 'each'} options={[['below', 'With those below'], ['each', 'Each by itself']]} onChange={(to) => setQuery({ level: to === 'below' ? undefined : to, open: undefined })} />}
                <span class="space" />
                <Choice label="Measure" value={measure} options={MEASURES} onChange={(to) => setQuery({ measure: to === 'cost' ? undefined : to })} />
              </div>
              {of.data.length === 0 ? <Empty title="Nothing was used in this time">Choose a longer time above. The first calls appear here a moment after they end; <a href={hrefOf('start')}>Get started</a> has the lines to paste.</Empty> : (
                <>
                  {series.value && <Series rows={grouped(series.value.data)} by={timed ? 'all' : by} step={step} measure={measure} span={span} />}
                  <Section
                    title={<>{plural(by === 'tenant' ? data.filter((row) => isTenant(nameOf(row, by))).length : data.length, GROUP_NAME[by]?.toLowerCase() ?? 'row')}{levels && top !== '' && data.length > 1 && <span class="faint"> of <bdi>{visible(top)}</bdi></span>}</>}
                    aside={(
                      <>
                        <Button kind="quiet" onClick={() => saveCsv(data, by)}>Save as CSV</Button>
                        <a class="button quiet" href={file('csv', `day,${asked === 'day' ? 'tenant' : asked}`)} download={`tidegate-usage-by-day-${range.value}.csv`}>By day as CSV</a>
                        <a class="button quiet" href={file('focus')} download={`tidegate-focus-${range.value}.csv`}>FOCUS 1.2</a>
                      </>
                    )}
                  >
                    <Table key={by} caption="Usage" columns={columnsOf(by, keys, earlier, levels && data.length > 1 ? top : undefined)} rows={data} id={(row) => nameOf(row, by)} sorted={timed ? '-name' : '-cost'} open={open}
                      onOpen={(row) => openDrawer('row', nameOf(row, by))} />
                  </Section>
                </>
              )}
              {open && may('read_audit') && TRACED.includes(by) && <Requests key={open} by={by} name={open} tenants={belowOf(open)} />}
              {open && !(may('read_audit') && TRACED.includes(by)) && <Parts by={by} name={open} rows={data} tenants={belowOf(open)} />}
              <Feedback of={scope()} />
              {may('see_statements') && <Statements />}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

// The months of UTC that can have a statement, the newest first.
function months(count: number): string[] {
  const now = new Date();
  return Array.from({ length: count }, (_, back) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7));
}

function Statements() {
  const all = months(13);
  const [month, setMonth] = useState(all[1]!);
  const of = scope();
  const href = (format: string) => `/admin/v1/statements/${month}?${new URLSearchParams({ tenant: of, format })}`;
  return (
    <Section title="Statement of a month">
      {!of ? <p class="hint">Choose a tenant above for its statement; those below it are part of it.</p> : (
        <p class="acts">
          <select aria-label="Month" value={month} onChange={(event) => setMonth(event.currentTarget.value)}>
            {all.map((each, at) => <option key={each} value={each}>{each}{at === 0 ? ', so far' : ''}</option>)}
          </select>
          <a class="button" href={href('json')} download={`${of.replaceAll('/', '-')}-${month}.json`}>JSON</a>
          <a class="button" href={href('csv')} download={`${of.replaceAll('/', '-')}-${month}.csv`}>CSV</a>
          <span class="faint">The ledger gives the same bytes again; each ends with its digest.</span>
        </p>
      )}
    </Section>
  );
}

function Total({ label, value, now, before, note }: { label: string; value: string; now: number; before?: number | undefined; note?: string | undefined }) {
  const change = before !== undefined && before > 0 ? (now - before) / before : undefined;
  return (
    <div class="total">
      <span class="label">{label}</span>
      <span class="value">{value}</span>
      <span class="faint">
        {change !== undefined ? (Math.abs(change) < 0.0005 ? 'as in the time before' : `${change > 0 ? '+' : '−'}${percent(Math.abs(change))} to the time before`) : note ?? '\u00a0'}
        {change !== undefined && note && <><br />{note}</>}
      </span>
    </div>
  );
}

const nameOf = (row: UsageRow, by: string) => (by === 'all' ? 'all' : (row as unknown as Record<string, string>)[by] || '(none)');
// An hour or a day of UTC, as the ledger adds up.
const timeName = (name: string, by: string) => (by === 'day' ? name.slice(0, 10) : `${name.slice(0, 10)} ${name.slice(11, 16)} UTC`);

const GROUP_NAME: Record<string, string> = Object.fromEntries(GROUPS);

// A key has a name for people beside its id.
function Row({ name, by, keys, top }: { name: string; by: string; keys: Map<string, Key>; top?: string | undefined }) {
  if (by === 'tenant' && name === '(idle)') return <>{name} <span class="faint">devices that no tenant held</span></>;
  if (name === top && name !== '') return <><Name of={name} /> <span class="faint">itself</span></>;
  const key = by === 'key' ? keys.get(name)?.name : undefined;
  return key ? <span class="two-lines"><Name of={key} /><span class="faint mono">{name}</span></span> : <Name of={TIMES.includes(by) ? timeName(name, by) : name} />;
}

function columnsOf(by: string, keys: Map<string, Key>, earlier?: Map<string, number>, top?: string): Column<UsageRow>[] {
  return [
    { key: 'name', name: GROUP_NAME[by] ?? by, wide: true, sort: (row) => nameOf(row, by), show: (row) => <Row name={nameOf(row, by)} by={by} keys={keys} top={top} /> },
    { key: 'cost', name: 'Money', number: true, sort: (row) => row.cost_micro_usd, show: (row) => <Num of={money(row.cost_micro_usd)} /> },
    ...(earlier ? [{ key: 'before', name: 'Time before', less: true, number: true, sort: (row: UsageRow) => earlier.get(nameOf(row, by)) ?? 0, show: (row: UsageRow) => (earlier.has(nameOf(row, by)) ? <Num of={money(earlier.get(nameOf(row, by))!)} /> : <span class="faint">–</span>) }] : []),
    { key: 'requests', name: 'Requests', number: true, sort: (row) => row.requests, show: (row) => <Num of={short(row.requests)} /> },
    { key: 'input', name: 'Tokens in', number: true, sort: (row) => row.input_tokens, show: (row) => <Num of={short(row.input_tokens)} /> },
    { key: 'cached', name: 'Cached', less: true, number: true, sort: (row) => (row.input_tokens > 0 ? row.cached_tokens / row.input_tokens : 0), show: (row) => (row.input_tokens > 0 ? <Num of={percent(row.cached_tokens / row.input_tokens)} /> : <span class="faint">–</span>) },
    { key: 'output', name: 'Tokens out', number: true, sort: (row) => row.output_tokens, show: (row) => <Num of={short(row.output_tokens)} /> },
    { key: 'devices', name: 'Device time', less: true, number: true, sort: deviceSeconds, show: (row) => (deviceSeconds(row) > 0 ? <Num of={deviceTime(deviceSeconds(row))} /> : <span class="faint">–</span>) },
    { key: 'errors', name: 'Errors', less: true, number: true, sort: (row) => row.errors, show: (row) => <Num of={short(row.errors)} /> },
  ];
}

function Series({ rows, by, step, measure, span }: { rows: UsageRow[]; by: string; step: 'hour' | 'day'; measure: string; span: number }) {
  const { times, lines } = useMemo(() => {
    const stepS = step === 'hour' ? 3600 : 86_400;
    const end = Math.floor(Date.now() / 1000 / stepS) * stepS;
    const count = Math.max(2, Math.ceil(span / stepS) + 1);
    const when = Array.from({ length: count }, (_, at) => end - (count - 1 - at) * stepS);
    const found = new Map<string, number[]>();
    for (const row of rows) {
      const at = when.indexOf(Math.floor(Date.parse(row[step] ?? '') / 1000 / stepS) * stepS);
      if (at < 0) continue;
      const name = nameOf(row, by);
      const values = found.get(name) ?? when.map(() => 0);
      found.set(name, values);
      values[at]! += measured(row, measure);
    }
    const total = (values: number[]) => values.reduce((all, each) => all + each, 0);
    const sorted = [...found].sort(([, one], [, other]) => total(other) - total(one));
    const most = sorted.slice(0, 7);
    const rest = sorted.slice(7);
    const all = most.map(([name, values], index) => ({ name, values, colour: `--hue-${by === 'model' ? hueOf(name) : index}`, area: true, steps: true, total: total(values) }));
    if (rest.length > 0) {
      const values = when.map((_, at) => rest.reduce((of, [, each]) => of + each[at]!, 0));
      all.push({ name: `${rest.length} others`, values, colour: '--hue-7', area: true, steps: true, total: total(values) });
    }
    // A step is as wide as its hour or day; the last one ends now.
    when.push(Math.max(end + 60, Date.now() / 1000));
    for (const line of all) line.values.push(line.values.at(-1)!);
    return { times: when, lines: all.filter((line) => total(line.values) > 0) };
  }, [rows, by, step, measure, span]);
  if (lines.length === 0) return null;
  return <Plot stacked times={times} lines={lines} unit={`by ${step}`} label={`${measure} by ${step}`} height={200} format={(value) => shown(value, measure)} />;
}

// What leads from a tenant to its parts.
function Deeper({ tenant: of, tenants }: { tenant: string; tenants: number }) {
  return (
    <>
      {tenants > 0 && <a class="button" href={hrefOf('usage', { tenant: of })}>{plural(tenants, 'tenant')} below</a>}
      {[['model', 'By model'], ['key', 'By key'], ['person', 'By person']].map(([by, words]) => <a key={by} class="button" href={hrefOf('usage', { tenant: of, by })}>{words}</a>)}
    </>
  );
}

// The last requests behind a row.
function Requests({ by, name, tenants }: { by: string; name: string; tenants: number }) {
  const tail = useTail('close', range.value === '1h' ? '1h' : '24h', by === 'tenant' ? { tenant: name } : by === 'model' ? { model: name } : scope() ? { tenant: scope() } : {});
  const kept = (records: LedgerRecord[]) => (by === 'tenant' || by === 'model' ? records : records.filter((each) => each[by] === name));
  return (
    <Drawer kind={`requests of this ${by}`} title={<Name of={name} />}>
      <p class="acts">
        {by === 'tenant' && isTenant(name) && <Deeper tenant={name} tenants={tenants} />}
        {by === 'key' && <a class="button" href={hrefOf('keys', { open: `key:${name}`, state: 'all' })}>The key</a>}
        {by === 'model' && <a class="button" href={hrefOf('models', { open: `model:${name}` })}>The model now</a>}
      </p>
      <Loaded from={tail} what="the requests">
        {(records) => (kept(records).length === 0 ? <Empty title="No request has ended lately" /> : <ul class="cards">{kept(records).slice(0, 100).map((each) => <RequestCard key={each.seq} of={each} />)}</ul>)}
      </Loaded>
    </Drawer>
  );
}

function RequestCard({ of }: { of: LedgerRecord }) {
  const number = (key: string) => Number(of[key] ?? 0);
  return (
    <li>
      <p class="card-head"><span><Time at={of.time_us / 1000} /> · <Name of={String(of['model'] ?? '')} /></span><span>{String(of['reason'])}</span></p>
      <p class="faint">
        {short(number('input'))} in{number('cached') > 0 && `, ${short(number('cached'))} cached`}, {short(number('output'))} out · {money(number('cost_micro_usd'))}
        {of['ttft_us'] !== undefined && <> · first token {short(number('ttft_us') / 1000)} ms</>}
        {number('queue_us') > 1000 && <> · waited {short(number('queue_us') / 1000)} ms</>}
      </p>
      <p class="faint"><a href={hrefOf('audit', { open: `record:${of.seq}` })}>#{of.seq}</a> <code>{String(of['request'] ?? '')}</code></p>
    </li>
  );
}

function Parts({ by, name, rows, tenants }: { by: string; name: string; rows: UsageRow[]; tenants: number }) {
  const row = rows.find((each) => nameOf(each, by) === name);
  return (
    <Drawer kind={by} title={<Name of={name} />}>
      {row ? (
        <>
          <p><Num of={money(row.cost_micro_usd)} /> for <Num of={short(row.requests)} unit="requests" /></p>
          {by === 'tenant' && isTenant(name) && <p class="acts"><Deeper tenant={name} tenants={tenants} /></p>}
          {by === 'key' && <p><a href={hrefOf('keys', { open: `key:${name}`, state: 'all' })}>The key</a></p>}
          {by === 'job' && <p><a href={hrefOf('queues', { open: `job:${name}`, state: 'all' })}>The job</a></p>}
          {Object.entries(row.device_seconds).map(([kind, seconds]) => <p key={kind}><Num of={deviceTime(seconds)} /> of {kind}</p>)}
          {row.energy_kwh !== undefined && <p><Num of={energy(row.energy_kwh)} />{row.energy_micro_usd !== undefined && ` · ${money(row.energy_micro_usd)}`}{row.co2_grams !== undefined && ` · ${short(row.co2_grams)}\u00a0g of CO2`}</p>}
        </>
      ) : <Empty title="Nothing was used here in this time" />}
    </Drawer>
  );
}

// A cell that a spreadsheet would take for a formula begins with a quote.
function cell(value: string): string {
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function saveCsv(rows: UsageRow[], by: string) {
  const head: string[] = [by, 'requests', 'errors', 'input_tokens', 'cached_tokens', 'output_tokens', 'cost_usd', 'device_seconds', 'energy_kwh'];
  const lines = rows.map((row) => [cell(nameOf(row, by)), row.requests, row.errors, row.input_tokens, row.cached_tokens, row.output_tokens, (row.cost_micro_usd / 1e6).toFixed(6), deviceSeconds(row).toFixed(3), (row.energy_kwh ?? 0).toFixed(6)].join(','));
  const url = URL.createObjectURL(new Blob([`${[head.join(','), ...lines].join('\n')}\n`], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `tidegate-usage-by-${by}-${range.peek()}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
