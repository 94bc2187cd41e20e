// What if: questions to the scheduler, answered from its present state beside today.
import { useComputed, useSignal } from '@preact/signals';
import { ApiError, post } from '../api';
import type { SimulatedJob, Simulation, SimulationFact } from '../api_types';
import { refresh, useAll, useGet } from '../data';
import { percent } from '../format';
import { may } from '../me';
import { query, setQuery } from '../route';
import { useTypedSignal } from '../typed';
import { Button, Choice, Empty, Field, Loaded, Name, Problem, Section, Select, State, Text, Time } from '../ui/basics';
import { type Column, Table } from '../ui/table';

type Kind = 'job' | 'nodes' | 'quota' | 'policy' | 'scaling';

const KINDS: [Kind, string][] = [['job', 'This job'], ['nodes', 'More nodes'], ['quota', 'Another quota'], ['policy', 'Another policy'], ['scaling', 'A scaling policy']];
const A_JOB = 'name: try\nqueue: default\ncommand: [train]\nmembers: 1\ndevices: [{count: 8}]\nestimate: 2h\n';

const FACTS: Column<SimulationFact>[] = [
  { key: 'name', name: 'What', wide: true, show: (of) => of.name },
  { key: 'today', name: 'Today', number: true, show: (of) => of.today ?? <span class="faint">–</span> },
  { key: 'what_if', name: 'What if', number: true, show: (of) => of.what_if ?? <span class="faint">–</span> },
];
const JOBS: Column<SimulatedJob>[] = [
  { key: 'id', name: 'Job', wide: true, sort: (of) => of.id, show: (of) => <span><Name of={of.id} />{of.asked && <b> asked</b>}</span> },
  { key: 'queue', name: 'Queue', less: true, sort: (of) => of.queue, show: (of) => <Name of={of.queue} /> },
  { key: 'today', name: 'Starts today', number: true, show: (of) => (of.asked ? <span class="faint">–</span> : <Time at={of.today} />) },
  { key: 'what_if', name: 'Starts then', number: true, show: (of) => <Time at={of.what_if} /> },
];

