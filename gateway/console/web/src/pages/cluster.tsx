// The map: every device is a square on one canvas, in the colour of what is asked for.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { post } from '../api';
import type { DeviceMeasures, Node } from '../api_types';
import { type DevicePlace, placesOf, useHoldings, useNodes } from '../cluster_data';
import { now, refresh } from '../data';
import { duration, percent, plural, short } from '../format';
import { colourOf, hueOf } from '../holders';
import { may } from '../me';
import { useOverview } from '../overview_data';
import { hrefOf, query, setQuery } from '../route';
import { theme } from '../theme';
import { useTyped } from '../typed';
import { Button, Choice, Empty, Fact, Holder, Loaded, Name, Num, State, Text } from '../ui/basics';
import { Confirm } from '../ui/dialog';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { WhyJob } from '../ui/why';

const COLOURS: [string, string][] = [['holder', 'Holder'], ['tenant', 'Tenant'], ['kind', 'Kind'], ['health', 'Health'], ['age', 'Age']];
const ZOOMS = [6, 9, 13, 18, 26, 36];

interface Layout { columns: number; size: number; gap: number; label: number; boxes: { node: Node; at: number; x: number; y: number; width: number; height: number; columns: number }[]; height: number }

export function Cluster() {
  const nodes = useNodes();
  const holdings = useHoldings();
  const by = query.value.get('colour') ?? 'holder';
  const filter = query.value.get('find') ?? '';
  const node = opened('node');
  const [zoom, setZoom] = useState<number | undefined>();
  const places = useMemo(() => placesOf(nodes.value?.data ?? [], holdings), [nodes.value, holdings]);
  return (
    <Loaded from={nodes} what="the nodes">
      {(of) => {
        if (of.data.length === 0) return <Empty title="No devices are scheduled here">Give <code>scaling.cluster</code> in the configuration the devices that Tidegate may use; the map shows them then.</Empty>;
        const [name, device] = (node ?? '').split('/');
        const chosen = of.data.find((each) => each.name === name);
        const size = zoom ?? zoomFor(places.length);
        return (
          <>
            <div class="tools">
              <Choice label="Colour by" value={by} options={COLOURS} onChange={(colour) => setQuery({ colour: colour === 'holder' ? undefined : colour })} />
              <input type="search" class="filter" aria-label="Find a node or a holder" placeholder="Node or holder" value={filter} onInput={(event) => setQuery({ find: event.currentTarget.value }, true)} />
              <span class="space" />
              <div class="zoom" role="group" aria-label="Zoom">
                <button type="button" aria-label="Smaller" disabled={size === 0} onClick={() => setZoom(size - 1)}>−</button>
                <button type="button" aria-label="Larger" disabled={size === ZOOMS.length - 1} onClick={() => setZoom(size + 1)}>+</button>
              </div>
            </div>
            <Summary places={places} />
            <Rates />
            <Key places={places} by={by} />
            <Map nodes={of.data} places={places} by={by} filter={filter} open={node} zoom={size} onZoom={setZoom} />
            {chosen && <NodeDrawer key={chosen.name} node={chosen} device={device === undefined ? undefined : Number(device)} places={places.filter((each) => each.node.name === chosen.name)} />}
          </>
        );
      }}
    </Loaded>
  );
}

// The largest squares with which the whole map stays in view.
function zoomFor(devices: number): number {
  return devices <= 64 ? 5 : devices <= 256 ? 4 : devices <= 1024 ? 3 : devices <= 4096 ? 2 : devices <= 10_000 ? 1 : 0;
}

