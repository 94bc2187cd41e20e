// What applications say of answers, by model and version; a part of the page Usage.
import type { FeedbackRow } from '../api_types';
import { useAll } from '../data';
import { percent, plural, short } from '../format';
import { range } from '../route';
import { Name, Num, Section } from '../ui/basics';
import { type Column, Table } from '../ui/table';

const figure = (value: number) => String(Number(value.toPrecision(4)));

// The rate of true values, the mean of numbers; of texts the value stands in its own column.
function result(row: FeedbackRow): number {
  return row.rate ?? row.mean ?? -1;
}

function shownResult(row: FeedbackRow) {
  if (row.rate !== undefined) return <Num of={percent(row.rate)} unit="true" />;
  if (row.mean !== undefined) return <Num of={figure(row.mean)} unit="mean" />;
  return <span class="faint">–</span>;
}

function shownRange(row: FeedbackRow) {
  if (row.rate_low !== undefined && row.rate_high !== undefined) return <Num of={`${percent(row.rate_low)} to ${percent(row.rate_high)}`} />;
  if (row.min !== undefined && row.max !== undefined) return <Num of={`${figure(row.min)} to ${figure(row.max)}`} />;
  return <span class="faint">–</span>;
}

const COLUMNS: Column<FeedbackRow>[] = [
  { key: 'model', name: 'Model', wide: true, sort: (row) => row.model ?? '', show: (row) => <Name of={row.model || '(none)'} /> },
  { key: 'version', name: 'Version', less: true, sort: (row) => row.version ?? '', show: (row) => (row.version ? <Name of={row.version} /> : <span class="faint">–</span>) },
  { key: 'name', name: 'Feedback', sort: (row) => row.name, show: (row) => <Name of={row.name} /> },
  { key: 'value', name: 'Value', less: true, sort: (row) => row.value ?? row.type, show: (row) => (row.value !== undefined ? <Name of={row.value} /> : <span class="faint">{row.type}</span>) },
  { key: 'result', name: 'Result', number: true, sort: result, show: shownResult },
  { key: 'range', name: 'Range', less: true, number: true, show: shownRange },
  { key: 'count', name: 'Count', number: true, sort: (row) => row.count, show: (row) => <Num of={short(row.count)} unit="answers" /> },
];

const keyOf = (row: FeedbackRow) => [row.model, row.version, row.name, row.type, row.value].join('\n');

export function Feedback({ of: tenant }: { of: string }) {
  const rows = useAll('/admin/v1/feedback', { query: { tenant: tenant || undefined, since: range.value }, everyMs: 30_000 });
  if (!rows.value || rows.value.data.length === 0) return null;
  return (
    <Section title={`Feedback: ${plural(rows.value.data.length, 'row')}`}>
      <Table caption="Feedback of applications" columns={COLUMNS} rows={rows.value.data} id={keyOf} sorted="-count" />
      <p class="hint">Of each key, request and name the latest counts. The range of a rate holds the true one with 95 % confidence; that of numbers is from the least to the greatest.</p>
    </Section>
  );
}
