// What people ask for, and what was given: models, limits, budgets, shares of a queue and devices, each until a date.
import { useState } from 'preact/hooks';
import { ApiError, post } from '../api';
import type { Grant, GrantRequest, Posts } from '../api_types';
import { refresh, useAll } from '../data';
import { may, me, scales } from '../me';
import { hrefOf, query, setQuery, tenant } from '../route';
import { useTyped } from '../typed';
import { Button, Choice, Empty, Fact, Loaded, Name, Problem, Section, Select, State, Text, Time } from '../ui/basics';
import { Confirm, Dialog, useAct } from '../ui/dialog';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { Actor } from '../ui/happenings';
import { type Column, Table } from '../ui/table';

const STATES: [string, string][] = [['pending', 'Waiting'], ['', 'All']];

export function Requests() {
  const state = query.value.get('state') === 'all' ? '' : 'pending';
  const requests = useAll('/admin/v1/requests', { query: { state: state || undefined, tenant: tenant.value || undefined }, everyMs: 10_000 });
  const grants = useAll(may('see_limits') ? '/admin/v1/grants' : null, { query: { tenant: tenant.value || undefined }, everyMs: 10_000 });
  const open = opened('request');
  const [ending, setEnding] = useState<Grant | undefined>();
  const [renewing, setRenewing] = useState<Grant | undefined>();
  // A link to a request works after it was decided, too, and a drawer stays open when it is.
  const all = useAll(open && state ? '/admin/v1/requests' : null, { everyMs: 10_000 });
  const asked = [...requests.value?.data ?? [], ...all.value?.data ?? []].find((each) => each.id === open);
  const end = async () => {
    await post('/admin/v1/grants/{id}:end', { id: ending!.id });
    refresh('/admin/v1/grants', '/admin/v1/limits', '/admin/v1/models');
  };
  return (
    <>
      <div class="tools">
        <Choice label="State" value={state} options={STATES} onChange={(to) => setQuery({ state: to ? undefined : 'all' })} />
        <span class="space" />
        {may('ask') && <Button kind="primary" onClick={() => setQuery({ new: 'request' })}>Ask for more</Button>}
      </div>
      <Section title="Requests">
        <Loaded from={requests} what="the requests">
          {(of) => (of.data.length === 0
            ? <Empty title={state ? 'No request waits' : 'Nobody has asked for anything'}>Ask for a model, a higher limit or budget, a larger share of a queue, or devices with the button above.</Empty>
            : <Table caption="Requests" columns={COLUMNS} rows={of.data} id={(each) => each.id} open={open} onOpen={(each) => openDrawer('request', each.id)} sorted="-asked" />)}
        </Loaded>
      </Section>
      {may('see_limits') && (
        <Section title="Grants">
          <Loaded from={grants} what="the grants">
            {(of) => {
              const rows = of.data.filter((each) => each.state !== 'ended' || state === '');
              return rows.length === 0
                ? <Empty title="Nothing is granted now">Approved requests are shown here until their date.</Empty>
                : <Table caption="Grants" columns={[...GRANTS, { key: 'end', name: 'Act', show: (each) => (
                  <span class="acts">
                    {each.may_renew && <Button onClick={() => setRenewing(each)}>Renew</Button>}
                    {each.may_end && <Button kind="danger" onClick={() => setEnding(each)}>End</Button>}
                  </span>
                ) }]} rows={rows} id={(each) => each.id} sorted="until" />;
            }}
          </Loaded>
        </Section>
      )}
      {open && asked && <RequestDrawer key={open} of={asked} />}
      {open && !asked && (all.value ?? requests.value) && <Drawer kind="request" title={<Name of={open} />}><Empty title="No request that you may see has this id">Decided requests are kept for 90 days.</Empty></Drawer>}
      {query.value.get('new') === 'request' && may('ask') && <NewRequest onClose={() => setQuery({ new: undefined, what: undefined })} />}
      {renewing && <Renew of={renewing} onClose={() => setRenewing(undefined)} />}
      {ending && (
        <Confirm title={<>End the grant of <bdi>{ending.tenant}</bdi></>} word="End it" danger act={end} onClose={() => setEnding(undefined)}>
          <p>{ending.in_words}: the tenant loses it at once. Running requests go on.</p>
        </Confirm>
      )}
    </>
  );
}