function Summary({ places }: { places: DevicePlace[] }) {
  const count = (state: string) => places.filter((place) => place.state === state).length;
  const watts = places.reduce((sum, place) => sum + (place.measured && !place.measured.old ? place.measured.power_watts ?? 0 : 0), 0);
  return (
    <p class="summary">
      <Num of={short(places.length)} unit="devices" />
      <Num of={short(count('held'))} unit="in use" />
      <Num of={short(count('free'))} unit="free" />
      {count('cordoned') > 0 && <span class="look"><Num of={short(count('cordoned'))} unit="cordoned" /></span>}
      {count('faulty') > 0 && <span class="act"><Num of={short(count('faulty'))} unit="faulty" /></span>}
      {watts > 0 && <Num of={short(Math.round(watts))} unit="W" title="Power of the devices that were measured just now" />}
    </p>
  );
}

// How well the cluster is used; /metrics has the same under tidegate_cluster_*.
function Rates() {
  const of = useOverview().value?.devices;
  if (!of || of.allocation_rate === null) return null;
  return (
    <p class="summary">
      <Num of={percent(of.allocation_rate)} unit="allocated" title="GAR: held devices over healthy devices, now" />
      <Num of={percent(of.occupation_rate ?? 0)} unit="held in the last hour" title="SOR: held device time over all device time" />
      <Num of={percent(of.node_fragmentation_rate ?? 0)} unit="of nodes partly held" title="GFR: nodes of which some but not all devices are held" />
      <Num of={percent(of.fragmented_share ?? 0)} unit="fragmented" title="Devices that are free where the usual requests cannot use them" />
      {of.waiting > 0 && <span class="look"><Num of={short(of.waiting)} unit="requested by waiting work" /></span>}
    </p>
  );
}

// What a device's colour stands for.
function groupOf(place: DevicePlace, by: string): string {
  const holding = place.holdings[0];
  if (by === 'kind') return place.kind || 'none';
  if (by === 'health') return place.state === 'held' || place.state === 'free' ? place.node.health : place.state;
  if (!holding) return '';
  if (by === 'tenant') return holding.job?.tenant ?? (holding.kind === 'model' ? 'models' : 'no tenant');
  if (by === 'age') {
    const ms = holding.replica ? holding.replica.age_ms : holding.job ? now.value - Date.parse(holding.job.since) : 0;
    return ms < 60_000 ? 'under a minute' : ms < 3_600_000 ? 'under an hour' : ms < 86_400_000 ? 'under a day' : 'longer';
  }
  return holding.holder;
}

function matches(place: DevicePlace, filter: string): boolean {
  if (!filter) return true;
  const wanted = filter.toLowerCase();
  return place.node.name.toLowerCase().includes(wanted) || place.holdings.some((each) => each.id.toLowerCase().includes(wanted));
}

