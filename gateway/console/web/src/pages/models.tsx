import { useState } from 'preact/hooks';
import { post } from '../api';
import type { Endpoint, Model, ModelOrder, Replica, Rollout, Scaling, Traffic } from '../api_types';
import { refresh, useAll, useGet } from '../data';
import { duration, listed, plural, price, short } from '../format';
import { hueOf } from '../holders';
import { may } from '../me';
import { type LedgerRecord, detailOf } from '../records';
import { hrefOf, query, setQuery } from '../route';
import { useTyped } from '../typed';
import { Bar, Button, Empty, Fact, Holder, Loaded, Name, Num, State, Text, Time } from '../ui/basics';
import { Confirm } from '../ui/dialog';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { Happenings, useTail } from '../ui/happenings';
import { Plot } from '../ui/plot';
import { type Column, Table } from '../ui/table';
import { Why } from '../ui/why';
import { AdaptersPart } from './model_adapters';
import { RolloutNote, RolloutPart } from './model_rollout';

const EVERY_MS = 2000;
// Shorter starts count as this long.
const LEAST_LEAD_MS = 10_000;

interface Row { model: Model; scaling?: Scaling; traffic?: Traffic; rollout?: Rollout; endpoints: Endpoint[] }

export function Models() {
  const models = useAll('/admin/v1/models', { everyMs: 30_000 });
  const scaling = useAll('/admin/v1/scaling', { everyMs: EVERY_MS }).value?.data ?? [];
  const traffic = useAll('/admin/v1/traffic', { everyMs: EVERY_MS }).value?.data ?? [];
  const rollouts = useAll(may('see_replicas') ? '/admin/v1/rollouts' : null, { everyMs: EVERY_MS }).value?.data ?? [];
  const endpoints = useAll(may('see_replicas') ? '/admin/v1/endpoints' : null, { everyMs: EVERY_MS }).value?.data ?? [];
  const filter = query.value.get('find') ?? '';
  const open = opened('model');
  return (
    <Loaded from={models} what="the models">
      {(of) => {
        const rowOf = (model: Model): Row => ({
          model,
          scaling: scaling.find((each) => each.model === model.name),
          traffic: traffic.find((each) => each.model === model.name),
          rollout: rollouts.find((each) => each.model === model.name),
          endpoints: endpoints.filter((each) => each.model === model.name),
        });
        const rows = of.data.filter((model) => [model.name, ...model.aliases].some((name) => name.toLowerCase().includes(filter.toLowerCase()))).map(rowOf);
        const model = of.data.find((each) => each.name === open);
        return (
          <>
            {(of.data.length > 8 || filter) && (
              <input type="search" class="filter" aria-label="Filter models" placeholder="Filter by name or alias" value={filter} onInput={(event) => setQuery({ find: event.currentTarget.value }, true)} />
            )}
            {of.data.length === 0
              ? <Empty title="No model is configured">Add one under <code>models</code> in the configuration, and reload.</Empty>
              : rows.length === 0 ? <Empty title={`No model has “${filter}” in its name`} />
                : <Table caption="Models" columns={COLUMNS} rows={rows} id={(each) => each.model.name} open={open} sorted="name" onOpen={(each) => openDrawer('model', each.model.name)} />}
            {model && <ModelDrawer key={model.name} row={rowOf(model)} />}
            {open !== undefined && !model && <Drawer kind="model" title={<Name of={open} />}><Empty title="No model that you may see has this name" /></Drawer>}
          </>
        );
      }}
    </Loaded>
  );
}

