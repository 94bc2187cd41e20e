// A table that becomes cards on a narrow screen. A row that opens something is a button for the keyboard, too.
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { whole } from '../format';
import { query, setQuery } from '../route';
import { Button } from './basics';

export interface Column<Row> {
  key: string;
  name: string;
  show: (row: Row) => ComponentChildren;
  sort?: (row: Row) => number | string;
  number?: boolean;
  wide?: boolean; // takes what room is left
  less?: boolean; // left out where there is little room
}

// As people sort: model-9 stands before model-10.
const BY_NAME = new Intl.Collator(undefined, { numeric: true });
const STEP = 200;

// By what tables are sorted by choice, in the address: TABLE.COLUMN; with '-' in front of the column, the greatest first.
const chosen = () => (query.value.get('sort') ?? '').split(',').filter(Boolean).map((each) => each.split('.') as [table: string, order: string]);
const orderOf = (caption: string) => chosen().find(([table]) => table === caption)?.[1];

function classOf<Row>({ number, wide, less }: Column<Row>): string {
  return [number && 'right', wide && 'wide', less && 'less'].filter(Boolean).join(' ');
}

export function Table<Row>({ columns, rows, id, onOpen, open, caption, sorted }: {
  columns: Column<Row>[]; rows: Row[]; id: (row: Row) => string; onOpen?: (row: Row) => void; open?: string; caption: string; sorted?: string;
}) {
  const order = orderOf(caption) ?? sorted ?? '';
  const [most, setMost] = useState(STEP);
  const ordered = useMemo(() => {
    const down = order.startsWith('-');
    const by = columns.find((column) => column.key === order.replace('-', ''))?.sort;
    if (!by) return rows;
    return rows.toSorted((one, other) => {
      const [a, b] = [by(one), by(other)];
      const less = typeof a === 'string' || typeof b === 'string' ? BY_NAME.compare(String(a), String(b)) : a - b;
      return down ? -less : less;
    });
  }, [rows, order]);
  const press = (column: Column<Row>) => {
    const first = column.number ? `-${column.key}` : column.key;
    const wanted = order === first ? (column.number ? column.key : `-${column.key}`) : first;
    setQuery({ sort: [...chosen().filter(([table]) => table !== caption), [caption, wanted]].map((each) => each.join('.')).join(',') }, true);
  };
  return (
    <>
      <div class="table-scroll">
        <table class="table">
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.key} scope="col" class={classOf(column)}
                  aria-sort={order === column.key ? 'ascending' : order === `-${column.key}` ? 'descending' : undefined}>
                  {column.sort ? <button type="button" onClick={() => press(column)}>{column.name}</button> : column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ordered.slice(0, most).map((row) => {
              const key = id(row);
              return (
                <tr key={key} class={`${onOpen ? 'opens' : ''} ${open === key ? 'open' : ''}`}
                  onClick={onOpen && ((event) => { if (!(event.target as Element).closest('a, button, input')) onOpen(row); })}>
                  {columns.map((column, at) => (
                    <td key={column.key} data-name={column.name} class={classOf(column)}>
                      {at === 0 && onOpen
                        ? <button type="button" class="row-button" aria-expanded={open === key} onClick={() => onOpen(row)}>{column.show(row)}</button>
                        : column.show(row)}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {ordered.length > most && (
        <p class="more">
          <Button onClick={() => setMost(most + STEP)}>Show {whole(Math.min(STEP, ordered.length - most))} more</Button>
          <span class="faint"> of {whole(ordered.length)}</span>
        </p>
      )}
    </>
  );
}
