import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, get, post } from '../api';
import type { ComparedJob, Job, JobQueue, JobProvenance, NamedValue, Resource } from '../api_types';
import { now, refresh, useAll, useGet } from '../data';
import { deviceTime, duration, minuteTime, plural, short } from '../format';
import { hueOf } from '../holders';
import { manages, may, severalTenants } from '../me';
import { hrefOf, query, setQuery, tenant } from '../route';
import { useTyped } from '../typed';
import { Bar, Button, Choice, Empty, Fact, Field, Holder, Loaded, Name, Num, Problem, Section, State, Time } from '../ui/basics';
import { Confirm, Dialog, useAct } from '../ui/dialog';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { type Column, Table } from '../ui/table';
import { WhyJob } from '../ui/why';

const EVERY_MS = 3000;

const STATES: [string, string][] = [['open', 'Not ended'], ['pending', 'Waiting'], ['running', 'Running'], ['suspended', 'Suspended'], ['', 'All']];

export function Queues() {
  const state = query.value.get('state') ?? 'open';
  const queue = query.value.get('queue') ?? '';
  const queues = useAll(may('see_cluster') ? '/admin/v1/queues' : null, { everyMs: EVERY_MS });
  const jobs = useAll('/admin/v1/jobs', {
    query: { state: state === 'all' ? undefined : state, queue: queue || undefined, tenant: tenant.value || undefined }, everyMs: EVERY_MS,
  });
  const open = opened('job');
  const submitting = query.value.get('new') === 'job';
  return (
    <>
      {may('see_cluster') && (
        <Section title="Queues">
          <Loaded from={queues} what="the queues">
            {(of) => (of.data.length === 0
              ? <Empty title="No queue shares devices here">Give <code>scaling.cluster</code> devices, and <code>scaling.planner</code> a policy with queues.</Empty>
              : <Table caption="Queues" columns={QUEUE_COLUMNS} rows={of.data} id={(each) => each.name} open={queue} onOpen={(each) => setQuery({ queue: queue === each.name ? undefined : each.name })} />)}
          </Loaded>
        </Section>
      )}
      <Section title={queue ? <>Jobs of <bdi>{queue}</bdi></> : 'Jobs'} aside={may('submit_jobs') && <Button kind="primary" onClick={() => setQuery({ new: 'job' })}>Submit a job</Button>}>
        <div class="tools">
          <Choice label="State" value={state === 'all' ? '' : state} options={STATES} onChange={(to) => setQuery({ state: to === 'open' ? undefined : to || 'all' })} />
          {queue && <Button kind="quiet" onClick={() => setQuery({ queue: undefined })}>All queues</Button>}
        </div>
        <Loaded from={jobs} what="the jobs">
          {(of) => (of.data.length === 0
            ? <Empty title={state === 'open' ? 'No job waits or runs' : 'No such job'}>{may('submit_jobs') ? 'Submit one with the button above' : 'Ask an operator for the right to submit jobs'}, or with <code>tidegate jobs submit FILE</code>.</Empty>
            : <Table caption="Jobs" columns={JOB_COLUMNS} rows={of.data} id={(each) => each.id} open={open} onOpen={(each) => openDrawer('job', each.id)} />)}
        </Loaded>
      </Section>
      {may('see_cluster') && <Resources />}
      {may('see_usage') && <LastDay />}
      {open && <JobDrawer key={open} id={open} />}
      {submitting && <Submit onClose={() => setQuery({ new: undefined })} />}
    </>
  );
}

const RESOURCE_COLUMNS: Column<Resource>[] = [
  { key: 'name', name: 'Resource', sort: (of) => of.name, show: (of) => <Name of={of.name} /> },
  { key: 'free', name: 'Free', number: true, sort: (of) => of.free, show: (of) => <Num of={String(of.free)} unit={`of ${of.count}`} /> },
  { key: 'waiting', name: 'Waiting', number: true, sort: (of) => of.waiting, show: (of) => <Num of={String(of.waiting)} /> },
  { key: 'held', name: 'Held by', wide: true, show: (of) => (of.held_by.length === 0 ? <span class="faint">nothing</span> : <bdi>{of.held_by.join(', ')}</bdi>) },
];