const COLUMNS: Column<Row>[] = [
  {
    key: 'name', name: 'Model', wide: true, sort: (row) => row.model.name,
    show: ({ model, rollout }) => <span class="two-lines"><Holder name={model.name} />{model.paused && <State of="paused" />}{model.held && <span class="look">held</span>}{model.aliases.length > 0 && <span class="faint">also <bdi>{listed(model.aliases)}</bdi></span>}{model.lora && <span class="faint">adapter of <bdi>{model.lora.base}</bdi></span>}{rollout && <RolloutNote of={rollout} />}</span>,
  },
  {
    key: 'replicas', name: 'Replicas', sort: (row) => row.scaling?.ready ?? -1, number: true,
    show: ({ scaling, rollout, endpoints }) => (scaling ? <Num of={`${scaling.ready} of ${scaling.wanted + wantedOfVersion(rollout)}`} title={scaling.reason} />
      : endpoints.length === 0 ? <span class="faint">not scaled</span>
        : <span class={endpoints.some(isUp) ? '' : 'act'}><Num of={`${endpoints.filter(isUp).length} of ${endpoints.length}`} unit="up" title="Endpoints of the configuration; this model is not scaled" /></span>),
  },
  { key: 'demand', name: 'Demand', less: true, number: true, sort: (row) => row.scaling?.demand ?? -1, show: ({ scaling }) => (scaling ? <Num of={short(scaling.demand)} unit="replicas" /> : <span class="faint">–</span>) },
  {
    key: 'ttft', name: 'First token, p90', number: true, sort: (row) => row.traffic?.first_token_ms?.p90 ?? -1,
    show: ({ traffic }) => { const of = traffic?.first_token_ms; return of ? <Num of={duration(of.p90)} /> : <span class="faint">–</span>; },
  },
  { key: 'tokens', name: 'Tokens', number: true, sort: (row) => row.traffic?.output_tokens_per_second ?? 0, show: ({ traffic }) => <Num of={short(traffic?.output_tokens_per_second ?? 0)} unit="tok/s" /> },
  { key: 'requests', name: 'Requests', less: true, number: true, sort: (row) => row.traffic?.requests_per_second ?? 0, show: ({ traffic }) => <Num of={short(traffic?.requests_per_second ?? 0)} unit="req/s" /> },
  { key: 'waiting', name: 'Waiting', number: true, sort: (row) => row.traffic?.waiting ?? 0, show: ({ traffic }) => <Num of={short(traffic?.waiting ?? 0)} unit="req" /> },
  { key: 'price', name: 'Price in / out', less: true, number: true, sort: (row) => Number(row.model.price.output ?? 0), show: ({ model }) => (model.price.input || model.price.output ? <Num of={`${price(model.price.input ?? 0)} / ${price(model.price.output ?? 0)}`} unit="per M tok" /> : <span class="faint">free</span>) },
];

const isUp = (of: Endpoint) => of.unused_because === null;

// Replicas of a new version come on top of those that the policy wants.
function wantedOfVersion(rollout: Rollout | undefined): number {
  return rollout?.state === 'running' ? rollout.wanted_replicas : 0;
}

