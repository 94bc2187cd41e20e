// A rollout of a new version: its steps, both versions side by side, and the orders that operators may give it.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { post } from '../api';
import type { Rollout, Scaling, VersionFigures } from '../api_types';
import { refresh } from '../data';
import { duration, percent, short, visible, whole } from '../format';
import { may } from '../me';
import { useTyped } from '../typed';
import { Button, Name, Num, State, Text, Time } from '../ui/basics';
import { Confirm } from '../ui/dialog';

const shareOf = (of: number) => `${Number(of.toFixed(2))}\u00a0%`;
const oldName = (of: Rollout) => (of.from ? visible(of.from) : 'the old version');
const isOpen = (of: Rollout) => of.percent === of.steps[of.step];

// Beside the model's name.
export function RolloutNote({ of }: { of: Rollout }) {
  const version = <bdi>{visible(of.version)}</bdi>;
  if (of.state === 'running') return <span class="faint">rollout {version}, {shareOf(of.percent)}</span>;
  return <span class={of.state === 'rolled_back' ? 'look' : 'faint'}>{version} {of.state.replace('_', ' ')}</span>;
}

export function RolloutPart({ of, scaling }: { of: Rollout; scaling?: Scaling }) {
  const running = of.state === 'running';
  return (
    <>
      <h3>Rollout of version <bdi>{visible(of.version)}</bdi></h3>
      <p class="states">
        <State of={of.state} />
        <span class="faint">
          {running && `step ${of.step + 1} of ${of.steps.length} ${isOpen(of) ? 'began ' : 'begins when its replicas are ready; decided '}`}
          <Time at={of.since} />{of.by !== 'control' && <> by <Name of={of.by} /></>}
        </span>
      </p>
      <Steps of={of} />
      <div class="why">
        <p>{of.reason}</p>
        {of.waits_for && of.waits_for !== of.reason && <p>Next: {of.waits_for}</p>}
      </div>
      <Versions of={of} scaling={scaling} />
      <Orders of={of} />
      {of.state === 'promoted' && (
        <p class="lead">To end the rollout, move version <bdi>{visible(of.version)}</bdi> and its replica to <code>version</code> and <code>replica</code> of the policy, and remove <code>rollout</code>. Running replicas stay.</p>
      )}
    </>
  );
}

// What has become of a step, with its shape.
function outcomeOf(of: Rollout, at: number): [shape: string, word: string] {
  if (at < of.step) return ['✓', 'done'];
  if (at > of.step) return of.state === 'running' ? ['○', 'to come'] : ['–', 'left out'];
  if (of.state === 'running') return isOpen(of) ? ['●', 'now'] : ['◔', 'next'];
  return of.state === 'promoted' ? ['✓', 'done'] : ['✕', 'ended'];
}

function Steps({ of }: { of: Rollout }) {
  return (
    <ol class="steps" aria-label="Steps, as shares of the requests">
      {of.steps.map((step, at) => {
        const [shape, word] = outcomeOf(of, at);
        return (
          <li key={at} class={word.replace(' ', '-')} aria-current={word === 'now' || word === 'next' ? 'step' : undefined}>
            <span class="shape" aria-hidden="true">{shape}</span> {shareOf(step)} <span class="faint">{word}</span>
          </li>
        );
      })}
    </ol>
  );
}