// Licences and the like; nothing where the cluster has none.
function Resources() {
  const found = useAll('/admin/v1/resources', { everyMs: EVERY_MS });
  if (!found.value || found.value.data.length === 0) return null;
  return (
    <Section title="Resources">
      <Table caption="Resources" columns={RESOURCE_COLUMNS} rows={found.value.data} id={(each) => each.name} />
    </Section>
  );
}

// The devices that each job held in each hour of the last day.
const HOURS = 24;
const MOST_JOBS = 15;

function LastDay() {
  const of = tenant.value || undefined;
  const usage = useAll(of || severalTenants().length === 0 ? '/admin/v1/usage' : null, { query: { by: 'job,hour', since: '24h', tenant: of }, everyMs: 60_000 });
  const hour = 3_600_000;
  const end = Math.floor(now.value / hour) * hour;
  const found = new Map<string, number[]>();
  for (const row of usage.value?.data ?? []) {
    if (!row.job || !row.hour) continue;
    const at = HOURS - 1 - Math.round((end - Date.parse(row.hour)) / hour);
    if (at < 0 || at >= HOURS) continue;
    const hours = found.get(row.job) ?? new Array<number>(HOURS).fill(0);
    found.set(row.job, hours);
    hours[at]! += Object.values(row.device_seconds).reduce((sum, each) => sum + each, 0) / 3600;
  }
  const total = (hours: number[]) => hours.reduce((sum, each) => sum + each, 0);
  const rows = [...found].filter(([, hours]) => total(hours) > 0).sort(([, one], [, other]) => total(other) - total(one));
  if (rows.length === 0) return null;
  const most = Math.max(...rows.flatMap(([, hours]) => hours));
  return (
    <Section title="The last 24 hours" aside="devices by hour">
      <ul class="hours">
        {rows.slice(0, MOST_JOBS).map(([job, hours]) => (
          <li key={job}>
            <a href={hrefOf('queues', { open: `job:${job}` })}><Name of={job} /></a>
            <svg viewBox={`0 0 ${HOURS * 10} 24`} preserveAspectRatio="none" role="img" aria-label={`Devices of ${job} by hour`}>
              {hours.map((devices, at) => (
                <g key={at}>
                  <title>{`${minuteTime(end - (HOURS - 1 - at) * hour)}: ${short(devices)} devices`}</title>
                  <rect class="hour-ground" x={at * 10} y="23" width="9" height="1" />
                  <rect class={`hour-fill hue-${hueOf(job.replace(/-[\d.]+$/, ''))}`} x={at * 10} y={24 - (devices / most) * 24} width="9" height={(devices / most) * 24} />
                </g>
              ))}
            </svg>
            <Num of={deviceTime(total(hours) * 3600)} />
          </li>
        ))}
      </ul>
      <p class="hours-scale faint"><span>{minuteTime(end - (HOURS - 1) * hour)}</span><span>{minuteTime(end - (HOURS / 2) * hour)}</span><span>now</span></p>
      {rows.length > MOST_JOBS && <p class="hint"><a href={hrefOf('usage', { by: 'job' })}>All {rows.length} jobs</a></p>}
    </Section>
  );
}

const devices = (count: number) => `${short(count)} ${count === 1 ? 'device' : 'devices'}`;

