import { useMemo, useState } from 'preact/hooks';
import { ApiError, post } from '../api';
import type { Key, Posts } from '../api_types';
import { refresh, useAll, useGet } from '../data';
import { fullTime, limitsInWords, visible } from '../format';
import { manages, may, me } from '../me';
import { hrefOf, query, setQuery, tenant } from '../route';
import { useTyped } from '../typed';
import { Button, Choice, Code, Empty, Fact, Loaded, Name, Problem, Select, State, Text, Time } from '../ui/basics';
import { Confirm, Dialog, useAct } from '../ui/dialog';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { type Column, Table } from '../ui/table';

const STATES: [string, string][] = [['active', 'Active'], ['expired', 'Expired'], ['revoked', 'Revoked'], ['replaced', 'Replaced'], ['', 'All']];

export function Keys() {
  const asked = query.value.get('state') ?? 'active';
  const state = asked === 'all' ? '' : asked;
  const keys = useAll('/admin/v1/keys', { query: { state: state || undefined, tenant: tenant.value || undefined }, everyMs: 60_000 });
  const filter = query.value.get('find') ?? '';
  const open = opened('key');
  const changes = may('change_keys') || may('change_own_keys');
  const rows = useMemo(() => {
    const wanted = filter.toLowerCase();
    return keys.value?.data.filter((key) => !wanted || [key.id, key.name, key.tenant, key.role].some((text) => text?.toLowerCase().includes(wanted)));
  }, [keys.value, filter]);
  const key = keys.value?.data.find((each) => each.id === open);
  return (
    <>
      <div class="tools">
        <Choice label="State" value={state} options={STATES} onChange={(to) => setQuery({ state: to === 'active' ? undefined : to || 'all' })} />
        <input type="search" class="filter" aria-label="Filter keys" placeholder="Name, id or tenant" value={filter} onInput={(event) => setQuery({ find: event.currentTarget.value }, true)} />
        <span class="space" />
        {changes && <Button kind="primary" onClick={() => setQuery({ new: 'key' })}>Make a key</Button>}
      </div>
      <Loaded from={keys} what="the keys">
        {() => (rows!.length === 0
          ? <Empty title={filter ? `No key has “${filter}” in its name, id or tenant` : state === 'active' ? 'No key works here yet' : 'No such key'}>{changes && !filter && 'An application needs a key to call a model. Make one with the button above.'}</Empty>
          : <Table caption="Keys" columns={COLUMNS} rows={rows!} id={(each) => each.id} open={open} onOpen={(each) => openDrawer('key', each.id)} sorted="-created" />)}
      </Loaded>
      {open && <KeyDrawer key={open} id={open} known={key} />}
      {query.value.get('new') === 'key' && changes && <NewKey onClose={() => setQuery({ new: undefined })} />}
    </>
  );
}

const COLUMNS: Column<Key>[] = [
  { key: 'name', name: 'Key', wide: true, sort: (key) => key.name || key.id, show: (key) => <span class="two-lines"><Name of={key.name || 'no name'} /><span class="faint mono">{key.id}</span></span> },
  { key: 'tenant', name: 'For', sort: (key) => key.tenant ?? key.role ?? '', show: (key) => (key.tenant ? <Name of={key.tenant} /> : <span>admin API, {key.role}</span>) },
  { key: 'models', name: 'Models', less: true, show: (key) => (key.models?.length ? <Name of={key.models.join(', ')} /> : <span class="faint">{key.tenant ? 'all of the tenant' : '–'}</span>) },
  { key: 'state', name: 'State', sort: (key) => key.state, show: (key) => <State of={key.state} /> },
  { key: 'created', name: 'Made', less: true, number: true, sort: (key) => Date.parse(key.created), show: (key) => <Time at={key.created} /> },
  { key: 'expires', name: 'Expires', number: true, sort: (key) => (key.expires ? Date.parse(key.expires) : Infinity), show: (key) => <Time at={key.expires} /> },
];