function Versions({ of, scaling }: { of: Rollout; scaling?: Scaling }) {
  const [before, after] = wantedOf(of, scaling?.wanted);
  const rows: [label: ComponentChildren, show: (figures: VersionFigures, fresh: boolean) => ComponentChildren][] = [
    ['Requests', (_, fresh) => shareOf(fresh ? of.percent : 100 - of.percent)],
    ['Replicas ready', ({ ready }, fresh) => {
      const wanted = fresh ? after : before;
      return !wanted ? ready : <>{ready} <span class="unit">of {wanted}</span></>;
    }],
    ['Tries', ({ tries }) => <span title={whole(tries)}>{short(tries)}</span>],
    ['Failures', ({ tries, failures }) => (tries === 0 ? <None /> : <span title={`${whole(failures)} of ${whole(tries)} tries`}>{percent(failures / tries)}</span>)],
    [<span title="Geometric mean">First token</span>, ({ ttft_ms: ms }) => (ms === null ? <None /> : <Num of={duration(ms)} />)],
    [<span title="Of one stream; geometric mean">Output</span>, ({ tokens_per_second: rate }) => (rate === null ? <None /> : <Num of={short(rate)} unit="tok/s" />)],
  ];
  return (
    <>
      <table class="versions">
        <caption class="hidden">Both versions</caption>
        <thead>
          <tr>
            <td />
            <th scope="col"><Name of={of.from ?? 'old version'} /></th>
            <th scope="col"><Name of={of.version} /></th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([label, show], at) => (
            <tr key={at}><th scope="row">{label}</th><td>{show(of.old, false)}</td><td>{show(of.new, true)}</td></tr>
          ))}
        </tbody>
      </table>
      <p class="hint">As this gateway saw them: <bdi>{oldName(of)}</bdi> since the rollout began, <bdi>{visible(of.version)}</bdi> since its last step.</p>
    </>
  );
}

// Replicas wanted of the old version and of the new one; after the end only the one that has won has any.
function wantedOf(of: Rollout, scaled: number | undefined): [before: number | undefined, after: number | undefined] {
  if (of.state === 'running') return [scaled, of.wanted_replicas];
  return of.state === 'promoted' ? [0, scaled] : [scaled, 0];
}

function None() {
  return <span class="faint" title="Nothing was seen yet">–</span>;
}

type Verb = 'promote' | 'abort' | 'restart';

function Orders({ of }: { of: Rollout }) {
  const [asking, setAsking] = useState<Verb | undefined>();
  if (!may('maintain') || of.state === 'promoted') return null;
  return (
    <>
      <p class="acts">
        {of.state === 'running'
          ? <><Button onClick={() => setAsking('promote')}>Promote</Button><Button onClick={() => setAsking('abort')}>Abort</Button></>
          : <Button onClick={() => setAsking('restart')}>Begin again</Button>}
      </p>
      {asking && <GiveOrder of={of} verb={asking} onClose={() => setAsking(undefined)} />}
    </>
  );
}

function GiveOrder({ of, verb, onClose }: { of: Rollout; verb: Verb; onClose: () => void }) {
  const [reason, setReason] = useTyped(`rollouts.${of.model}.${verb}.reason`, '');
  const model = { model: of.model };
  const act = async () => {
    if (verb === 'promote') await post('/admin/v1/rollouts/{model}:promote', model);
    if (verb === 'abort') await post('/admin/v1/rollouts/{model}:abort', model, reason ? { reason } : {});
    if (verb === 'restart') await post('/admin/v1/rollouts/{model}:restart', model);
    refresh('/admin/v1/rollouts', '/admin/v1/scaling', '/admin/v1/replicas');
  };
  const name = <bdi>{visible(of.version)}</bdi>;
  const old = <bdi>{oldName(of)}</bdi>;
  const [title, word, effect] = {
    promote: [<>Promote {name} of <bdi>{of.model}</bdi></>, 'Promote', <>{name} takes all requests now. The replicas of {old} finish what they run, and end. A promotion cannot be taken back here.</>],
    abort: [<>Abort the rollout of {name} of <bdi>{of.model}</bdi></>, 'Abort', <>All requests go to {old} again. The replicas of {name} finish what they run, and end. The rollout can begin again later.</>],
    restart: [<>Begin the rollout of {name} of <bdi>{of.model}</bdi> again</>, 'Begin again', <>It begins at its first step: replicas of {name} start, and then get {shareOf(of.steps[0] ?? 0)} of the requests.</>],
  }[verb] as [ComponentChildren, string, ComponentChildren];
  return (
    <Confirm title={title} word={word} act={act} onClose={onClose}>
      <p>{effect}</p>
      {verb === 'abort' && <Text label="Reason" value={reason} onInput={setReason} hint="People see it on the pages and in the ledger." />}
    </Confirm>
  );
}