function ModelDrawer({ row: { model, scaling, traffic, rollout, endpoints } }: { row: Row }) {
  const ttft = traffic?.first_token_ms;
  const itl = traffic?.inter_token_ms;
  return (
    <Drawer kind="model" title={<Holder name={model.name} />}>
      <Orders model={model} scaled={scaling !== undefined} />
      {scaling?.trouble && <p class="problem" role="alert">{scaling.trouble}{scaling.next_start && <> It is tried again <Time at={scaling.next_start} />.</>}</p>}
      {rollout && <RolloutPart of={rollout} scaling={scaling} />}
      {scaling && <ScalingPart of={scaling} rollout={rollout} />}
      {may('see_replicas') && <Replicas model={model.name} />}
      {!scaling && endpoints.length > 0 && <Endpoints of={endpoints} />}
      {may('see_replicas') && <Waiting model={model.name} />}
      {model.loads_adapters && may('see_replicas') && <AdaptersPart base={model.name} />}
      <h3>Last minute</h3>
      <dl class="facts">
        <Fact label="Requests"><Num of={short(traffic?.requests_per_second ?? 0)} unit="req/s" />{(traffic?.errors_per_second ?? 0) > 0 && <>, <Num of={short(traffic!.errors_per_second)} unit="errors/s" /></>}</Fact>
        <Fact label="Output"><Num of={short(traffic?.output_tokens_per_second ?? 0)} unit="tok/s" /></Fact>
        <Fact label="Running, waiting"><Num of={short(traffic?.outstanding_requests ?? 0)} unit="running" />, <Num of={short(traffic?.waiting ?? 0)} unit="waiting" /></Fact>
        <Fact label="First token">{ttft ? <>p50 <Num of={duration(ttft.p50)} />, p90 <Num of={duration(ttft.p90)} />, p99 <Num of={duration(ttft.p99)} /></> : <span class="faint">no traffic</span>}</Fact>
        <Fact label="Between tokens">{itl ? <>p50 <Num of={duration(itl.p50)} />, p99 <Num of={duration(itl.p99)} /></> : <span class="faint">no traffic</span>}</Fact>
      </dl>
      <h3>Offer</h3>
      <dl class="facts">
        {model.aliases.length > 0 && <Fact label="Aliases"><bdi>{model.aliases.join(', ')}</bdi></Fact>}
        {model.lora && <Fact label="Adapter"><bdi>{model.lora.adapter}</bdi> of <a href={hrefOf('models', { open: `model:${model.lora.base}` })}><bdi>{model.lora.base}</bdi></a></Fact>}
        <Fact label="Context">{model.context ? <Num of={short(Number(model.context))} unit="tokens" /> : <span class="faint">not declared</span>}</Fact>
        <Fact label="Price">
          {([['input', model.price.input], ['cached', model.price.cached_input], ['output', model.price.output]] as const).filter(([, of]) => of).map(([name, of], at) => <>{at > 0 && ', '}{price(of!)} {name}</>)}
          {!model.price.input && !model.price.output ? <span class="faint">free</span> : <span class="unit"> per M tokens</span>}
        </Fact>
        <Fact label="Routing">{model.routing}</Fact>
        {model.fallbacks.length > 0 && <Fact label="Fallbacks">{listed(model.fallbacks)}</Fact>}
        {model.endpoints.length > 0 && <Fact label="Endpoints">{model.endpoints.join(', ')}</Fact>}
      </dl>
      {may('read_audit') && <Recent model={model.name} />}
    </Drawer>
  );
}

type Verb = 'pause' | 'resume' | 'hold' | 'release';

// What operators have ordered, and what they may order.
function Orders({ model, scaled }: { model: Model; scaled: boolean }) {
  const [asking, setAsking] = useState<Verb | undefined>();
  return (
    <>
      {model.paused && <p><State of="paused" /> <OrderWords of={model.paused} /></p>}
      {model.held && <p><span class="look">Held at <Num of={String(model.held.replicas ?? 0)} unit={model.held.replicas === 1 ? 'replica' : 'replicas'} /></span> <OrderWords of={model.held} /></p>}
      {may('maintain') && (
        <p class="acts">
          {model.paused ? <Button onClick={() => setAsking('resume')}>Resume</Button> : <Button onClick={() => setAsking('pause')}>Pause</Button>}
          {scaled && (model.held ? <Button onClick={() => setAsking('release')}>Release</Button> : <Button onClick={() => setAsking('hold')}>Hold the replicas</Button>)}
        </p>
      )}
      {asking && <GiveOrder model={model.name} verb={asking} onClose={() => setAsking(undefined)} />}
    </>
  );
}

function OrderWords({ of }: { of: ModelOrder }) {
  return <span class="faint">by <Name of={of.by} /> <Time at={of.since} />{of.until && <>, until <Time at={of.until} /></>}{of.reason && <>: {of.reason}</>}</span>;
}

const ORDERS: { [verb in Verb]: [title: string, effect: string, word: string] } = {
  pause: ['Pause', 'New requests are refused with the code model_paused. Running ones finish.', 'Pause'],
  resume: ['Resume', 'It takes requests again.', 'Resume'],
  hold: ['Hold the replicas of', 'The autoscaler keeps the present number of replicas, whatever the load.', 'Hold'],
  release: ['Release', 'Its policy decides the number of replicas again.', 'Release'],
};