function KeyDrawer({ id, known }: { id: string; known: Key | undefined }) {
  const asked = useGet('/admin/v1/keys/{id}', { items: { id } });
  const [asking, setAsking] = useState<'' | 'rotate' | 'revoke'>('');
  const [secret, setSecret] = useState('');
  const from = asked.value || asked.error ? asked : known ? { value: known, at: asked.at } : asked;
  return (
    <Drawer kind="key" title={<Name of={asked.value?.name || known?.name || id} />}>
      {secret && <Secret text={secret} />}
      <Loaded from={from} what="the key">
        {(key) => {
          const admin = !key.tenant;
          const mine = key.owner === me.value?.actor;
          const changes = admin ? may('change_admin_keys') : (may('change_keys') && manages(key.tenant)) || (may('change_own_keys') && mine);
          return (
            <>
              <p><State of={key.state} /></p>
              {changes && key.state === 'active' && (
                <p class="acts">
                  <Button onClick={() => setAsking('rotate')}>Rotate</Button>
                  <Button kind="danger" onClick={() => setAsking('revoke')}>Revoke</Button>
                </p>
              )}
              <dl class="facts">
                <Fact label="Id"><code>{key.id}</code></Fact>
                {key.tenant ? <Fact label="Tenant"><Name of={key.tenant} /></Fact> : <Fact label="Role">{key.role}{key.rights?.length ? `, ${key.rights.join(', ')}` : ''}</Fact>}
                {key.tenant && <Fact label="Models">{key.models?.length ? <bdi>{key.models.join(', ')}</bdi> : <span class="faint">all of the tenant</span>}</Fact>}
                {key.tenant && <Fact label="Calls">{key.endpoints?.length ? key.endpoints.join(', ') : <span class="faint">all of the tenant</span>}</Fact>}
                <Fact label="Made"><Time at={key.created} />{key.created_by && <> by <Name of={key.created_by} /></>}</Fact>
                <Fact label="Expires"><Time at={key.expires} /></Fact>
                {key.priority && <Fact label="Priority">{key.priority}</Fact>}
                {key.limits && <Fact label="Limits"><bdi>{visible(limitsInWords(key.limits))}</bdi></Fact>}
                {key.rotated_from && <Fact label="Replaces"><a href={hrefOf('keys', { open: `key:${key.rotated_from}`, state: 'all' })}>{key.rotated_from}</a></Fact>}
                {key.replaced_by && <Fact label="Replaced by"><a href={hrefOf('keys', { open: `key:${key.replaced_by}` })}>{key.replaced_by}</a></Fact>}
                {key.overlap_until && <Fact label="Works until"><Time at={key.overlap_until} /></Fact>}
                {key.revoked_at && <Fact label="Revoked"><Time at={key.revoked_at} /></Fact>}
              </dl>
              {key.tenant && may('see_usage') && <KeyUsage id={key.id} />}
              {asking === 'revoke' && <Revoke of={key} onClose={() => setAsking('')} />}
              {asking === 'rotate' && <Rotate of={key} onClose={() => setAsking('')} onSecret={setSecret} />}
            </>
          );
        }}
      </Loaded>
    </Drawer>
  );
}

function KeyUsage({ id }: { id: string }) {
  return <p><a href={hrefOf('usage', { by: 'key', range: '30d', open: `row:${id}` })}>Usage by key</a></p>;
}

function Secret({ text }: { text: string }) {
  return (
    <div class="secret" role="status">
      <p><b>This is the key. It is shown now and never again.</b> Copy it to where it is used; the gateway keeps only its hash.</p>
      <Code text={text} label="The key" />
    </div>
  );
}

function Revoke({ of, onClose }: { of: Key; onClose: () => void }) {
  const [reason, setReason] = useTyped(`keys.${of.id}.revoke.reason`, '');
  const act = async () => {
    await post('/admin/v1/keys/{id}:revoke', { id: of.id }, reason ? { reason } : {});
    refresh('/admin/v1/keys');
  };
  return (
    <Confirm title={<>Revoke <bdi>{of.name || of.id}</bdi></>} word="Revoke" danger act={act} onClose={onClose}>
      <p>Whoever uses this key is refused from now on, and its running requests end. This cannot be undone; a new key can be made.</p>
      <Text label="Reason" value={reason} onInput={setReason} hint="For the ledger." />
    </Confirm>
  );
}

function Rotate({ of, onClose, onSecret }: { of: Key; onClose: () => void; onSecret: (secret: string) => void }) {
  const [overlap, setOverlap] = useState('24h');
  const act = async () => {
    const made = await post('/admin/v1/keys/{id}:rotate', { id: of.id }, overlap ? { overlap } : {});
    onSecret(made.secret);
    refresh('/admin/v1/keys');
  };
  return (
    <Confirm title={<>Rotate <bdi>{of.name || of.id}</bdi></>} word="Rotate" act={act} onClose={onClose}>
      <p>A new key like this one is made, and shown once. The old one keeps working for the overlap, so that applications can change over.</p>
      <Select label="The old key works for another" value={overlap} onChange={setOverlap} options={[['', '0 s: it stops now'], ['1h', '1 hour'], ['24h', '24 hours'], ['7d', '7 days']]} />
    </Confirm>
  );
}

