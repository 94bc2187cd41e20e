// Time series by uPlot, in the page's own colours.
import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { minuteTime, shortDate } from '../format';
import { theme } from '../theme';

export interface Line {
  name: string;
  values: (number | null)[];
  colour: string; // a CSS variable, such as --hue-0
  area?: boolean;
  dash?: boolean;
  steps?: boolean;
  total?: number; // what the legend tells while no moment is pointed at; else the last value
}

const DAY_S = 86_400;
const LETTER = 6.5; // pixels, about, of a label

// Of more than a day, a time alone would be ambiguous.
function timeLabels(at: number[]): string[] {
  const span = (at.at(-1) ?? 0) - (at[0] ?? 0);
  return at.map((s) => (span > DAY_S ? shortDate(s * 1000) : minuteTime(s * 1000)));
}

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const translucent = (of: string, share: number) => `color-mix(in srgb, ${of} ${share * 100}%, transparent)`;

export function Plot({ times, lines, unit, label, height = 180, format, stacked }: {
  times: number[]; lines: Line[]; unit: string; label: string; height?: number; format: (value: number) => string; stacked?: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const cursor = useSignal<number | null>(null);
  const dark = theme.value;
  // Of stacked areas, each stands on those before it; the others are lines.
  const below = new Array<number>(times.length).fill(0);
  const shown = lines.map((line) => {
    if (!stacked || !line.area) return line.values;
    return line.values.map((value, at) => (below[at]! += value ?? 0));
  });
  // The topmost area is painted first, so that those under it stay visible.
  const order = lines.map((_, at) => at).sort((one, other) => (lines[one]!.area && lines[other]!.area ? other - one : Number(!lines[one]!.area) - Number(!lines[other]!.area)));
  const data = [times, ...order.map((at) => shown[at]!)] as uPlot.AlignedData;
  const shape = JSON.stringify([lines.map(({ name, colour: of, area, dash, steps }) => [name, of, area, dash, steps]), height, dark]);

  useEffect(() => {
    const faint = colour('--text-2');
    const line = colour('--line');
    const axis: uPlot.Axis = { stroke: faint, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, font: '11px system-ui, sans-serif' };
    const options: uPlot.Options = {
      width: box.current!.clientWidth || 600,
      height,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false } },
      scales: { y: { range: (_plot, _least, most) => [0, Math.max(most * 1.1, 1e-6)] } },
      axes: [
        { ...axis, size: 28, values: (_plot, at) => timeLabels(at) },
        { ...axis, size: (_plot, labels) => Math.max(48, 16 + LETTER * Math.max(0, ...(labels ?? []).map((each) => each.length))), values: (_plot, at) => at.map((value) => format(value)) },
      ],
      series: [
        {},
        ...order.map((at): uPlot.Series => {
          const { name, colour: of, area, dash, steps } = lines[at]!;
          const stroke = colour(of);
          return {
            label: name,
            stroke,
            width: 1.5,
            points: { show: false },
            ...(area ? { fill: stacked ? stroke : translucent(stroke, 0.2) } : {}),
            ...(dash ? { dash: [4, 4] } : {}),
            ...(steps ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
          };
        }),
      ],
      hooks: { setCursor: [(of) => { cursor.value = of.cursor.idx ?? null; }] },
    };
    plot.current = new uPlot(options, data, box.current!);
    const resized = new ResizeObserver(() => {
      if (box.current && plot.current) plot.current.setSize({ width: box.current.clientWidth, height });
    });
    resized.observe(box.current!);
    return () => { resized.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, [shape]);
  useEffect(() => { plot.current?.setData(data); });

  return (
    <figure class="plot">
      <div ref={box} role="img" aria-label={label} />
      <Legend lines={lines} unit={unit} format={format} cursor={cursor} />
    </figure>
  );
}

function Legend({ lines, unit, format, cursor }: { lines: Line[]; unit: string; format: (value: number) => string; cursor: Signal<number | null> }) {
  return (
    <figcaption class="plot-legend">
      {lines.map((line) => {
        const value = cursor.value === null ? line.total ?? line.values.at(-1) : line.values[cursor.value];
        return (
          <span key={line.name}>
            <svg class="key" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
              {line.area ? <rect class={`key-fill ${line.colour.slice(2)}`} y="1" width="12" height="10" rx="2" />
                : <path class={`key-line ${line.colour.slice(2)}`} d="M0 6h12" stroke-dasharray={line.dash ? '3 2' : undefined} />}
            </svg>
            <bdi>{line.name}</bdi> <b>{value === null || value === undefined ? '–' : format(value)}</b>
          </span>
        );
      })}
      <span class="unit">{unit}</span>
    </figcaption>
  );
}
