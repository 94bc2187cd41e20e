// Evaluations: models compared by a data set, their answers side by side.
import type { ComparedAnswer, ComparedRow, Evaluation, ModelSummary } from '../api_types';
import { useAll, useGet } from '../data';
import { duration, listed, money, percent, plural, short, whole } from '../format';
import { query, setQuery, tenant } from '../route';
import { Button, Code, Empty, Loaded, Name, Num, Section, State, Time } from '../ui/basics';
import { type Column, Table } from '../ui/table';

const STEP = 20;
const COMMAND = 'tidegate dataset export --where \'feedback.helpful = false\' --out bad.jsonl\n'
  + 'tidegate dataset evaluate --set bad.jsonl --models chat-small,chat-large';

const LIST: Column<Evaluation>[] = [
  { key: 'set', name: 'Data set', wide: true, sort: (of) => of.set, show: (of) => <Name of={of.set || of.id} /> },
  { key: 'models', name: 'Models', show: (of) => <Name of={listed(of.models)} /> },
  { key: 'tenant', name: 'Tenant', less: true, sort: (of) => of.tenant, show: (of) => <Name of={of.tenant} /> },
  { key: 'state', name: 'State', show: (of) => <State of={of.state} /> },
  { key: 'done', name: 'Answers', number: true, sort: (of) => of.completed, show: (of) => <Num of={`${whole(of.completed)} of ${whole(of.lines)}`} /> },
  { key: 'created', name: 'Begun', number: true, sort: (of) => Date.parse(of.created), show: (of) => <Time at={of.created} /> },
];

const seconds = (of: number | null | undefined) => (of === null || of === undefined ? <span class="faint">–</span> : <Num of={duration(of * 1000)} />);

const MODELS: Column<ModelSummary>[] = [
  { key: 'model', name: 'Model', wide: true, sort: (of) => of.model, show: (of) => <Name of={of.model} /> },
  { key: 'answered', name: 'Answered', number: true, sort: (of) => of.answered, show: (of) => <Num of={whole(of.answered)} /> },
  { key: 'failed', name: 'Failed', number: true, sort: (of) => of.failed, show: (of) => <Num of={whole(of.failed)} /> },
  { key: 'same', name: 'As in the set', number: true, sort: (of) => of.as_reference, show: (of) => <Num of={of.answered ? percent(of.as_reference / of.answered) : '–'} /> },
  { key: 'input', name: 'Input', less: true, number: true, sort: (of) => of.input_tokens, show: (of) => <Num of={short(of.input_tokens)} unit="tokens" /> },
  { key: 'output', name: 'Output', number: true, sort: (of) => of.output_tokens, show: (of) => <Num of={short(of.output_tokens)} unit="tokens" /> },
  { key: 'cost', name: 'Cost', number: true, sort: (of) => of.cost_usd, show: (of) => <Num of={money(of.cost_usd * 1e6)} /> },
  { key: 'p50', name: 'Latency, p50', number: true, sort: (of) => of.latency_p50_s ?? -1, show: (of) => seconds(of.latency_p50_s) },
  { key: 'p95', name: 'Latency, p95', less: true, number: true, sort: (of) => of.latency_p95_s ?? -1, show: (of) => seconds(of.latency_p95_s) },
];

export function Evaluations() {
  const list = useAll('/admin/v1/evaluations', { everyMs: 5000 });
  const open = query.value.get('evaluation') ?? '';
  return (
    <Loaded from={list} what="the evaluations">
      {(of) => {
        const rows = of.data.filter((each) => !tenant.value || each.tenant === tenant.value || each.tenant.startsWith(`${tenant.value}/`));
        return (
          <>
            {rows.length === 0
              ? <Empty title="No evaluation is kept here"><p>An evaluation asks several models for the answers to a data set. The command line begins one:</p><Code text={COMMAND} label="Commands" /></Empty>
              : <Table caption="Evaluations" columns={LIST} rows={rows} id={(each) => each.id} onOpen={(each) => setQuery({ evaluation: each.id === open ? undefined : each.id, most: undefined })} open={open} sorted="-created" />}
            {open && <Compared id={open} />}
          </>
        );
      }}
    </Loaded>
  );
}

function Compared({ id }: { id: string }) {
  const most = Math.min(1000, Number(query.value.get('most')) || STEP);
  const found = useGet('/admin/v1/evaluations/{id}', { items: { id }, query: { limit: most } });
  return (
    <Loaded from={found} what="the answers">
      {(of) => (
        <Section title={<>Comparison by <bdi>{of.evaluation.set || id}</bdi></>}>
          <Table caption="Models" columns={MODELS} rows={of.models} id={(each) => each.model} />
          <p class="hint">The latency of an answer is without its wait among the lines of batches. Reading answers writes a record to the ledger.</p>
          <h3>{plural(of.examples, 'example')}</h3>
          <ol class="compared">
            {of.data.map((row, at) => <Example key={at} row={row} models={of.models} />)}
          </ol>
          {of.has_more && most < 1000 && <p class="more"><Button onClick={() => setQuery({ most: String(most + STEP) }, true)}>Show {STEP} more</Button><span class="faint"> of {whole(of.examples)}</span></p>}
          {of.has_more && most >= 1000 && <p class="hint">The others: <code>tidegate dataset evaluate --batch {id}</code></p>}
        </Section>
      )}
    </Loaded>
  );
}

function Example({ row, models }: { row: ComparedRow; models: ModelSummary[] }) {
  return (
    <li>
      <p class="question"><bdi>{row.question}</bdi></p>
      <div class="side-by-side">
        {row.reference && <article><header><b>In the set</b></header><p><bdi>{row.reference}</bdi></p></article>}
        {row.answers.map((answer, at) => <Answered key={at} answer={answer} model={models[at]?.model ?? ''} />)}
      </div>
    </li>
  );
}

function Answered({ answer, model }: { answer: ComparedAnswer; model: string }) {
  return (
    <article>
      <header>
        <b><Name of={model} /></b>
        <span class="faint">
          {answer.output_tokens !== undefined && answer.output_tokens !== null && <Num of={whole(answer.output_tokens)} unit="tokens" />}
          {answer.cost_usd !== undefined && answer.cost_usd !== null && <> <Num of={money(answer.cost_usd * 1e6)} /></>}
          {answer.latency_s !== undefined && answer.latency_s !== null && <> {seconds(answer.latency_s)}</>}
        </span>
      </header>
      {answer.error ? <p><State of="failed" /> <bdi>{answer.error}</bdi></p> : <p><bdi>{answer.text}</bdi></p>}
    </article>
  );
}