const LIFETIMES: [string, string][] = [['7d', '7 days'], ['30d', '30 days'], ['90d', '90 days'], ['365d', 'a year'], ['', 'no end']];

function NewKey({ onClose }: { onClose: () => void }) {
  const tenants = useAll(may('see_tenants') ? '/admin/v1/tenants' : null).value?.data ?? [];
  const paths = may('see_tenants') ? tenants.map((each) => each.path) : me.value?.tenants ?? [];
  const [kind, setKind] = useTyped('keys.new.kind', 'tenant');
  const [of, setOf] = useTyped('keys.new.of', tenant.value);
  const [name, setName] = useTyped('keys.new.name', '');
  const [role, setRole] = useTyped('keys.new.role', 'viewer');
  const [models, setModels] = useTyped('keys.new.models', '');
  const [expires, setExpires] = useTyped('keys.new.expires', '90d');
  const [budget, setBudget] = useTyped('keys.new.budget', '');
  const [secret, setSecret] = useState('');
  const { busy, error, run } = useAct();
  const chosen = of || paths[0] || '';
  const wrong = error instanceof ApiError ? error : undefined;
  const wrongBudget = budget !== '' && !(Number(budget) > 0) ? 'A number of US dollars, such as 20' : undefined;
  const make = () => run(async () => {
    const body: Posts['/admin/v1/keys']['body'] = {
      ...(kind === 'tenant' ? { tenant: chosen } : { role }),
      ...(name ? { name } : {}),
      ...(expires ? { expires } : {}),
      ...(kind === 'tenant' && models.trim() ? { models: models.split(/[\s,]+/).filter(Boolean) } : {}),
      ...(kind === 'tenant' && budget ? { limits: { budget: { usd: Number(budget), period: 'month' } } } : {}),
    };
    const made = await post('/admin/v1/keys', {}, body);
    setSecret(made.secret);
    refresh('/admin/v1/keys');
  });
  if (secret) {
    return (
      <Dialog title="The key is made" stays onClose={onClose}>
        <Secret text={secret} />
        <footer><a class="button" href={hrefOf('start')}>How to use it</a><Button kind="primary" onClick={onClose}>I have copied it</Button></footer>
      </Dialog>
    );
  }
  return (
    <Dialog title="Make a key" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void make(); }}>
        {may('change_admin_keys') && <Choice label="Kind" value={kind} options={[['tenant', 'For an application'], ['admin', 'For the admin API']]} onChange={setKind} />}
        {kind === 'tenant'
          ? <Select label="Tenant" value={chosen} onChange={setOf} options={paths.map((path) => [path, path])} problem={wrong?.of('tenant')} hint="Its limits and budget hold for the key, too." />
          : <Select label="Role" value={role} onChange={setRole} options={[['viewer', 'viewer: sees'], ['operator', 'operator: sees and acts'], ['admin', 'admin: everything']]} problem={wrong?.of('role')} />}
        <Text label="Name" value={name} onInput={setName} placeholder="search-frontend" hint="For people: where the key is used." problem={wrong?.of('name')} />
        <Select label="Works for" value={expires} onChange={setExpires} options={LIFETIMES} problem={wrong?.of('expires')}
          hint={expires ? `Until ${fullTime(Date.now() + Number(expires.slice(0, -1)) * 86_400_000)}` : 'Until somebody revokes it.'} />
        {kind === 'tenant' && (
          <>
            <Text label="Models" value={models} mono onInput={setModels} placeholder="all of the tenant" hint="Names or globs, with commas; empty: all that the tenant may use." problem={wrong?.of('models')} />
            <Text label="Budget a month" value={budget} onInput={setBudget} placeholder="the tenant's" hint="In US dollars; empty: only the tenant's budget." problem={wrongBudget ?? wrong?.of('limits')} />
          </>
        )}
        {error && (!wrong || wrong.details.length === 0) && <Problem error={error} />}
        <footer>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" disabled={busy || wrongBudget !== undefined}>{busy ? 'Making …' : 'Make the key'}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