const QUEUE_COLUMNS: Column<JobQueue>[] = [
  { key: 'name', name: 'Queue', wide: true, sort: (of) => of.name, show: (of) => <span class="two-lines"><Name of={of.name} />{of.parent && <span class="faint">below <bdi>{of.parent}</bdi></span>}</span> },
  { key: 'used', name: 'Used', number: true, sort: (of) => of.used, show: (of) => <Num of={short(of.used)} unit="devices" /> },
  { key: 'deserved', name: 'Deserved', number: true, sort: (of) => of.deserved, show: (of) => <Num of={short(of.deserved)} unit="devices" /> },
  {
    key: 'share', name: 'Share', show: (of) => (
      <span class="with-bar">
        <Bar value={of.used} limit={Math.max(of.deserved, of.used, of.asked, 1)} mark={of.deserved / Math.max(of.deserved, of.used, of.asked, 1)} label={`${short(of.used)} used of ${short(of.deserved)} deserved, ${short(of.asked)} asked for`} />
        <span class="faint">{of.borrowed > 0 ? `${devices(of.borrowed)} borrowed` : of.lent > 0 ? `${devices(of.lent)} lent` : of.asked < of.deserved ? `${devices(of.deserved - Math.max(of.used, of.asked))} to lend` : ''}</span>
      </span>
    ),
  },
  { key: 'asked', name: 'Asked', less: true, number: true, sort: (of) => of.asked, show: (of) => <Num of={short(of.asked)} unit="devices" /> },
  { key: 'jobs', name: 'Jobs', number: true, sort: (of) => of.jobs_running, show: (of) => <Num of={`${of.jobs_running} run, ${of.jobs_waiting} wait`} /> },
  {
    key: 'wait', name: 'Wait', number: true, sort: (of) => of.oldest_wait_ms ?? of.wait_p50_ms ?? 0, show: (of) => (
      <span class="two-lines">
        {of.oldest_wait_ms === null ? <span class="faint">none waits</span> : <Num of={duration(of.oldest_wait_ms)} title="of the oldest that waits now" />}
        {of.wait_p50_ms !== null && of.wait_p90_ms !== null && <span class="faint num" title={`from submission to the first start, of the last ${plural(of.started, 'job')}`}>p50 {duration(of.wait_p50_ms).join(' ')}, p90 {duration(of.wait_p90_ms).join(' ')}</span>}
      </span>
    ),
  },
  { key: 'fair', name: 'Fair share', less: true, number: true, sort: (of) => of.share, show: (of) => <Num of={short(of.share)} unit="devices" /> },
  { key: 'usage', name: 'Recent use', less: true, number: true, sort: (of) => of.usage_device_hours, show: (of) => <Num of={short(of.usage_device_hours)} unit="GPU-h" /> },
];

const JOB_COLUMNS: Column<Job>[] = [
  { key: 'id', name: 'Job', sort: (of) => of.id, show: (of) => <Name of={of.id} /> },
  { key: 'state', name: 'State', sort: (of) => of.state, show: (of) => <State of={of.state} /> },
  { key: 'reason', name: 'Why', wide: true, show: (of) => <span class="reason">{of.reason}</span> },
  { key: 'devices', name: 'Devices', number: true, sort: (of) => of.devices, show: (of) => <Num of={String(of.devices)} title={`${of.members} members, from ${of.min_members} to ${of.max_members}`} /> },
  { key: 'queue', name: 'Queue', less: true, sort: (of) => of.queue, show: (of) => <Name of={of.queue} /> },
  { key: 'tenant', name: 'Tenant', less: true, sort: (of) => of.tenant ?? '', show: (of) => (of.tenant ? <Name of={of.tenant} /> : <span class="faint">none</span>) },
  { key: 'since', name: 'Since', less: true, number: true, sort: (of) => -Date.parse(of.since), show: (of) => <Time at={of.since} /> },
];

const ENDED = ['done', 'failed', 'cancelled'];