const COLUMNS: Column<GrantRequest>[] = [
  { key: 'what', name: 'What', wide: true, sort: (of) => of.in_words, show: (of) => <span class="two-lines"><Name of={of.in_words} /><span class="faint"><Name of={of.reason} /></span></span> },
  { key: 'tenant', name: 'For', sort: (of) => of.tenant, show: (of) => <Name of={of.tenant} /> },
  { key: 'by', name: 'Asked by', less: true, sort: (of) => of.asked_by, show: (of) => <Actor id={of.asked_by} /> },
  { key: 'state', name: 'State', sort: (of) => of.state, show: (of) => <State of={of.state} /> },
  { key: 'asked', name: 'Asked', number: true, less: true, sort: (of) => Date.parse(of.asked), show: (of) => <Time at={of.asked} /> },
  { key: 'until', name: 'Until', number: true, sort: (of) => Date.parse(of.until), show: (of) => <Time at={of.until} /> },
];

const GRANTS: Column<Grant>[] = [
  { key: 'what', name: 'What', wide: true, sort: (of) => of.in_words, show: (of) => <span class="two-lines"><Name of={of.in_words} /><span class="faint"><Name of={of.reason || 'no reason given'} /></span>{of.job_queue && of.state === 'in_force' && <span class="faint">jobs use them with <code>queue: {of.job_queue}</code></span>}</span> },
  { key: 'tenant', name: 'Of', sort: (of) => of.tenant, show: (of) => <Name of={of.tenant} /> },
  { key: 'by', name: 'Given by', less: true, sort: (of) => of.approved_by, show: (of) => <Actor id={of.approved_by} /> },
  { key: 'state', name: 'State', sort: (of) => of.state, show: (of) => <State of={of.state} /> },
  { key: 'until', name: 'Until', number: true, sort: (of) => Date.parse(of.until), show: (of) => <Time at={of.ended ?? of.until} /> },
];

function RequestDrawer({ of }: { of: GrantRequest }) {
  const [asking, setAsking] = useState<'' | 'approve' | 'decline' | 'withdraw'>('');
  return (
    <Drawer kind="request" title={<Name of={of.in_words} />}>
      <p><State of={of.state} /></p>
      {(of.may_decide || of.may_withdraw) && (
        <p class="acts">
          {of.may_decide && <Button kind="primary" onClick={() => setAsking('approve')}>Approve</Button>}
          {of.may_decide && <Button kind="danger" onClick={() => setAsking('decline')}>Decline</Button>}
          {of.may_withdraw && <Button onClick={() => setAsking('withdraw')}>Withdraw</Button>}
        </p>
      )}
      {of.state === 'pending' && !of.may_decide && <p class="faint">{of.asked_by === me.value?.actor ? 'Somebody else decides: nobody approves a request of their own.' : 'A lead of a tenant above, an operator or an admin decides.'}</p>}
      <dl class="facts">
        <Fact label="For"><Name of={of.tenant} /></Fact>
        <Fact label="Asked"><Time at={of.asked} /> by <Actor id={of.asked_by} /></Fact>
        <Fact label="What for"><bdi>{of.reason}</bdi></Fact>
        {of.renews && <Fact label="Renews"><code>{of.renews}</code>, which stays as it is until the new date</Fact>}
        {of.from && <Fact label="From"><Time at={of.from} /></Fact>}
        <Fact label="Until"><Time at={of.until} /></Fact>
        {of.state === 'pending' && <Fact label="Expires"><Time at={of.expires} /></Fact>}
        {of.decided && <Fact label="Decided"><Time at={of.decided} />{of.decided_by && <> by <Actor id={of.decided_by} /></>}</Fact>}
        {of.answer && <Fact label="Answer"><bdi>{of.answer}</bdi></Fact>}
        <Fact label="Limits now"><a href={hrefOf('limits', { tenant: of.tenant })}>Budgets and limits</a></Fact>
      </dl>
      <Comments of={of} />
      {asking && <Decide of={of} what={asking} onClose={() => setAsking('')} />}
    </Drawer>
  );
}

