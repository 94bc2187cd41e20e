// The tree of tenants: those of the configuration, and those made at run time below them, with their members.
import { useState } from 'preact/hooks';
import { ApiError, post } from '../api';
import type { Tenant, TenantMember } from '../api_types';
import { refresh, useAll } from '../data';
import { limitsInWords, visible } from '../format';
import { may } from '../me';
import { hrefOf, query, setQuery, tenant } from '../route';
import { useTyped } from '../typed';
import { Button, Empty, Fact, Loaded, Name, Problem, Section, Select, State, Text, Time } from '../ui/basics';
import { Confirm, Dialog, useAct } from '../ui/dialog';
import { Drawer, openDrawer, opened } from '../ui/drawer';
import { type Column, Table } from '../ui/table';
import { ChangeLimits, LimitFields, anyWrong, leftOver, limitsOf, textsOf } from './tenant_limits';

const within = (path: string, above: string) => above === '' || path === above || path.startsWith(`${above}/`);

export function Tenants() {
  const tenants = useAll('/admin/v1/tenants', { everyMs: 30_000 });
  const open = opened('tenant');
  const all = tenants.value?.data ?? [];
  const rows = all.filter((each) => within(each.path, tenant.value));
  const parents = all.filter((each) => each.may_add);
  const one = all.find((each) => each.path === open);
  const above = (path: string | null | undefined) => all.find((each) => each.path === path);
  return (
    <>
      <div class="tools">
        <span class="space" />
        {parents.length > 0 && may('change_tenants') && <Button kind="primary" onClick={() => setQuery({ new: 'tenant' })}>Make a tenant</Button>}
      </div>
      <Loaded from={tenants} what="the tenants">
        {() => (
          <>
            {parents.length === 0 && <p class="faint">Tenants can be made here below a tenant that has <code>self_service: true</code> in the configuration.</p>}
            {rows.length === 0 ? <Empty title="You may see no tenant" /> : <Table caption="Tenants" columns={COLUMNS} rows={rows} id={(each) => each.path} open={open} onOpen={(each) => openDrawer('tenant', each.path)} sorted="path" />}
          </>
        )}
      </Loaded>
      {one && <TenantDrawer key={open} of={one} above={above(one.parent)} />}
      {query.value.get('new') === 'tenant' && <NewTenant parents={parents} onClose={() => setQuery({ new: undefined })} />}
    </>
  );
}

const COLUMNS: Column<Tenant>[] = [
  { key: 'path', name: 'Tenant', wide: true, sort: (of) => of.path, show: (of) => <Name of={of.path} /> },
  { key: 'state', name: 'State', sort: (of) => of.state, show: (of) => <State of={of.state} /> },
  { key: 'made', name: 'Made', less: true, sort: (of) => of.made_by ?? '', show: (of) => (of.at_run_time ? <span><Time at={of.made} /> by <Name of={of.made_by ?? ''} /></span> : <span class="faint">configuration file</span>) },
  { key: 'models', name: 'Models', less: true, show: (of) => <Name of={of.models.join(', ') || 'none'} /> },
  { key: 'weight', name: 'Weight', number: true, sort: (of) => of.weight, show: (of) => of.weight },
];

function TenantDrawer({ of, above }: { of: Tenant; above: Tenant | undefined }) {
  const [asking, setAsking] = useState<'' | 'remove' | 'disable' | 'enable'>('');
  return (
    <Drawer kind="tenant" title={<Name of={of.path} />}>
      <p><State of={of.state} /></p>
      {of.may_change && (
        <p class="acts">
          <Button onClick={() => setQuery({ change: 'limits' })}>Change the limits</Button>
          {of.state === 'disabled' ? <Button onClick={() => setAsking('enable')}>Enable</Button> : <Button onClick={() => setAsking('disable')}>Disable</Button>}
          <Button kind="danger" onClick={() => setAsking('remove')}>Remove</Button>
        </p>
      )}
      <dl class="facts">
        <Fact label="Stands in">{of.at_run_time ? 'the store: made at run time' : 'the configuration file: changed there, and by a reload'}</Fact>
        {of.made && <Fact label="Made"><Time at={of.made} />{of.made_by && <> by <Name of={of.made_by} /></>}</Fact>}
        <Fact label="Models"><bdi>{of.models.join(', ') || 'none'}</bdi></Fact>
        {of.limits && <Fact label="Limits"><bdi>{visible(limitsInWords(of.limits))}</bdi></Fact>}
        <Fact label="Weight">{of.weight}</Fact>
        <Fact label="Used"><a href={hrefOf('limits', { tenant: of.path })}>Budgets and limits</a></Fact>
      </dl>
      <Members of={of} />
      {of.may_change && query.value.get('change') === 'limits' && <ChangeLimits of={of} above={above} onClose={() => setQuery({ change: undefined })} />}
      {asking && <Act of={of} what={asking} onClose={() => setAsking('')} />}
    </Drawer>
  );
}