function JobDrawer({ id }: { id: string }) {
  const job = useGet('/admin/v1/jobs/{id}', { items: { id }, everyMs: EVERY_MS });
  const [asking, setAsking] = useState<'' | 'cancel' | 'suspend' | 'resume'>('');
  return (
    <Drawer kind="job" title={<Name of={id} />}>
      <Loaded from={job} what="the job">
        {(of) => (
          <>
            <p class="card-head"><State of={of.state} /><span class="faint">since <Time at={of.since} /></span></p>
            {may('change_jobs') && manages(of.tenant) && !ENDED.includes(of.state) && (
              <p class="acts">
                {of.state === 'suspended' ? <Button onClick={() => setAsking('resume')}>Resume</Button> : <Button onClick={() => setAsking('suspend')}>Suspend</Button>}
                <Button kind="danger" onClick={() => setAsking('cancel')}>Cancel the job</Button>
              </p>
            )}
            <h3>Why</h3>
            <WhyJob id={id} open />
            <h3>About</h3>
            <dl class="facts">
              <Fact label="Holder"><Holder name={of.name} /></Fact>
              <Fact label="Work">{of.work}</Fact>
              <Fact label="Queue"><a href={hrefOf('queues', { queue: of.queue })}><bdi>{of.queue}</bdi></a></Fact>
              <Fact label="Tenant">{of.tenant ? <Name of={of.tenant} /> : <span class="faint">none</span>}</Fact>
              <Fact label="By"><Name of={of.user} /></Fact>
              <Fact label="Submitted"><Time at={of.submitted} /></Fact>
              <Fact label="Members"><Num of={String(of.members)} unit={`of ${of.min_members} to ${of.max_members}`} /></Fact>
              <Fact label="Devices"><Num of={String(of.devices)} unit={of.devices === 1 ? 'device' : 'devices'} /></Fact>
              <Fact label="Attempt">{of.attempt}{of.restarts > 0 && <span class="faint">, {plural(of.restarts, 'restart')}</span>}</Fact>
              <Fact label="Priority">{of.priority}</Fact>
              <Origin of={of.provenance} parameters={of.parameters} />
            </dl>
            {of.work === 'array' && <Elements array={id.replace(/\.\d+$/, '')} />}
            {of.runs.length > 0 && (
              <>
                <h3>Members</h3>
                <ul class="cards">
                  {of.runs.map((run) => (
                    <li key={run.run}>
                      <p class="card-head"><span>rank {run.rank}</span><State of={run.state} /></p>
                      <p class="faint"><a href={hrefOf('cluster', { open: `node:${run.node}` })}><bdi>{run.node}</bdi></a>{run.devices.length > 0 && <>, {run.kind} {run.devices.join(', ')}</>}</p>
                      {run.why && <p>{run.why}</p>}
                      {run.exit_code !== null && <p>It ended with code {run.exit_code}.</p>}
                    </li>
                  ))}
                </ul>
              </>
            )}
            {may('read_output') && manages(of.tenant) && <Log id={id} ranks={Math.max(of.runs.length, 1)} />}
            {of.file && <details><summary>Job file</summary><pre class="file" tabIndex={0}>{of.file}</pre></details>}
            {asking && <Ask job={of} act={asking} onClose={() => setAsking('')} />}
          </>
        )}
      </Loaded>
    </Drawer>
  );
}

const inWords = (pairs: NamedValue[]) => pairs.map((each) => `${each.name} ${each.value}`).join(', ');

// What it takes to run the job again.
function Origin({ of, parameters }: { of: JobProvenance; parameters: NamedValue[] | null }) {
  return (
    <>
      {parameters && <Fact label="Parameters"><bdi>{inWords(parameters)}</bdi></Fact>}
      <Fact label="Seed">{of.seed}</Fact>
      {of.configuration_sha256 && <Fact label="Configuration"><code title={`Tidegate ${of.version}, the configuration's SHA-256`}>{of.configuration_sha256.slice(0, 12)}</code></Fact>}
      {of.command_sha256 && <Fact label="Command"><code title="SHA-256 of its words">{of.command_sha256.slice(0, 12)}</code></Fact>}
      {of.image && <Fact label="Image"><bdi>{of.image}</bdi></Fact>}
      {of.data.map((each) => <Fact key={each.name} label={`Data set ${each.name}`}><code>{each.value.slice(0, 19)}</code></Fact>)}
      {of.rerun_of && <Fact label="Runs again"><Name of={of.rerun_of} /></Fact>}
    </>
  );
}