function Comments({ of }: { of: GrantRequest }) {
  const [text, setText] = useTyped(`requests.${of.id}.comment`, '');
  const { busy, error, run } = useAct();
  const say = () => run(async () => {
    await post('/admin/v1/requests/{id}/comments', { id: of.id }, { text });
    refresh('/admin/v1/requests');
  }).then((done) => { if (done) setText(''); });
  return (
    <>
      <h3>Comments</h3>
      {of.comments.length === 0 && <p class="faint">{of.may_comment ? 'There are no comments yet.' : 'There are none.'}</p>}
      <ol class="comments">
        {of.comments.map((each) => (
          <li key={`${each.at} ${each.by}`}>
            <span class="faint"><Name of={each.by} />, <Time at={each.at} /></span>
            <p><bdi>{each.text}</bdi></p>
          </li>
        ))}
      </ol>
      {of.may_comment && (
        <form class="say" onSubmit={(event) => { event.preventDefault(); void say(); }}>
          <Text label="Comment" value={text} onInput={setText} placeholder="would two be enough?" />
          {error && <Problem error={error} />}
          <Button type="submit" disabled={busy || text.trim() === ''}>{busy ? 'Saying …' : 'Say it'}</Button>
        </form>
      )}
    </>
  );
}

const LONGER: [string, string][] = [['1', 'a day longer'], ['7', '7 days longer'], ['30', '30 days longer'], ['90', '90 days longer']];

// Who may end it may let it last longer, unless they asked for it; others ask.
function Renew({ of, onClose }: { of: Grant; onClose: () => void }) {
  const [days, setDays] = useTyped(`grants.${of.id}.renew.days`, '7');
  const [reason, setReason] = useTyped(`grants.${of.id}.renew.reason`, '');
  const { busy, error, run } = useAct();
  const gives = of.may_end && of.asked_by !== me.value?.actor;
  const until = new Date(Date.parse(of.until) + Number(days) * 86_400_000).toISOString().replace(/\.\d+/, '');
  const renew = () => run(async () => {
    if (gives) await post('/admin/v1/grants/{id}:change', { id: of.id }, { until, ...(reason ? { reason } : {}) });
    else await post('/admin/v1/requests', {}, { tenant: of.tenant, renews: of.id, until, reason });
    refresh('/admin/v1/requests', '/admin/v1/grants');
  }).then((done) => { if (done) onClose(); });
  return (
    <Dialog title="Renew a grant" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void renew(); }}>
        <p><bdi>{of.in_words}</bdi> of <Name of={of.tenant} />, until <Time at={of.until} />.</p>
        <Select label="For" value={days} onChange={setDays} options={LONGER} />
        <Text label="What for" value={reason} onInput={setReason} hint={gives ? 'For people and the ledger.' : 'The person who decides reads it.'} />
        {error && <Problem error={error} />}
        <footer>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" disabled={busy || (!gives && reason.trim() === '')}>{gives ? 'Renew' : 'Ask for it'}</Button>
        </footer>
      </form>
    </Dialog>
  );
}

const WORDS = { approve: 'Approve', decline: 'Decline', withdraw: 'Withdraw' };

function Decide({ of, what, onClose }: { of: GrantRequest; what: 'approve' | 'decline' | 'withdraw'; onClose: () => void }) {
  const [answer, setAnswer] = useTyped(`requests.${of.id}.${what}.answer`, '');
  const [until, setUntil] = useTyped(`requests.${of.id}.${what}.until`, '');
  const act = async () => {
    if (what === 'approve') await post('/admin/v1/requests/{id}:approve', { id: of.id }, { ...(until ? { until } : {}), ...(answer ? { answer } : {}) });
    if (what === 'decline') await post('/admin/v1/requests/{id}:decline', { id: of.id }, { answer });
    if (what === 'withdraw') await post('/admin/v1/requests/{id}:withdraw', { id: of.id });
    refresh('/admin/v1/requests', '/admin/v1/grants', '/admin/v1/limits');
  };
  return (
    <Confirm title={<>{WORDS[what]}: <bdi>{of.in_words}</bdi></>} word={WORDS[what]} danger={what !== 'approve'} act={act} onClose={onClose}>
      {what === 'approve' && <p>{of.renews ? <><bdi>{of.tenant}</bdi> keeps it until the new date.</> : <><bdi>{of.tenant}</bdi> has it {of.from ? 'from then on' : 'at once'}, until its date, without a reload.</>}</p>}
      {what === 'approve' && <Text label="Until" value={until} onInput={setUntil} placeholder="as asked for" hint="An earlier end, such as 3d or 2027-01-31; empty: as asked for." />}
      {what !== 'withdraw' && <Text label="Answer" value={answer} onInput={setAnswer} hint={what === 'decline' ? 'The reason, as the requester sees it.' : 'A message to the requester.'} />}
    </Confirm>
  );
}

