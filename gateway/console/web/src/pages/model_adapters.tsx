// The LoRA adapters of a model that were loaded at run time: where each is, and loading and unloading them.
import { useState } from 'preact/hooks';
import { post, remove } from '../api';
import type { AdapterPlace, RunTimeAdapter } from '../api_types';
import { refresh, useAll } from '../data';
import { plural, visible } from '../format';
import { may } from '../me';
import { hrefOf } from '../route';
import { useTyped } from '../typed';
import { Button, Empty, Loaded, Name, Problem, State, Text, Time } from '../ui/basics';
import { Confirm, Dialog, useAct } from '../ui/dialog';

const EVERY_MS = 5000;
const MOST_NAMED = 6; // replicas of one state

export function AdaptersPart({ base }: { base: string }) {
  const adapters = useAll('/admin/v1/models/{base}/adapters', { items: { base }, everyMs: EVERY_MS });
  const [loading, setLoading] = useState(false);
  return (
    <>
      <h3>Adapters</h3>
      <Loaded from={adapters} what="the adapters">
        {({ data }) => (data.length === 0
          ? (
            <Empty title="No adapter is loaded">
              {may('change_adapters')
                ? <>Load one from a folder that the engines can read. Callers then use it as a model of its own.</>
                : <>Operators load adapters here, or with <code>tidegate adapters load</code>.</>}
            </Empty>
          )
          : <ul class="cards">{data.map((each) => <AdapterCard key={each.name} of={each} />)}</ul>)}
      </Loaded>
      {may('change_adapters') && <p class="acts"><Button onClick={() => setLoading(true)}>Load an adapter</Button></p>}
      {loading && <LoadAdapter base={base} onClose={() => setLoading(false)} />}
    </>
  );
}

function AdapterCard({ of }: { of: RunTimeAdapter }) {
  const [unloading, setUnloading] = useState(false);
  const used = of.replicas.map((place) => place.used ?? '').reduce((one, other) => (one > other ? one : other), '');
  const act = async () => {
    await remove('/admin/v1/models/{base}/adapters/{name}', { base: of.base, name: of.name });
    refresh('/admin/v1/models');
  };
  return (
    <li>
      <p class="card-head">
        {of.model ? <a href={hrefOf('models', { open: `model:${of.model}` })}><bdi>{visible(of.model)}</bdi></a> : <Name of={of.name} />}
        <State of={of.state} />
      </p>
      <p><code>{visible(of.source)}</code></p>
      <p class="faint">loaded by <Name of={of.by} /> <Time at={of.since} />{' · '}{used ? <>last used <Time at={used} /></> : 'not used yet'}</p>
      {!of.model && <p class="look">Callers do not reach it: a configured model has its name.</p>}
      {of.model && of.model !== of.name && <p class="faint">The engines call it <Name of={of.name} />.</p>}
      <Places of={of.replicas} />
      {may('change_adapters') && of.state !== 'leaving' && <p class="acts"><Button onClick={() => setUnloading(true)}>Unload</Button></p>}
      {unloading && (
        <Confirm title={<>Unload <bdi>{visible(of.name)}</bdi> of <bdi>{of.base}</bdi></>} word="Unload" danger act={act} onClose={() => setUnloading(false)}>
          <p>Requests for it are refused at once. The engines drop it; its files stay where they are.</p>
        </Confirm>
      )}
    </li>
  );
}

const PLACES: [state: string, words: string][] = [['loaded', 'At'], ['loading', 'Is being loaded at'], ['absent', 'Not at']];

// The replicas by what each has of it. An engine that refuses says why.
function Places({ of }: { of: AdapterPlace[] }) {
  if (of.length === 0) return <p class="faint">No replica is there to load it.</p>;
  return (
    <>
      {PLACES.map(([state, words]) => {
        const there = of.filter((place) => place.state === state);
        if (there.length === 0) return null;
        const more = there.length - MOST_NAMED;
        return (
          <p key={state}>
            <span class="faint">{words}</span>{' '}
            {there.slice(0, MOST_NAMED).map((place, at) => <span key={place.replica}>{at > 0 && ', '}<Name of={place.replica} mono /></span>)}
            {more > 0 && <span class="faint" title={there.slice(MOST_NAMED).map((place) => visible(place.replica)).join(', ')}> and {plural(more, 'other')}</span>}
          </p>
        );
      })}
      {of.filter((place) => place.state === 'refused').map((place) => (
        <p key={place.replica} class="look"><Name of={place.replica} mono /> refuses it{place.why && <>: {place.why}</>}</p>
      ))}
    </>
  );
}

function LoadAdapter({ base, onClose }: { base: string; onClose: () => void }) {
  const [name, setName] = useTyped(`adapters.${base}.name`, '');
  const [source, setSource] = useTyped(`adapters.${base}.source`, '');
  const { busy, error, run } = useAct();
  // The API names the field in front of its words.
  const of = (field: string) => (error?.message.startsWith(`${field}: `) ? error.message.slice(field.length + 2) : undefined);
  const load = () => run(async () => {
    await post('/admin/v1/models/{base}/adapters', { base }, { name: name.trim(), source: source.trim() });
    refresh('/admin/v1/models');
  }).then((done) => { if (done) onClose(); });
  return (
    <Dialog title={<>Load an adapter at <bdi>{base}</bdi></>} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void load(); }}>
        <p>The engines load it now. It is loaded again at replicas that start later.</p>
        <Text label="Name" value={name} onInput={setName} placeholder="sql-helper" problem={of('name')} hint="Callers use it as the name of a model." />
        <Text label="Source" value={source} mono onInput={setSource} placeholder="/adapters/sql" problem={of('source')}
          hint={<>Its folder on the engines' machines, or its name at the hub, in <code>adapters.sources</code> of the model.</>} />
        {error && !of('name') && !of('source') && <Problem error={error} />}
        <footer>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" disabled={busy || !name.trim() || !source.trim()}>{busy ? 'Loading …' : 'Load'}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
