// "Why?": the sentences of `explain`, where a job waits or runs.
import { useState } from 'preact/hooks';
import { useGet } from '../data';
import { Button, Loaded } from './basics';

export function WhyJob({ id, open: always }: { id: string; open?: boolean }) {
  const [open, setOpen] = useState(always ?? false);
  const explanation = useGet(open ? '/admin/v1/jobs/{id}/explain' : null, { items: { id }, everyMs: 5000 });
  if (!open) return <Button kind="quiet" onClick={() => setOpen(true)}>Why?</Button>;
  return (
    <Loaded from={explanation} what="the explanation">
      {(of) => <div class="why">{of.text.map((sentence, at) => <p key={at}>{sentence}</p>)}</div>}
    </Loaded>
  );
}

// A reason that stands already in the answer.
export function Why({ text }: { text: string | null | undefined }) {
  return text ? <div class="why"><p>{text}</p></div> : null;
}