function GiveOrder({ model, verb, onClose }: { model: string; verb: Verb; onClose: () => void }) {
  const [reason, setReason] = useTyped(`models.${model}.${verb}.reason`, '');
  const [time, setTime] = useTyped(`models.${model}.${verb}.time`, '');
  const [title, effect, word] = ORDERS[verb];
  const act = async () => {
    const body = { ...(reason ? { reason } : {}), ...(verb === 'hold' && time ? { for: time } : {}) };
    await post(`/admin/v1/models/{name}:${verb}`, { name: model }, body);
    refresh('/admin/v1/models', '/admin/v1/scaling', '/admin/v1/overview');
  };
  return (
    <Confirm title={<>{title} <bdi>{model}</bdi></>} word={word} act={act} onClose={onClose}>
      <p>{effect}</p>
      {verb === 'hold' && <Text label="How long" value={time} onInput={setTime} hint="Such as 30m or 2h; empty: until it is released." />}
      <Text label="Reason" value={reason} onInput={setReason} hint="People see it on the pages and in the ledger." />
    </Confirm>
  );
}

function ScalingPart({ of, rollout }: { of: Scaling; rollout?: Rollout }) {
  const history = useGet('/admin/v1/scaling/{model}/history', { items: { model: of.model }, everyMs: 10_000 }).value;
  const steps = history?.steps ?? [];
  return (
    <>
      <h3>Replicas</h3>
      <p class="states">
        <State of="ready" count={of.ready} />
        {of.waking > 0 && <State of="waking" count={of.waking} />}
        {of.asleep > 0 && <State of="asleep" count={of.asleep} />}
        {of.launching + of.warming > 0 && <State of="starting" count={of.launching + of.warming} />}
        {of.waiting > 0 && <State of="waiting" count={of.waiting} />}
        {of.draining + of.stopping > 0 && <State of="draining" count={of.draining + of.stopping} />}
        <span class="faint">wanted {of.wanted}, from {of.min} to {of.max}{wantedOfVersion(rollout) > 0 && <>, and {wantedOfVersion(rollout)} of <bdi>{rollout!.version}</bdi></>}</span>
      </p>
      <Why text={of.reason} />
      {steps.length > 1 && (
        <Plot times={steps.map((step) => Date.parse(step.at) / 1000)} unit="replicas" label={`Demand and replicas of ${of.model} over the last hour`} height={120} format={(value) => short(value)}
          lines={[
            { name: 'there', values: steps.map((step) => step.there), colour: `--hue-${hueOf(of.model)}`, area: true, steps: true },
            { name: 'demand', values: steps.map((step) => step.demand), colour: '--text' },
          ]} />
      )}
      {of.lead_time_ms !== null && of.max > 0 && (
        <dl class="facts">
          <Fact label="Next start">
            {of.lead_time_ms <= LEAST_LEAD_MS ? 'at most' : 'about'} <Num of={duration(of.lead_time_ms)} title="Measured: 90 % of starts where the next replica would go took no longer, with the fetch of the weights if no free node there has them." /> <span class="faint">until a new replica answers; the autoscaler starts it so much before it is needed</span>
          </Fact>
        </dl>
      )}
      {of.cold_starts.length > 0 && (
        <dl class="facts">
          {of.cold_starts.map((start) => (
            <Fact key={start.device_kind ?? ''} label={`Cold start${start.device_kind ? ` on ${start.device_kind}` : ''}`}>
              p50 <Num of={duration(start.p50_ms)} />, p90 <Num of={duration(start.p90_ms)} /> <span class="faint">of {plural(start.starts, 'start')}</span>
            </Fact>
          ))}
        </dl>
      )}
      {of.start_phases.length > 0 && (
        <dl class="facts">
          {[...new Set(of.start_phases.map((phase) => phase.device_kind ?? ''))].map((kind) => (
            <Fact key={kind} label={`Phases${kind ? ` on ${kind}` : ''}`}>
              {of.start_phases.filter((phase) => (phase.device_kind ?? '') === kind && phase.p90_ms > 0).map((phase, i) => (
                <span key={phase.phase}>{i > 0 ? ', ' : ''}{phase.phase.replace('_', ' ')} <Num of={duration(phase.p50_ms)} /></span>
              ))}
            </Fact>
          ))}
        </dl>
      )}
      {of.prefetches.length > 0 && (
        <dl class="facts">
          {of.prefetches.map((fetch) => (
            <Fact key={fetch.run} label={`Weights to ${fetch.node}`}>for <Num of={duration(fetch.age_ms)} />{fetch.reason ? `: ${fetch.reason}` : ''}</Fact>
          ))}
        </dl>
      )}
      {of.wakes.length > 0 && (
        <dl class="facts">
          {of.wakes.map((wake) => (
            <Fact key={wake.device_kind ?? ''} label={`Wake${wake.device_kind ? ` on ${wake.device_kind}` : ''}`}>
              p50 <Num of={duration(wake.p50_ms)} />, p90 <Num of={duration(wake.p90_ms)} /> <span class="faint">of {plural(wake.starts, 'wake')}</span>
            </Fact>
          ))}
        </dl>
      )}
    </>
  );
}