// The elements of an array or a sweep side by side.
function Elements({ array }: { array: string }) {
  const found = useGet('/admin/v1/jobs:compare', { query: { jobs: array }, everyMs: EVERY_MS });
  return (
    <>
      <h3>Elements of <bdi>{array}</bdi></h3>
      <Loaded from={found} what="the elements">
        {(of) => {
          const metric = of.metric ?? 'value';
          const reports = of.metric !== null;
          const given = of.jobs.some((each) => each.parameters !== null && each.parameters.length > 0);
          const columns: Column<ComparedJob>[] = [
            { key: 'id', name: 'Element', sort: (each) => Number(each.id.slice(array.length + 1)), show: (each) => <Name of={each.id} /> },
            { key: 'state', name: 'State', sort: (each) => each.state, show: (each) => (each.stopped ? <span title={each.stopped}>stopped early</span> : <State of={each.state} />) },
          ];
          if (given) columns.push({ key: 'parameters', name: 'Parameters', wide: true, sort: (each) => inWords(each.parameters ?? []), show: (each) => <bdi>{inWords(each.parameters ?? [])}</bdi> });
          if (reports) {
            columns.push(
              {
                key: 'value', name: metric, number: true, sort: (each) => each.value ?? Infinity, show: (each) => (each.value === null
                  ? <span class="faint" title={each.unread ?? 'it has reported nothing'}>none</span>
                  : <Num of={each.value.toPrecision(4)} title={`at step ${each.step}`} />),
              },
              { key: 'best', name: 'Best', number: true, sort: (each) => each.best ?? Infinity, show: (each) => (each.best === null ? <span class="faint">none</span> : <Num of={each.best.toPrecision(4)} title={each.id === of.leads ? 'the best of all' : undefined} />) },
            );
          }
          columns.push({ key: 'hours', name: 'Device-hours', number: true, sort: (each) => each.device_hours, show: (each) => <Num of={short(each.device_hours)} /> });
          return (
            <>
              {of.leads && <p class="hint"><bdi>{of.leads}</bdi> leads: the {of.maximize ? 'greatest' : 'least'} {metric}.</p>}
              <Table caption={`Elements of ${array}`} columns={columns} rows={of.jobs} id={(each) => each.id} onOpen={(each) => openDrawer('job', each.id)} />
            </>
          );
        }}
      </Loaded>
    </>
  );
}

const ASKS = {
  cancel: { word: 'Cancel the job', will: 'It ends for good; what it has not saved is lost. A job that is to go on later is suspended instead.' },
  suspend: { word: 'Suspend', will: 'It saves its work and releases its devices, until somebody resumes it.' },
  resume: { word: 'Resume', will: 'It waits for devices and continues from its saved work.' },
};

function Ask({ job, act, onClose }: { job: Job; act: 'cancel' | 'suspend' | 'resume'; onClose: () => void }) {
  const run = async () => {
    if (act === 'cancel') await post('/admin/v1/jobs/{id}:cancel', { id: job.id });
    else if (act === 'suspend') await post('/admin/v1/jobs/{id}:suspend', { id: job.id });
    else await post('/admin/v1/jobs/{id}:resume', { id: job.id });
    refresh('/admin/v1/jobs', '/admin/v1/queues');
  };
  return (
    <Confirm title={<>{ASKS[act].word}: <bdi>{job.id}</bdi></>} word={ASKS[act].word} danger={act === 'cancel'} act={run} onClose={onClose}>
      <p>{ASKS[act].will}</p>
      {act === 'cancel' && job.attempt > 0 && <p>It holds {plural(job.devices, 'device')}.</p>}
    </Confirm>
  );
}