function Map({ nodes, places, by, filter, open, zoom, onZoom }: {
  nodes: Node[]; places: DevicePlace[]; by: string; filter: string; open: string | undefined; zoom: number; onZoom: (to: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [tip, setTip] = useState<{ place: DevicePlace; x: number; y: number } | undefined>();
  useEffect(() => {
    const resized = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    resized.observe(box.current!);
    return () => resized.disconnect();
  }, []);

  const layout = layoutOf(nodes, width, ZOOMS[zoom]!);
  const colours = theme.value; // drawn again in the other colours

  useEffect(() => {
    const element = canvas.current;
    if (!element || width === 0) return;
    const scale = devicePixelRatio;
    element.width = width * scale;
    element.height = layout.height * scale;
    const c = element.getContext('2d')!;
    c.scale(scale, scale);
    draw(c, layout, places, by, filter, open);
  });

  const placeAt = (event: MouseEvent): DevicePlace | undefined => {
    const bounds = canvas.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    const found = layout.boxes.find((each) => x >= each.x && x < each.x + each.width && y >= each.y && y < each.y + each.height);
    if (!found) return undefined;
    const step = layout.size + layout.gap;
    const [column, row] = [Math.floor((x - found.x) / step), Math.floor((y - found.y - layout.label) / step)];
    if (row < 0 || column < 0 || column >= found.columns) return undefined;
    const device = row * found.columns + column;
    return device < found.node.each.length ? places[found.at + device] : undefined;
  };
  return (
    <>
      <div class="map" ref={box} data-theme-of={colours}>
        <canvas ref={canvas} class="map-canvas" style={{ height: `${layout.height}px` }} role="img"
          aria-label={`Map of ${plural(places.length, 'device')} on ${plural(nodes.length, 'node')}; the list below says the same in words`}
          onPointerMove={(event) => { const place = placeAt(event); setTip(place && { place, x: event.offsetX, y: event.offsetY }); }}
          onPointerLeave={() => setTip(undefined)}
          onWheel={(event) => { if (event.ctrlKey) { event.preventDefault(); onZoom(Math.max(0, Math.min(ZOOMS.length - 1, zoom - Math.sign(event.deltaY)))); } }}
          onClick={(event) => { const place = placeAt(event); if (place) openDrawer('node', `${place.node.name}/${place.device}`); }} />
        {tip && <Tip {...tip} width={width} />}
      </div>
      <details class="in-words">
        <summary>The nodes as a list</summary>
        <ul>
          {nodes.slice(0, 300).map((each) => (
            <li key={each.name}><a href={hrefOf('cluster', { open: `node:${each.name}` })}><bdi>{each.name}</bdi></a> {each.kind} · {short(each.free)} of {each.devices} free · <State of={each.health} /></li>
          ))}
        </ul>
      </details>
    </>
  );
}

function layoutOf(nodes: Node[], width: number, size: number): Layout {
  const gap = size > 12 ? 3 : size > 8 ? 2 : 1;
  const label = size > 12 ? 20 : 0;
  const pad = size > 12 ? 20 : size > 8 ? 8 : 5;
  const layout: Layout = { columns: 0, size, gap, label, boxes: [], height: 0 };
  let [x, y, tallest, at] = [0, 0, 0, 0];
  for (const node of nodes) {
    const columns = Math.max(1, node.each.length <= 4 ? node.each.length : node.each.length <= 8 ? 4 : 8);
    const rows = Math.max(1, Math.ceil(node.each.length / columns));
    const boxWidth = Math.max(columns * (size + gap), label > 0 ? 64 : 0);
    const boxHeight = rows * (size + gap) + label;
    if (x > 0 && x + boxWidth > width) { x = 0; y += tallest + pad; tallest = 0; }
    layout.boxes.push({ node, at, x, y, width: boxWidth, height: boxHeight, columns });
    x += boxWidth + pad;
    tallest = Math.max(tallest, boxHeight);
    at += node.each.length;
  }
  layout.height = Math.max(40, y + tallest + 4);
  return layout;
}

function draw(c: CanvasRenderingContext2D, layout: Layout, places: DevicePlace[], by: string, filter: string, open: string | undefined) {
  const style = getComputedStyle(document.documentElement);
  const named = (name: string) => style.getPropertyValue(name).trim();
  const [ground, faint, act, look, text, ink] = [named('--ground-2'), named('--text-2'), named('--act'), named('--look'), named('--text'), named('--surface')];
  const colours = new globalThis.Map<string, string>();
  const colour = (group: string) => {
    let of = colours.get(group);
    if (!of) colours.set(group, (of = colourOf(by === 'holder' ? group : `${by} ${group}`)));
    return of;
  };
  c.clearRect(0, 0, c.canvas.width, layout.height);
  c.textBaseline = 'top';
  c.font = '12px system-ui, sans-serif';
  const step = layout.size + layout.gap;
  for (const box of layout.boxes) {
    if (layout.label > 0) {
      c.fillStyle = box.node.health === 'healthy' || box.node.health === 'up' ? faint : text;
      c.fillText(fit(c, box.node.name, box.width), box.x, box.y + 1);
    }
    for (let d = 0; d < box.node.each.length; ++d) {
      const place = places[box.at + d]!;
      const [x, y] = [box.x + (d % box.columns) * step, box.y + layout.label + Math.floor(d / box.columns) * step];
      c.globalAlpha = matches(place, filter) ? 1 : 0.15;
      const group = groupOf(place, by);
      c.fillStyle = group === '' ? ground : by === 'health' && (group === 'healthy' || group === 'up') ? ground : by === 'health' ? (place.state === 'faulty' ? act : look) : colour(group);
      c.fillRect(x, y, layout.size, layout.size);
      if (place.free > 0 && place.free < 1 && layout.size > 8) { // a share of it is free
        c.fillStyle = ground;
        c.fillRect(x, y, layout.size, Math.round(layout.size * place.free));
      }
      if (layout.size > 8 && (place.state === 'faulty' || place.state === 'cordoned')) mark(c, x, y, layout.size, place.state === 'faulty' ? act : look, ink);
      if (open === `${place.node.name}/${place.device}` || open === place.node.name) {
        c.strokeStyle = text;
        c.lineWidth = 2;
        c.strokeRect(x + 1, y + 1, layout.size - 2, layout.size - 2);
      }
    }
  }
  c.globalAlpha = 1;
}

// A cross for a fault, a line for a cordon: seen without colours, too.
function mark(c: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string, ink: string) {
  for (const [stroke, width] of [[ink, 4], [colour, 2]] as const) {
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x + 3, y + size - 3);
    c.lineTo(x + size - 3, y + 3);
    if (colour === getComputedStyle(document.documentElement).getPropertyValue('--act').trim()) {
      c.moveTo(x + 3, y + 3);
      c.lineTo(x + size - 3, y + size - 3);
    }
    c.stroke();
  }
}

function fit(c: CanvasRenderingContext2D, text: string, width: number): string {
  if (c.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && c.measureText(`${text.slice(0, end)}…`).width > width) --end;
  return `${text.slice(0, end)}…`;
}

function Tip({ place, x, y, width }: { place: DevicePlace; x: number; y: number; width: number }) {
  return (
    <div class="tip" style={{ left: `${Math.min(x + 14, Math.max(0, width - 250))}px`, top: `${y + 14}px` }}>
      <p><b><bdi>{place.node.name}</bdi></b> {place.kind} {place.device}</p>
      {place.holdings.map((each) => <p key={each.id}><Holder name={each.holder} /> <span class="faint"><bdi>{each.id}</bdi></span></p>)}
      {place.holdings.length === 0 && <p>{place.state}</p>}
      {place.measured && <p class="faint">{figuresOf(place.measured).join(' · ')}{place.measured.old && ' (old)'}</p>}
      {place.reason && <p class="faint">{place.reason}</p>}
    </div>
  );
}

function Key({ places, by }: { places: DevicePlace[]; by: string }) {
  const counts = new globalThis.Map<string, number>();
  for (const place of places) {
    const group = groupOf(place, by);
    if (group) counts.set(group, (counts.get(group) ?? 0) + 1);
  }
  if (by === 'health') return <p class="hint">Amber with a line: cordoned or suspect. Red with a cross: faulty. Grey: healthy.</p>;
  const groups = [...counts.keys()];
  return (
    <ul class="holders">
      {groups.slice(0, 24).map((group) => (
        <li key={group}><span class="holder"><span class={`swatch hue-${hueOf(by === 'holder' ? group : `${by} ${group}`)}`} aria-hidden="true" /><bdi>{group}</bdi></span> <Num of={short(counts.get(group)!)} /></li>
      ))}
      {groups.length > 24 && <li class="faint">and {groups.length - 24} more</li>}
    </ul>
  );
}

// Use, memory, power and temperature; a figure that the device does not give is left out.
function figuresOf(of: DeviceMeasures): string[] {
  const figures: string[] = [];
  if (of.utilization !== undefined) figures.push(`${percent(of.utilization)} used`);
  if (of.memory_used_mib !== undefined) figures.push(of.memory_total_mib ? `${gib(of.memory_used_mib)} of ${gib(of.memory_total_mib)} GiB` : `${gib(of.memory_used_mib)} GiB`);
  if (of.power_watts !== undefined) figures.push(`${Math.round(of.power_watts)} W`);
  if (of.temperature_celsius !== undefined) figures.push(`${Math.round(of.temperature_celsius)} °C`);
  return figures;
}

function gib(mib: number): string {
  return (mib / 1024).toFixed(1);
}

const SLOWED: Record<string, string> = { power_cap: 'its power cap', heat: 'heat', power_brake: 'the power brake', hardware: 'its hardware' };

function Measures({ place }: { place: DevicePlace }) {
  const of = place.measured;
  if (!of) return null;
  const age = now.value - Date.parse(of.as_of);
  return (
    <p class={of.old ? 'look' : 'faint'} title={`As of ${of.as_of}, by ${of.source}`}>
      {of.lost ? 'its driver cannot reach it' : figuresOf(of).join(' · ')}
      {of.slowed_by.length > 0 && ` · slowed by ${of.slowed_by.map((each) => SLOWED[each] ?? each).join(', ')}`}
      {' '}· {of.old ? 'old: ' : ''}as of <Num of={duration(Math.max(age, 0))} /> ago
    </p>
  );
}

function NodeDrawer({ node, device, places }: { node: Node; device: number | undefined; places: DevicePlace[] }) {
  const [asking, setAsking] = useState('');
  const shown = device === undefined ? places : places.filter((place) => place.device === device);
  const cordoned = node.health === 'cordoned';
  const drained = node.health === 'draining' || node.health === 'drained';
  return (
    <Drawer kind={device === undefined ? 'node' : `device ${device} of node`} title={<Name of={node.name} />}>
      <p><State of={node.health} />{node.health_reason && <span class="faint"> {node.health_reason}</span>}</p>
      <dl class="facts">
        <Fact label="Devices"><Num of={String(node.devices)} unit={node.kind ?? ''} /></Fact>
        <Fact label="Free"><Num of={short(node.free)} unit="devices" /></Fact>
        {node.power_watts !== undefined && <Fact label="Power"><Num of={String(Math.round(node.power_watts))} unit="W" /></Fact>}
        {node.power_headroom_watts !== undefined && <Fact label="Left of the power budget"><Num of={String(Math.round(node.power_headroom_watts))} unit="W" /></Fact>}
      </dl>
      {may('maintain') && (
        <p class="acts">
          {cordoned && <Button onClick={() => setAsking('uncordon')}>Uncordon</Button>}
          {!cordoned && !drained && <Button onClick={() => setAsking('cordon')}>Cordon</Button>}
          {device === undefined && (drained
            ? <Button onClick={() => setAsking('undrain')}>End the drain</Button>
            : <Button onClick={() => setAsking('drain')}>Drain</Button>)}
          {device !== undefined && <a class="button quiet" href={hrefOf('cluster', { open: `node:${node.name}` })}>The whole node</a>}
        </p>
      )}
      <h3>{device === undefined ? 'Devices' : 'Why is this here'}</h3>
      <ul class="cards">
        {shown.map((place) => (
          <li key={place.device}>
            <p class="card-head"><a href={hrefOf('cluster', { open: `node:${node.name}/${place.device}` })}>{place.kind} {place.device}</a><State of={place.state === 'held' ? 'running' : place.state} /></p>
            {place.reason && <p>{place.reason}</p>}
            <Measures place={place} />
            {place.holdings.map((each) => (
              <div key={each.id}>
                <p>{each.replica ? <a href={hrefOf('models', { open: `model:${each.holder}` })}><Holder name={each.holder} /></a> : each.job ? <a href={hrefOf('queues', { open: `job:${each.id}` })}><Holder name={each.holder} /></a> : <Holder name={each.holder} />} <span class="faint"><Name of={each.id} /></span></p>
                {each.replica && <p class="faint">{each.replica.reason} · for <Num of={duration(each.replica.age_ms)} /></p>}
                {each.job && (device === undefined ? <p class="faint">{each.job.reason}</p> : <WhyJob id={each.id} open />)}
              </div>
            ))}
            {place.holdings.length === 0 && place.state === 'free' && device !== undefined && <Idle place={place} />}
          </li>
        ))}
      </ul>
      {(asking === 'cordon' || asking === 'uncordon') && <Cordon node={node} device={device} off={asking === 'uncordon'} onClose={() => setAsking('')} />}
      {(asking === 'drain' || asking === 'undrain') && <Drain node={node} off={asking === 'undrain'} onClose={() => setAsking('')} />}
    </Drawer>
  );
}

// Why a device is idle: what waits does not fit here, or nothing waits.
function Idle({ place }: { place: DevicePlace }) {
  const holdings = useHoldings();
  const waiting = [...holdings.values()].filter((each) => each.job?.state === 'pending' || each.replica?.state === 'waiting');
  if (waiting.length === 0) return <div class="why"><p>Nothing waits for a device: no job is pending, and each model has the replicas that its load needs.</p></div>;
  return (
    <div class="why">
      <p>{plural(waiting.length, 'workload')} {waiting.length === 1 ? 'waits' : 'wait'}, and {waiting.length === 1 ? 'does' : 'do'} not start on {place.node.name} alone:</p>
      {waiting.slice(0, 5).map((each) => <p key={each.id}><b><bdi>{each.id}</bdi></b>: {each.job?.reason ?? each.replica?.reason}</p>)}
    </div>
  );
}

function Drain({ node, off, onClose }: { node: Node; off: boolean; onClose: () => void }) {
  const [reason, setReason] = useTyped(`nodes.${node.name}.drain.reason`, '');
  const act = async () => {
    await post(off ? '/admin/v1/nodes/{name}:undrain' : '/admin/v1/nodes/{name}:drain', { name: node.name }, reason ? { reason } : {});
    refresh('/admin/v1/nodes');
  };
  return (
    <Confirm title={off ? <>End the drain of <bdi>{node.name}</bdi></> : <>Drain <bdi>{node.name}</bdi></>} word={off ? 'End the drain' : 'Drain'} act={act} onClose={onClose}>
      {off ? <p>New work can start there again. What has moved away stays where it is.</p> : (
        <p>It gets no new work. Its replicas end when others elsewhere are ready. Preemptible jobs save their work and start again elsewhere; the others run to their end.</p>
      )}
      <Text label="Reason" value={reason} onInput={setReason} hint="People see it on the map and in the ledger." />
    </Confirm>
  );
}

function Cordon({ node, device, off, onClose }: { node: Node; device: number | undefined; off: boolean; onClose: () => void }) {
  const [reason, setReason] = useTyped(`nodes.${node.name}.cordon.reason`, '');
  const what = device === undefined ? node.name : `device ${device} of ${node.name}`;
  const act = async () => {
    const body = { ...(device === undefined ? {} : { device }), ...(off || !reason ? {} : { reason }) };
    if (off) await post('/admin/v1/nodes/{name}:uncordon', { name: node.name }, body);
    else await post('/admin/v1/nodes/{name}:cordon', { name: node.name }, body);
    refresh('/admin/v1/nodes');
  };
  return (
    <Confirm title={off ? <>Uncordon <bdi>{what}</bdi></> : <>Cordon <bdi>{what}</bdi></>} word={off ? 'Uncordon' : 'Cordon'} act={act} onClose={onClose}>
      {off ? <p>New work can start there again.</p> : (
        <>
          <p>It gets no new work. Running work continues.</p>
          <Text label="Reason" value={reason} onInput={setReason} hint="People see it on the map and in the ledger." />
        </>
      )}
    </Confirm>
  );
}
