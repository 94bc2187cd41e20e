// Who is signed in to the console: one's own sessions, and for those who may see people, everybody's.
import { useState } from 'preact/hooks';
import { post } from '../api';
import type { Session } from '../api_types';
import { refresh, useAll } from '../data';
import { listed } from '../format';
import { may, me } from '../me';
import { Button, Empty, Loaded, Name, Time } from '../ui/basics';
import { Confirm } from '../ui/dialog';
import { type Column, Table } from '../ui/table';

export function Sessions() {
  const sessions = useAll('/admin/v1/sessions', { everyMs: 10_000 });
  const [ending, setEnding] = useState<Session | undefined>();
  const columns: Column<Session>[] = [
    { key: 'name', name: 'Who', wide: true, sort: (of) => of.name, show: (of) => <span class="two-lines"><span><Name of={of.name || of.actor} />{of.current && <b> this one</b>}</span><span class="faint"><Name of={of.email || of.actor} /></span></span> },
    { key: 'roles', name: 'Roles', show: (of) => listed(of.roles.map((each) => (each.tenant ? `${each.role} of ${each.tenant}` : each.role))) || <span class="faint">none</span> },
    { key: 'provider', name: 'By', less: true, sort: (of) => of.provider, show: (of) => <Name of={of.provider} /> },
    { key: 'address', name: 'From', less: true, show: (of) => <span class="two-lines"><span>{of.address}</span><span class="faint">{of.command_line ? <>command line: <Name of={of.client} /></> : <Name of={of.client} />}</span></span> },
    { key: 'seen', name: 'Last seen', number: true, sort: (of) => Date.parse(of.seen), show: (of) => <Time at={of.seen} /> },
    { key: 'ends', name: 'Ends', number: true, sort: (of) => Date.parse(of.ends), show: (of) => <Time at={of.ends} /> },
    { key: 'end', name: 'Act', show: (of) => !of.current && (may('end_sessions') || of.actor === me.value!.actor) && <Button kind="danger" onClick={() => setEnding(of)}>End</Button> },
  ];
  const end = async () => {
    await post('/admin/v1/sessions/{id}:end', { id: ending!.id });
    refresh('/admin/v1/sessions');
  };
  return (
    <Loaded from={sessions} what="the sessions">
      {(of) => (
        <>
          {of.data.length === 0 ? <Empty title="Nobody is signed in">Keys of the admin API have no sessions.</Empty> : <Table caption="Sessions" columns={columns} rows={of.data} id={(each) => each.id} sorted="-seen" />}
          {ending && (
            <Confirm title={<>End the session of <bdi>{ending.name || ending.actor}</bdi></>} word="End it" danger act={end} onClose={() => setEnding(undefined)}>
              <p>{ending.command_line ? 'The command line' : 'The browser'} at {ending.address} is signed out at once. Who has the role can sign in again.</p>
            </Confirm>
          )}
        </>
      )}
    </Loaded>
  );
}
