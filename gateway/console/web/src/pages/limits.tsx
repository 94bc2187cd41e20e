import type { Key, Limit } from '../api_types';
import { now, useAll } from '../data';
import { amount, fullTime, percent, plural, short } from '../format';
import { useKeysById } from '../key_names';
import { may } from '../me';
import { hrefOf, tenant } from '../route';
import { Bar, Empty, Loaded, Name, Num, Section, Time } from '../ui/basics';
import { type Column, Table } from '../ui/table';

const LOOK = 0.8;
const ACT = 1;

// The day on which a budget is used up, at the rate of the last hour or since its period began.
function usedUp(of: Limit, at: number): { words: string; title?: string; tone: '' | 'look' | 'act' } {
  if (!of.period_start || !of.period_end) return { words: '', tone: '' };
  const [start, end] = [Date.parse(of.period_start), Date.parse(of.period_end)];
  if (of.remaining <= 0) return { words: `used up; it begins anew in ${plural(Math.ceil((end - at) / 86_400_000), 'day')}`, title: fullTime(end), tone: 'act' };
  const rate = of.per_hour === null ? of.used / Math.max(at - start, 60_000) : of.per_hour / 3_600_000;
  if (rate <= 0) return { words: of.used > 0 ? 'not used now' : 'nothing used yet', tone: '' };
  const when = at + of.remaining / rate;
  if (when >= end) return { words: `lasts: about ${percent(Math.min(1, (of.used + rate * (end - at)) / of.capacity))} used by the end`, title: fullTime(end), tone: '' };
  return { words: `used up about ${new Date(when).toLocaleString(undefined, { weekday: 'short', hour: '2-digit', minute: '2-digit', day: 'numeric', month: 'short', hourCycle: 'h23' })} at this rate`, title: fullTime(when), tone: 'look' };
}

export function Limits() {
  const limits = useAll('/admin/v1/limits', { query: { tenant: tenant.value || undefined }, everyMs: 3000 });
  const keys = useKeysById();
  return (
    <Loaded from={limits} what="the limits">
      {(of) => {
        const budgets = of.data.filter((each) => each.period_end !== null);
        const rates = of.data.filter((each) => each.period_end === null);
        if (of.data.length === 0) {
          return <Empty title={tenant.value ? `No limit holds for ${tenant.value} alone` : 'No tenant has a limit'}>Give a tenant <code>limits</code> or a <code>budget</code> in the configuration; a key can have its own when it is made.</Empty>;
        }
        return (
          <>
            {may('ask') && <p><a class="button" href={hrefOf('requests', { new: 'request', what: 'budget' })}>Ask for more</a></p>}
            {budgets.length > 0 && (
              <Section title="Budgets">
                <ul class="budgets">{budgets.toSorted((one, other) => share(other) - share(one)).map((each) => <Budget key={each.id} of={each} keys={keys} />)}</ul>
              </Section>
            )}
            <Section title="Limits">
              {rates.length === 0 ? <Empty title="No rate is limited" /> : <Table caption="Limits" columns={columnsOf(keys)} rows={rates} id={(each) => each.id} sorted="-share" />}
            </Section>
          </>
        );
      }}
    </Loaded>
  );
}

const share = (of: Limit) => (of.capacity > 0 ? (of.used + of.reserved) / of.capacity : 0);
const limitName = (of: Limit) => of.limit.replaceAll('_', ' ');

// The key that a limit is of; its scope is the tenant's path and the key's id.
function keyOf(of: Limit, keys: Map<string, Key>): Key | undefined {
  const at = of.scope.lastIndexOf('/');
  const key = keys.get(of.scope.slice(at + 1));
  return key?.tenant === of.scope.slice(0, at) ? key : undefined;
}

function Scope({ of, keys }: { of: Limit; keys: Map<string, Key> }) {
  const key = keyOf(of, keys);
  return key ? <><Name of={key.tenant!} /> <span class="faint">key</span> <Name of={key.name || key.id} /></> : <Name of={of.scope} />;
}

function Budget({ of, keys }: { of: Limit; keys: Map<string, Key> }) {
  const key = keyOf(of, keys);
  const { words, title, tone } = usedUp(of, now.value);
  const used = amount(of.used, of.unit, of.limit);
  const capacity = amount(of.capacity, of.unit, of.limit);
  return (
    <li>
      <p class="card-head"><span><b><Scope of={of} keys={keys} /></b> <span class="faint">{limitName(of)}{of.model && <> of <bdi>{of.model}</bdi></>}{of.device && <> on {of.device}</>}</span></span><span><Num of={used} /> of <Num of={capacity} /></span></p>
      <Bar value={of.used + of.reserved} limit={of.capacity} look={LOOK} act={ACT} label={`${percent(share(of))} used`} />
      <p class="under"><span class={tone} title={title}>{words}</span><span class="faint">anew <Time at={of.period_end} /></span></p>
      {of.per_hour !== null && of.per_hour > 0 && <p class="faint"><Num of={amount(Math.round(of.per_hour), of.unit, of.limit)} /> an hour{of.thresholds.length > 0 && <>; told at {of.thresholds.map((each) => `${each} %`).join(', ')}</>}</p>}
      {of.reserved > 0 && <p class="faint">{amount(of.reserved, of.unit, of.limit).join(' ')} is reserved by running requests.</p>}
      {of.refused_requests > 0 && <p class="faint">{plural(of.refused_requests, 'request was', 'requests were')} refused since the gateway started.</p>}
      <p>{key ? <a href={hrefOf('keys', { tenant: key.tenant!, open: `key:${key.id}` })}>The key</a> : <a href={hrefOf('usage', { tenant: of.scope, by: 'key' })}>Who uses most</a>}</p>
    </li>
  );
}

const columnsOf = (keys: Map<string, Key>): Column<Limit>[] => [
  { key: 'scope', name: 'For', wide: true, sort: (of) => of.scope, show: (of) => <span><Scope of={of} keys={keys} /></span> },
  { key: 'limit', name: 'Limit', sort: (of) => of.limit, show: (of) => <span>{limitName(of)}{of.model && <span class="faint"> of <bdi>{of.model}</bdi></span>}</span> },
  { key: 'used', name: 'Used', number: true, sort: (of) => of.used + of.reserved, show: (of) => <Num of={amount(of.used + of.reserved, of.unit, of.limit)} /> },
  { key: 'capacity', name: 'Of', number: true, sort: (of) => of.capacity, show: (of) => <Num of={amount(of.capacity, of.unit, of.limit)} /> },
  {
    key: 'share', name: 'Share', sort: share, number: true,
    show: (of) => <span class="with-bar"><Num of={percent(share(of))} /><Bar value={of.used + of.reserved} limit={of.capacity} look={LOOK} act={ACT} label={`${percent(share(of))} of the limit`} /></span>,
  },
  { key: 'refused', name: 'Refused', number: true, sort: (of) => of.refused_requests, show: (of) => <Num of={short(of.refused_requests)} unit="req" /> },
];