// The output of a member, followed while the end is in view.
function Log({ id, ranks }: { id: string; ranks: number }) {
  const [rank, setRank] = useState(0);
  const [before, setBefore] = useState(false);
  const [log, setLog] = useState<{ text: string; over: boolean; cut: boolean; error?: Error }>({ text: '', over: false, cut: false });
  const [shown, setShown] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (!shown) return undefined;
    let over = false;
    let timer = 0;
    let text = '';
    let from: number | undefined;
    const read = async () => {
      try {
        const part = await get('/admin/v1/jobs/{id}/logs', { id }, { rank, from, attempt: before ? 'before' : undefined });
        if (over) return;
        text = (from === undefined ? part.text : text + part.text).slice(-512 * 1024);
        from = part.next;
        const element = box.current;
        const follows = !element || element.scrollHeight - element.scrollTop - element.clientHeight < 40;
        setLog({ text, over: part.over, cut: part.cut });
        if (follows) requestAnimationFrame(() => box.current?.scrollTo(0, box.current.scrollHeight));
        if (!part.over) timer = window.setTimeout(read, 1500);
      } catch (error) {
        if (over) return;
        // A gateway that is away goes on where it was.
        if (error instanceof ApiError) setLog({ text, over: true, cut: false, error });
        else timer = window.setTimeout(read, 3000);
      }
    };
    void read();
    return () => { over = true; clearTimeout(timer); };
  }, [id, rank, before, shown]);
  if (!shown) return <p><Button onClick={() => setShown(true)}>Show the output</Button> <span class="faint">The read is recorded.</span></p>;
  return (
    <>
      <h3>Output</h3>
      <div class="tools">
        {ranks > 1 && (
          <select aria-label="Rank" value={rank} onChange={(event) => setRank(Number(event.currentTarget.value))}>
            {Array.from({ length: ranks }, (_, at) => <option key={at} value={at}>rank {at}</option>)}
          </select>
        )}
        <Choice label="Attempt" value={before ? 'before' : 'last'} options={[['last', 'This attempt'], ['before', 'The one before']]} onChange={(to) => setBefore(to === 'before')} />
      </div>
      {log.error ? <Problem error={log.error} /> : (
        <>
          {log.cut && <p class="hint">The beginning is not kept.</p>}
          <pre class="log" ref={box} tabIndex={0} aria-label="Output">{log.text || 'No output yet.'}</pre>
          <p class="hint">{log.over ? 'This member has ended.' : 'New lines appear as they are written.'}</p>
        </>
      )}
    </>
  );
}

const EXAMPLE = `name: finetune
work: training
command: [python3, train.py]
members: {min: 1, max: 4}
devices: [{count: 1}]
`;

function Submit({ onClose }: { onClose: () => void }) {
  const [text, setText] = useTyped('jobs.new.text', EXAMPLE);
  const { busy, error, run } = useAct();
  const submit = () => run(async () => {
    const { jobs } = await post('/admin/v1/jobs', {}, { job: text });
    refresh('/admin/v1/jobs', '/admin/v1/queues');
    setQuery({ new: undefined, open: jobs[0] && `job:${jobs[0]}` });
  });
  const details = error instanceof ApiError ? error.details : [];
  return (
    <Dialog title="Submit a job" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <Field label="Job file" hint={<>As for <code>tidegate jobs submit</code>. It starts when its members have devices; until then, “why” says what it waits for.</>}
          problem={error && details.length === 0 ? error.message : undefined}>
          {(id, described) => (
            <textarea id={id} class="mono" rows={14} value={text} spellcheck={false} aria-describedby={described} onInput={(event) => setText(event.currentTarget.value)} />
          )}
        </Field>
        {details.length > 0 && <ul class="problems" role="alert">{details.map((each) => <li key={each.param + each.message}><code>{each.param}</code> {each.message}</li>)}</ul>}
        <footer><Button onClick={onClose}>Close</Button><Button kind="primary" type="submit" disabled={busy}>{busy ? 'Submitting …' : 'Submit'}</Button></footer>
      </form>
    </Dialog>
  );
}
