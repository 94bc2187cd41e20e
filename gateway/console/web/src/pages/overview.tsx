import { Fragment } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get } from '../api';
import { now } from '../data';
import { duration, listed, percent, plural, short } from '../format';
import { hueOf } from '../holders';
import { may } from '../me';
import { type ModelNow, type OverviewNow, useOverview } from '../overview_data';
import type { LedgerRecord } from '../records';
import { hrefOf } from '../route';
import { Bar, Empty, Holder, Loaded, Num, Section, Spark, State } from '../ui/basics';
import { Happenings, useTail } from '../ui/happenings';
import { Plot } from '../ui/plot';

// What is well as it was configured, and could be better: no reason to look.
const ADVICE = ['runs', 'devices'];

// Of a model that is not scaled, which has no trouble of its own, the conditions say it.
const isDown = (model: ModelNow, of: OverviewNow) => !model.scaled && of.conditions.some((each) => each.part === `model:${model.model}`);

// The whole in one sentence, and whether it asks for a look or an act.
function verdict(of: OverviewNow): { text: string; tone: '' | 'look' | 'act' } {
  const fatal = of.conditions.filter((each) => each.fatal);
  if (fatal.length > 0) return { text: `${fatal[0]!.part}: ${fatal[0]!.detail}.`, tone: 'act' };
  const troubled = of.models.filter((each) => each.trouble);
  const starved = of.models.filter((each) => each.waiting > 0 && each.ready === 0);
  const down = of.models.filter((each) => isDown(each, of));
  const late = of.models.filter((each) => each.slo_ttft_ms !== null && each.ttft_p90_ms !== null && each.ttft_p90_ms > each.slo_ttft_ms);
  const parts: string[] = [];
  if (down.length > 0) parts.push(`no endpoint of ${listed(down.map((each) => each.model))} is up`);
  if (late.length > 0) parts.push(`the SLO is missed by ${listed(late.map((each) => each.model))}`);
  if (starved.length > 0) {
    parts.push(starved.map((each) => `${plural(each.waiting, 'request')} for ${each.model} ${each.waiting === 1 ? 'waits' : 'wait'} for a first replica`).join(', '));
  }
  if (parts.length === 0) parts.push(of.models.length === 0 ? 'No model is configured' : of.models.some((each) => each.slo_ttft_ms !== null) ? 'All models answer within their SLO' : 'All models answer');
  const paused = of.models.filter((each) => each.paused);
  if (paused.length > 0) parts.push(`${listed(paused.map((each) => each.model))} ${paused.length === 1 ? 'is' : 'are'} paused`);
  if (troubled.length > 0) parts.push(`${listed(troubled.map((each) => each.model))} cannot start replicas`);
  const { total, free, faulty, cordoned } = of.devices;
  if (total > 0) parts.push(free === 0 ? `all ${total} devices are in use` : `${free} of ${total} devices ${free === 1 ? 'is' : 'are'} free`);
  if (faulty > 0) parts.push(`${plural(faulty, 'device')} ${faulty === 1 ? 'is' : 'are'} faulty`);
  if (cordoned > 0) parts.push(`${plural(cordoned, 'device')} ${cordoned === 1 ? 'is' : 'are'} cordoned`);
  if (of.jobs.waiting > 0) parts.push(`${plural(of.jobs.waiting, 'job')} ${of.jobs.waiting === 1 ? 'waits' : 'wait'}`);
  const tone = faulty > 0 || troubled.length > 0 || down.length > 0 ? 'act' : late.length > 0 || of.conditions.some((each) => !ADVICE.includes(each.part)) ? 'look' : '';
  return { text: `${parts.join('; ')}.`, tone };
}

export function Overview() {
  const overview = useOverview();
  return (
    <Loaded from={overview} what="the state of the gateway">
      {(of) => {
        const { text, tone } = verdict(of);
        return (
          <>
            <p class={`verdict ${tone}`}>{text}</p>
            {of.conditions.filter((each) => !each.fatal).map((each) => (
              <p key={each.part} class="condition"><b>{each.part}</b> {each.detail}</p>
            ))}
            {of.devices.total > 0 && <Devices of={of} />}
            <ModelRows of={of} />
            {may('read_audit') && <Happened />}
          </>
        );
      }}
    </Loaded>
  );
}

// --- Devices over the last hour ---

const STEP_S = 20;
const HOUR_S = 3600;
const MOST_MODELS = 32; // whose histories are read

interface Hour { times: number[]; held: Map<string, number[]>; demand: (number | null)[] }