const TIMES: [string, string][] = [['1d', 'a day'], ['7d', '7 days'], ['30d', '30 days'], ['90d', '90 days']];

function NewRequest({ onClose }: { onClose: () => void }) {
  const paths = me.value?.tenants ?? [];
  const [of, setOf] = useTyped('requests.new.of', tenant.value);
  const [kind, setKind] = useTyped('requests.new.kind', query.value.get('what') ?? 'model');
  const [models, setModels] = useTyped('requests.new.models', '');
  const [amount, setAmount] = useTyped('requests.new.amount', '');
  const [devices, setDevices] = useTyped('requests.new.devices', '');
  const [from, setFrom] = useTyped('requests.new.from', '');
  const [until, setUntil] = useTyped('requests.new.until', '7d');
  const [reason, setReason] = useTyped('requests.new.reason', '');
  const { busy, error, run } = useAct();
  const chosen = of || paths[0] || '';
  const wrong = error instanceof ApiError ? error : undefined;
  const number = Number(amount);
  const wants = (): Partial<Posts['/admin/v1/requests']['body']> => {
    if (kind === 'model') return { models: models.split(/[\s,]+/).filter(Boolean) };
    if (kind === 'devices') return { devices: { kind: devices.trim(), count: number } };
    if (kind === 'weight') return { weight: number };
    if (kind === 'budget') return { limits: { budget: { usd: number, period: 'month' } } };
    return { limits: { [kind]: number } };
  };
  const ask = () => run(async () => {
    await post('/admin/v1/requests', {}, { tenant: chosen, until, reason, ...(from.trim() ? { from: from.trim() } : {}), ...wants() });
    refresh('/admin/v1/requests', '/admin/v1/grants');
  }).then((done) => { if (done) onClose(); });
  const ready = reason.trim() !== '' && (kind === 'model' ? models.trim() !== '' : number > 0 && (kind !== 'devices' || devices.trim() !== ''));
  return (
    <Dialog title="Ask for more" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void ask(); }}>
        <Select label="For the tenant" value={chosen} onChange={setOf} options={paths.map((path) => [path, path])} problem={wrong?.of('tenant')} />
        <Select label="What" value={kind} onChange={setKind}
          options={[['model', 'a model'], ['budget', 'a higher budget a month'], ['requests_per_minute', 'more requests a minute'], ['tokens_per_minute', 'more tokens a minute'], ['concurrency', 'more requests at once'], ['weight', 'a larger share of the queues'], ...(scales() ? [['devices', 'devices for jobs'] as [string, string]] : [])]} />
        {kind === 'devices' && <Text label="Kind of device" value={devices} mono onInput={setDevices} placeholder="h100" hint="As the cluster names it." />}
        {kind === 'model'
          ? <Text label="Models" value={models} mono onInput={setModels} placeholder="chat-large" hint="By name, with commas." problem={wrong?.of('models')} />
          : <Text label={kind === 'budget' ? 'The new budget' : kind === 'devices' ? 'How many' : 'The new amount'} value={amount} onInput={setAmount} hint={kind === 'budget' ? 'In US dollars a month, in all.' : kind === 'devices' ? 'Whole devices; nothing else starts on them in that time.' : 'In all, not beside what it has.'} problem={wrong?.of('limits') ?? wrong?.of('weight') ?? wrong?.of('devices')} />}
        <Text label="From" value={from} onInput={setFrom} placeholder="at once" hint="Such as 2h or 2027-01-31T08:00:00Z." problem={wrong?.of('from')} />
        <Select label="Until" value={until} onChange={setUntil} options={TIMES} problem={wrong?.of('until')} hint="From now. It ends by itself then." />
        <Text label="What for" value={reason} onInput={setReason} placeholder="the demo on Friday" hint="The person who decides reads it." problem={wrong?.of('reason')} />
        {error && (!wrong || wrong.details.length === 0) && <Problem error={error} />}
        <footer>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" disabled={busy || !ready}>{busy ? 'Asking …' : 'Ask'}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