function Replicas({ model }: { model: string }) {
  const replicas = useAll('/admin/v1/replicas', { query: { model }, everyMs: EVERY_MS }).value?.data ?? [];
  if (replicas.length === 0) return null;
  return <ul class="cards">{replicas.map((each) => <ReplicaCard key={each.id} of={each} />)}</ul>;
}

// Of a model that is not scaled.
function Endpoints({ of }: { of: Endpoint[] }) {
  return (
    <>
      <h3>Endpoints</h3>
      <ul class="cards">
        {of.map((each) => (
          <li key={each.id}>
            <p class="card-head"><Name of={each.name} mono /><State of={each.health} /></p>
            <p class="faint"><Name of={each.url} />{' · '}{each.outstanding_requests} running</p>
            {each.unused_because && <p>Takes no requests: {each.unused_because.replaceAll('_', ' ')}</p>}
          </li>
        ))}
      </ul>
    </>
  );
}

function ReplicaCard({ of }: { of: Replica }) {
  return (
    <li>
      <p class="card-head"><Name of={of.id} mono /><State of={of.state} /></p>
      <p class="faint">
        {of.node ? <>on <a href={hrefOf('cluster', { open: `node:${of.node}` })}><bdi>{of.node}</bdi></a>{of.devices.length > 0 && <>, {of.device_kind} {of.devices.join(', ')}</>}</> : 'no place yet'}
        {of.version && <>{' · '}version <bdi>{of.version}</bdi></>}{' · '}{of.outstanding_requests} running{' · '}in this state for <Num of={duration(of.in_state_ms)} />
      </p>
      <p>{of.reason}</p>
    </li>
  );
}

function Waiting({ model }: { model: string }) {
  const queue = useGet('/admin/v1/queue', { query: { model }, everyMs: EVERY_MS }).value?.data[0];
  if (!queue || queue.waiting === 0) return null;
  return (
    <>
      <h3>Who waits</h3>
      <dl class="facts">
        <Fact label="In the queue"><Num of={short(queue.waiting)} unit={`of ${short(queue.max_requests)} places`} /></Fact>
        <Fact label="Expected wait">{queue.expected_wait_ms === null ? <span class="faint">not known yet</span> : <Num of={duration(queue.expected_wait_ms)} />}</Fact>
      </dl>
      <Bar value={queue.waiting} limit={queue.max_requests} look={0.8} act={1} label={`${queue.waiting} of ${queue.max_requests} places are taken`} />
      <ul class="cards">
        {queue.requests.slice(0, 20).map((each) => (
          <li key={each.request_id}>
            <p class="card-head"><Name of={each.tenant} /><Num of={duration(each.waited_ms)} /></p>
            <p class="faint">{each.band}, {plural(each.ahead, 'request')} ahead · <code>{each.request_id}</code></p>
            <p>{each.reason}</p>
          </li>
        ))}
      </ul>
    </>
  );
}

function concerns(record: LedgerRecord, model: string): boolean {
  const { model: of, base } = detailOf(record);
  return [record.subject, of, base].includes(model);
}

function Recent({ model }: { model: string }) {
  const tail = useTail('action', '24h');
  return (
    <>
      <h3>Decisions</h3>
      <Loaded from={tail} what="the decisions">{(records) => <Happenings records={records.filter((record) => concerns(record, model))} most={15} />}</Loaded>
    </>
  );
}