// The holders of the last hour: models by their history, jobs by the ledger where this person may read it.
function useHour(of: OverviewNow): Hour | undefined {
  const [hour, setHour] = useState<Hour | undefined>();
  const names = of.models.filter((each) => each.scaled).slice(0, MOST_MODELS).map((each) => each.model).join('\n');
  useEffect(() => {
    let over = false;
    const load = async () => {
      const models = names ? names.split('\n') : [];
      const histories = await Promise.all(models.map((model) => get('/admin/v1/scaling/{model}/history', { model })));
      const records = may('read_audit') ? await getAllRecords() : [];
      if (over) return;
      const end = Math.floor(Date.now() / 1000 / STEP_S) * STEP_S;
      const times = Array.from({ length: HOUR_S / STEP_S + 1 }, (_, at) => end - HOUR_S + at * STEP_S);
      const held = new Map<string, number[]>();
      const demand: (number | null)[] = times.map(() => null);
      for (const history of histories) {
        const steps = history.steps.map((step) => ({ at: Date.parse(step.at) / 1000, there: step.there * history.devices_per_replica, demand: step.demand * history.devices_per_replica }));
        const row = times.map((time, index) => {
          const within = steps.filter((step) => step.at > time - STEP_S && step.at <= time);
          const step = within.at(-1) ?? steps.findLast((each) => each.at <= time && each.at > time - 90);
          if (step) demand[index] = (demand[index] ?? 0) + Math.max(...within.map((each) => each.demand), step.demand);
          return step?.there ?? 0;
        });
        held.set(history.model, row);
      }
      for (const record of records) {
        const job = record['job'] as string | undefined;
        if (!job) continue;
        const name = job.replace(/-[\d.]+$/, '');
        const row = held.get(name) ?? times.map(() => 0);
        held.set(name, row);
        const [from, until] = [record.time_us / 1e6, (record['until_us'] as number) / 1e6];
        if (until <= from) continue;
        const devices = (record['device_us'] as number) / 1e6 / (until - from);
        times.forEach((time, at) => { if (time > from && time <= until) row[at]! += devices; });
      }
      setHour({ times, held, demand });
    };
    const again = () => { if (!document.hidden) load().catch(() => undefined); };
    again();
    const timer = setInterval(again, STEP_S * 1000);
    return () => { over = true; clearInterval(timer); };
  }, [names]);
  return hour;
}

async function getAllRecords(): Promise<LedgerRecord[]> {
  const rows: LedgerRecord[] = [];
  let from: number | undefined;
  for (let pages = 0; pages < 5; ++pages) {
    const list = await get('/admin/v1/audit', {}, { kind: 'devices', since: '1h', limit: 1000, from_seq: from });
    rows.push(...list.data as unknown as LedgerRecord[]);
    if (!list.has_more) break;
    from = list.next_from_seq;
  }
  return rows;
}

function Devices({ of }: { of: OverviewNow }) {
  const hour = useHour(of);
  const { total, free, by_holder: held } = of.devices;
  const lines = useMemo(() => {
    if (!hour) return undefined;
    // What is held now stands at the end; a record of devices comes up to a minute later.
    const last = hour.times.length - 1;
    for (const each of held) {
      const row = hour.held.get(each.holder) ?? hour.times.map(() => 0);
      hour.held.set(each.holder, row);
      for (let at = last; at > last - 4 && (row[at] === 0 || at === last); --at) row[at] = each.devices;
    }
    return [...hour.held].filter(([, row]) => row.some((value) => value > 0)).map(([name, values]) => ({ name, values, colour: `--hue-${hueOf(name)}`, area: true, steps: true }));
  }, [hour, held]);
  return (
    <Section title="Devices" aside={<a href={hrefOf('cluster')}>Cluster map</a>}>
      <div class="strip" role="img" aria-label={`${total} devices: ${held.map((each) => `${each.holder} ${short(each.devices)}`).join(', ')}, free ${free}`}>
        {of.places.length <= 512
          ? of.places.map((place) => (
            <span key={`${place.node.name}/${place.device}`} class={`cell ${place.state} ${place.holdings[0] ? `hue-${hueOf(place.holdings[0].holder)}` : ''}`}
              title={`${place.node.name}/${place.device} ${place.kind}: ${place.holdings.map((each) => each.id).join(', ') || place.state}`} />
          ))
          : held.map((each) => <span key={each.holder} class={`cell held hue-${hueOf(each.holder)}`} style={{ flexGrow: each.devices }} />)}
      </div>
      {!hour && (
        <ul class="holders">
          {held.map((each) => <li key={each.holder}><Holder name={each.holder} /> <Num of={short(each.devices)} unit={each.devices === 1 ? 'device' : 'devices'} /></li>)}
        </ul>
      )}
      {hour && lines && (
        <Plot stacked times={hour.times} unit="devices" label="Devices by holder over the last hour, with the demand of the models" height={168}
          format={(value) => short(value)}
          lines={[
            ...lines,
            { name: 'demand of the models', values: hour.demand, colour: '--text', dash: false },
            { name: 'capacity', values: hour.times.map(() => total), colour: '--text-2', dash: true },
          ]} />
      )}
    </Section>
  );
}

