// The gateways that share a store: who leads, whether each is heard of, follows, and has told its usage.
import type { Gateway, UsageOfGateway } from '../api_types';
import { useAll, useGet } from '../data';
import { plural, short } from '../format';
import { may } from '../me';
import { Empty, Loaded, Name, Num, State, Time } from '../ui/basics';
import { type Column, Table } from '../ui/table';

// Changes of the store that a healthy gateway may lack for a moment.
const LAG_LOOK = 100;

function sentence(all: Gateway[]): string {
  const live = all.filter((each) => each.role !== 'gone');
  const leader = all.find((each) => each.role === 'leads');
  const gone = all.length - live.length;
  const versions = new Set(live.map((each) => each.version));
  return [
    `${plural(live.length, 'gateway')}${leader ? `; ${leader.name} leads${leader.epoch > 0 ? ` in term ${leader.epoch}` : ''}` : '; none leads'}`,
    ...(gone > 0 ? [`${plural(gone, 'gateway')} not heard of any more`] : []),
    ...(versions.size > 1 ? [`versions ${[...versions].join(' and ')} work beside each other`] : []),
  ].join('. ') + '.';
}

export function Gateways() {
  const gateways = useAll('/admin/v1/gateways', { everyMs: 5_000 });
  const usage = useGet(may('see_usage') ? '/admin/v1/usage' : null, { query: { since: '1h', limit: '1' }, everyMs: 15_000 });
  const told = new Map<string, UsageOfGateway>((usage.value?.gateways ?? []).map((of) => [of.gateway, of]));
  const columns: Column<Gateway>[] = [
    { key: 'name', name: 'Gateway', wide: true, sort: (of) => of.name, show: (of) => <span class="two-lines"><span><Name of={of.name} />{of.self && <b> this one</b>}</span><span class="faint"><Name of={of.address} /></span></span> },
    { key: 'role', name: 'Role', sort: (of) => of.role, show: (of) => <State of={of.role} /> },
    { key: 'epoch', name: 'Term', number: true, sort: (of) => of.epoch, show: (of) => (of.epoch > 0 ? <Num of={String(of.epoch)} /> : <span class="faint">–</span>) },
    { key: 'version', name: 'Version', sort: (of) => of.version, show: (of) => <Name of={of.version} /> },
    { key: 'lag', name: 'Behind', number: true, sort: (of) => of.lag, show: (of) => <span class={of.lag > LAG_LOOK ? 'look' : ''}><Num of={short(of.lag)} unit={of.lag === 1 ? 'change' : 'changes'} /></span> },
    { key: 'seen', name: 'Last heard', number: true, sort: (of) => -of.seen_ms, show: (of) => (of.self ? <span class="faint">now</span> : <Time at={gateways.at - of.seen_ms} />) },
    { key: 'since', name: 'Started', less: true, number: true, sort: (of) => Date.parse(of.since), show: (of) => <Time at={of.since} /> },
    ...(told.size > 0 ? [{ key: 'usage', name: 'Usage as of', less: true, number: true, sort: (of: Gateway) => told.get(of.name)?.as_of ?? '', show: (of: Gateway) => (of.self ? <span class="faint">now</span> : <Time at={told.get(of.name)?.as_of} />) }] : []),
  ];
  return (
    <Loaded from={gateways} what="the gateways">
      {(of) => (of.data.length === 0 ? <Empty title="No gateway is known" /> : (
        <>
          <p class={`verdict ${of.data.some((each) => each.role === 'gone') ? 'look' : ''}`}>{sentence(of.data)}</p>
          <Table caption="Gateways" columns={columns} rows={of.data} id={(each) => each.name} sorted="name" />
          {of.data.length === 1 && <p class="hint">One gateway serves and leads alone. Several share the work when they have the same PostgreSQL as their store.</p>}
        </>
      ))}
    </Loaded>
  );
}
