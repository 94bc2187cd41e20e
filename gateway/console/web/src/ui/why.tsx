// "Why?": the sentences of `explain`, where a job waits or runs.
import { useState } from 'preact/hooks';
import { useGet } from '../data';
import { localTimes } from '../format';
import { Button, Loaded } from './basics';

export function WhyJob({ id, open: always }: { id: string; open?: boolean }) {
  const [open, setOpen] = useState(always ?? false);
  const explanation = useGet(open ? '/admin/v1/jobs/{id}/explain' : null, { items: { id }, everyMs: 5000 });
  if (!open) return <Button kind="quiet" onClick={() => setOpen(true)}>Why?</Button>;
  return (
    <Loaded from={explanation} what="the explanation">
      {(of) => <div class="why">{of.text.map((sentence, at) => <p key={at}>{localTimes(sentence)}</p>)}</div>}
    </Loaded>
  );
}

// What the scaling law says in a word or two, which stands for a rule of the policy.
const OF_SCALING: { [reason: string]: string } = {
  'demand': 'As many as the demand takes.',
  'requests in flight': 'As many as the requests in flight take.',
  'requests are held': 'Requests wait for a first replica.',
  'replicas.min': 'replicas.min of its policy: no more are needed, and it keeps as many.',
  'replicas.max': 'replicas.max of its policy: more would be needed, and it allows no more.',
  'schedule': 'The schedule of its policy wants as many at this time.',
  'behavior': 'behavior of its policy slows the change down.',
  'idle.standby': 'idle.standby of its policy: nobody calls, and it keeps as many.',
  'not idle for long enough': 'Nobody calls, but not for as long as idle of its policy says.',
};

// A reason that stands already in the answer.
export function Why({ text }: { text: string | null | undefined }) {
  return text ? <div class="why"><p>{OF_SCALING[text] ?? localTimes(text)}</p></div> : null;
}