// --- Models ---

// What each model has answered since the page was opened; two minutes at most.
const rates = new Map<string, number[]>();
let rated = 0;

function ModelRows({ of }: { of: OverviewNow }) {
  const { models } = of;
  const second = Math.floor(now.value / 2000);
  if (rated !== second) {
    rated = second;
    for (const each of models) {
      const row = rates.get(each.model) ?? [];
      row.push(each.tokens_per_second);
      if (row.length > 60) row.shift();
      rates.set(each.model, row);
    }
  }
  if (models.length === 0) {
    return <Section title="Models"><Empty title="No model is configured">Add one under <code>models</code> in the configuration, and reload.</Empty></Section>;
  }
  return (
    <Section title="Models" aside={<a href={hrefOf('models')}>All about models</a>}>
      <div class="model-rows" role="table" aria-label="Models">
        <div class="model-row head" role="row">
          {['Model', 'Replicas', 'First token, p90', 'Tokens', 'Requests', 'Waiting'].map((name) => <span key={name} role="columnheader">{name}</span>)}
        </div>
        {models.map((each) => <ModelRow key={each.model} of={each} down={isDown(each, of)} />)}
      </div>
    </Section>
  );
}

function ModelRow({ of, down }: { of: ModelNow; down: boolean }) {
  const limit = of.slo_ttft_ms ?? 0;
  return (
    <div class="model-row" role="row">
      <span role="cell"><a href={hrefOf('models', { open: `model:${of.model}` })}><Holder name={of.model} /></a></span>
      <span role="cell" data-name="Replicas">
        {down ? <State of="down" /> : !of.scaled ? <span class="faint">not scaled</span> : of.asleep ? <State of="asleep" /> : (
          <span class="states" title={of.reason}>
            {of.ready > 0 && <State of="ready" count={of.ready} />}
            {of.starting > 0 && <State of="starting" count={of.starting} />}
            {of.sleeping > 0 && <State of="asleep" count={of.sleeping} />}
            {of.draining > 0 && <State of="draining" count={of.draining} />}
            {of.wanted > of.ready + of.starting && <State of="waiting" count={of.wanted - of.ready - of.starting} />}
          </span>
        )}
      </span>
      <span role="cell" data-name="First token, p90" class="with-bar">
        {of.ttft_p90_ms === null ? <span class="faint">no traffic</span> : <Num of={duration(of.ttft_p90_ms)} />}
        {limit > 0 && of.ttft_p90_ms !== null && (
          <Bar value={of.ttft_p90_ms} limit={limit * 1.5} mark={1 / 1.5} look={1 / 1.5} label={`p90 ${duration(of.ttft_p90_ms).join(' ')} of an SLO of ${duration(limit).join(' ')}`} />
        )}
        {of.slo_attainment !== null && <span class="faint">{percent(of.slo_attainment)} in time</span>}
      </span>
      <span role="cell" data-name="Tokens" class="with-spark">
        <Num of={short(of.tokens_per_second)} unit="tok/s" />
        <Spark values={rates.get(of.model) ?? []} label={`Tokens per second of ${of.model} since this page was opened`} width={88} />
      </span>
      <span role="cell" data-name="Requests"><Num of={short(of.requests_per_second)} unit="req/s" /></span>
      <span role="cell" data-name="Waiting">{of.waiting > 0 ? <Num of={short(of.waiting)} unit={of.waiting === 1 ? 'request' : 'requests'} /> : <span class="faint">none</span>}</span>
      {of.paused && <span role="cell" class="row-note look"><Fragment><State of="paused" /> by {of.paused.by}{of.paused.reason && `: ${of.paused.reason}`}</Fragment></span>}
      {of.held && <span role="cell" class="row-note look"><Fragment>held at {of.held.replicas} by {of.held.by}{of.held.reason && `: ${of.held.reason}`}</Fragment></span>}
      {of.trouble && <span role="cell" class="row-note act"><Fragment>✕ {of.trouble}</Fragment></span>}
    </div>
  );
}

function Happened() {
  const tail = useTail('action,config,key,admin', '24h');
  return (
    <Section title="What happened" aside={<a href={hrefOf('audit')}>The whole ledger</a>}>
      <Loaded from={tail} what="the last actions">{(records) => <Happenings records={records.filter((each) => each.action !== 'audit.read')} most={25} />}</Loaded>
    </Section>
  );
}