function Act({ of, what, onClose }: { of: Tenant; what: 'remove' | 'disable' | 'enable'; onClose: () => void }) {
  const act = async () => {
    if (what === 'remove') await post('/admin/v1/tenants/{path}:remove', { path: of.path }, { keys: 'revoke' });
    if (what === 'disable') await post('/admin/v1/tenants/{path}:disable', { path: of.path });
    if (what === 'enable') await post('/admin/v1/tenants/{path}:enable', { path: of.path });
    refresh('/admin/v1/tenants', '/admin/v1/keys', '/admin/v1/grants');
    if (what === 'remove') setQuery({ open: undefined });
  };
  const word = { remove: 'Remove', disable: 'Disable', enable: 'Enable' }[what];
  return (
    <Confirm title={<>{word} <bdi>{of.path}</bdi></>} word={word} danger={what === 'remove'} act={act} onClose={onClose}>
      {what === 'remove' && <p>Its keys are revoked, its members and grants end. What it used stays in the ledger.</p>}
      {what === 'disable' && <p>Requests of it and of tenants below it are refused until it is enabled again.</p>}
      {what === 'enable' && <p>Its keys work again.</p>}
    </Confirm>
  );
}

function Members({ of }: { of: Tenant }) {
  const members = useAll(may('see_members') ? '/admin/v1/members' : null, { query: { tenant: of.path } });
  const [who, setWho] = useTyped(`tenants.${of.path}.who`, '');
  const [role, setRole] = useTyped(`tenants.${of.path}.role`, 'member');
  const { busy, error, run } = useAct();
  const wrong = error instanceof ApiError ? error : undefined;
  const add = () => run(async () => {
    await post('/admin/v1/members', {}, { tenant: of.path, who, role });
    setWho('');
    refresh('/admin/v1/members');
  });
  const remove = (member: TenantMember) => run(async () => {
    await post('/admin/v1/members:remove', {}, { tenant: member.tenant, who: member.who });
    refresh('/admin/v1/members');
  });
  return (
    <Section title="Members">
      <Loaded from={members} what="the members">
        {(list) => {
          const own = list.data.filter((each) => each.tenant === of.path);
          return own.length === 0
            ? <Empty title="Nobody was added here">People may have a role here by the rules of their provider.</Empty>
            : (
              <ul>
                {own.map((each) => (
                  <li key={each.id}><Name of={each.who} /> <span class="faint">{each.role}</span> {of.may_add && <Button disabled={busy} onClick={() => void remove(each)}>Remove</Button>}</li>
                ))}
              </ul>
            );
        }}
      </Loaded>
      {of.may_add && (
        <form onSubmit={(event) => { event.preventDefault(); void add(); }}>
          <Text label="Who" value={who} onInput={setWho} placeholder="ada@example.com" hint="An address that their provider has verified, or an id such as person:corp:ada." problem={wrong?.of('who')} />
          <Select label="Role" value={role} onChange={setRole} options={[['member', 'member: uses it'], ['lead', 'lead: also hands out keys']]} problem={wrong?.of('role')} />
          <p><Button type="submit" disabled={busy || !who.trim()}>{busy ? 'Adding …' : 'Add'}</Button></p>
        </form>
      )}
      {error && (!wrong || wrong.details.length === 0) && <Problem error={error} />}
    </Section>
  );
}

const NO_LIMITS = textsOf(undefined);

function NewTenant({ parents, onClose }: { parents: Tenant[]; onClose: () => void }) {
  const [parent, setParent] = useTyped('tenants.new.parent', tenant.value);
  const [name, setName] = useTyped('tenants.new.name', '');
  const [models, setModels] = useTyped('tenants.new.models', '');
  const [texts, setTexts] = useTyped('tenants.new.limits', NO_LIMITS);
  const { busy, error, run } = useAct();
  const wrong = error instanceof ApiError ? error : undefined;
  const left = leftOver(error, 'parent', 'name', 'models');
  const chosen = parents.some((each) => each.path === parent) ? parent : parents[0]?.path ?? '';
  const make = () => run(async () => {
    await post('/admin/v1/tenants', {}, {
      parent: chosen, name, limits: limitsOf(texts), ...(models.trim() ? { models: models.split(/[\s,]+/).filter(Boolean) } : {}),
    });
    refresh('/admin/v1/tenants', '/admin/v1/limits');
  }).then((done) => { if (done) onClose(); });
  return (
    <Dialog title="Make a tenant" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void make(); }}>
        <Select label="Below" value={chosen} onChange={setParent} options={parents.map((each) => [each.path, each.path])} problem={wrong?.of('parent')} hint="What it uses counts for this tenant, too." />
        <Text label="Name" value={name} onInput={setName} placeholder="demo" problem={wrong?.of('name')} />
        <Text label="Models" value={models} mono onInput={setModels} placeholder="all of the parent" hint="Names or globs, with commas." problem={wrong?.of('models')} />
        <LimitFields texts={texts} onInput={setTexts} above={parents.find((each) => each.path === chosen)} error={error} />
        {left && <Problem error={left} />}
        <footer>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" disabled={busy || !name || anyWrong(texts)}>{busy ? 'Making …' : 'Make the tenant'}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