export function WhatIf() {
  // What changes the system of all is for those who keep it.
  const keeps = may('maintain');
  const kind = useTypedSignal<Kind>('what_if.kind', 'job');
  const job = useTypedSignal('what_if.job', '');
  const nodes = useTypedSignal('what_if.nodes', '1');
  const like = useTypedSignal('what_if.like', '');
  const quotas = useTypedSignal('what_if.quotas', '');
  const policy = useTypedSignal('what_if.policy', '');
  const scaling = useTypedSignal('what_if.scaling', '');
  const error = useSignal<Error | undefined>(undefined);
  const asking = useSignal(false);
  const cluster = useAll(keeps ? '/admin/v1/nodes' : null).value?.data ?? [];
  const asked = useAll('/admin/v1/simulations', { everyMs: 5000 });
  const open = query.value.get('simulation') ?? '';
  const problem = useComputed(() => (error.value instanceof ApiError ? error.value : undefined));
  const of = (field: string) => problem.value?.of(field);

  const ask = async () => {
    asking.value = true;
    error.value = undefined;
    try {
      const started = await post('/admin/v1/simulations', {}, kind.value === 'scaling' ? { scaling: scaling.value } : {
        ...(job.value.trim() ? { job: job.value } : {}),
        ...(kind.value === 'nodes' ? { add_nodes: Number(nodes.value), ...(like.value ? { like: like.value } : {}) } : {}),
        ...(kind.value === 'quota' ? { quotas: quotas.value.split(/[\s,]+/).filter(Boolean) } : {}),
        ...(kind.value === 'policy' ? { policy: policy.value } : {}),
      });
      setQuery({ simulation: started.id });
      refresh('/admin/v1/simulations');
    } catch (failed) {
      error.value = failed as Error;
    }
    asking.value = false;
  };
  const area = (label: string, text: typeof job, field: string, hint: string, placeholder: string) => (
    <Field label={label} hint={hint} problem={of(field)}>
      {(id, described) => <textarea id={id} class="mono" rows={8} value={text.value} placeholder={placeholder} aria-describedby={described} spellcheck={false} onInput={(event) => { text.value = event.currentTarget.value; }} />}
    </Field>
  );

  return (
    <>
      <form onSubmit={(event) => { event.preventDefault(); void ask(); }}>
        {keeps && <div class="tools"><Choice label="Question" value={kind.value} options={KINDS} onChange={(to) => { kind.value = to as Kind; error.value = undefined; }} /></div>}
        {kind.value === 'nodes' && (
          <div class="form-row">
            <Text label="Nodes more" value={nodes.value} onInput={(to) => { nodes.value = to; }} problem={of('add_nodes')} />
            <Select label="Like" value={like.value} onChange={(to) => { like.value = to; }} problem={of('like')} options={[['', 'the last node'], ...cluster.map((each): [string, string] => [each.name, each.name])]} />
          </div>
        )}
        {kind.value === 'quota' && <Text label="What queues deserve" value={quotas.value} onInput={(to) => { quotas.value = to; }} problem={of('quotas')} placeholder="research=64, nlp=h100:16" hint="QUEUE=DEVICES or QUEUE=KIND:DEVICES" mono />}
        {kind.value === 'policy' && area('Policy of the planner', policy, 'policy', 'A file as in conf/policies; without queues the present ones stay', 'backfill: {kind: conservative}')}
        {kind.value === 'scaling' && area('Scaling policy', scaling, 'scaling', 'It is tried on the traffic of its model in the last hour', 'model: chat-small\nreplicas: {min: 1, max: 8}')}
        {kind.value !== 'scaling' && area(kind.value === 'job' ? 'When would this job start?' : 'And this job (may stay empty)', job, 'job', 'A job file; nothing of it is started', A_JOB)}
        {error.value && <Problem error={error.value} />}
        <Button type="submit" kind="primary" disabled={asking.value || (kind.value === 'job' && !job.value.trim())}>Simulate</Button>
      </form>
      {open && <Answer id={open} />}
      <Section title="Asked since the start">
        <Loaded from={asked} what="the questions">
          {(list) => (list.data.length === 0
            ? <Empty title="No question was asked yet">Fill in one of the forms above; the answer comes from the planner itself, and nothing is started.</Empty>
            : (
              <Table caption="Questions" rows={list.data} id={(each) => each.id} onOpen={(each) => setQuery({ simulation: each.id })} open={open} columns={[
                { key: 'question', name: 'Question', wide: true, show: (each) => <Name of={each.question} /> },
                { key: 'state', name: 'State', show: (each) => <State of={each.state} /> },
                { key: 'created', name: 'Asked', number: true, show: (each) => <Time at={each.created} /> },
              ]} />
            ))}
        </Loaded>
      </Section>
    </>
  );
}

function Answer({ id }: { id: string }) {
  const found = useGet('/admin/v1/simulations/{id}', { items: { id }, everyMs: 1000 });
  const end = async () => {
    await post('/admin/v1/simulations/{id}:cancel', { id }).catch(() => undefined);
    refresh('/admin/v1/simulations');
  };
  return (
    <Loaded from={found} what="the answer">
      {(of: Simulation) => (
        <Section title={<>What if: <bdi>{of.question}</bdi></>} aside={of.state === 'running' ? <Button onClick={() => void end()}>Stop</Button> : undefined}>
          <p aria-live="polite"><State of={of.state} />{of.state === 'running' && <> {percent(of.progress)}</>}</p>
          {of.problem && <p>{of.problem}</p>}
          {of.sentences.map((each) => <p key={each}>{each}</p>)}
          {of.facts.length > 0 && <Table caption="Today, and what if" columns={FACTS} rows={of.facts} id={(each) => each.name} />}
          {of.jobs.length > 0 && <Table caption="Jobs that wait" columns={JOBS} rows={of.jobs} id={(each) => each.id} />}
          {of.more_jobs && <p class="faint">More jobs wait than are named here.</p>}
        </Section>
      )}
    </Loaded>
  );
}
