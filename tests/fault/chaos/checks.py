"""What must hold, whatever happened: each check takes what was seen from outside and yields sentences of what is wrong."""

import os
from collections import defaultdict

START_ERROR = 0.03  # seconds by which the start of a process as /proc has it may be wrong


def lines(folder, prefix):
    """Of each file whose name begins so: what follows in the name, and its lines as words."""
    for name in sorted(os.listdir(folder)):
        if name.startswith(prefix):
            with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
                yield name.removeprefix(prefix), [line.split() for line in file]


def devices_given_once(devices, spans):
    """No device is given to two runs that have processes at the same time."""
    holders = defaultdict(list)
    for run, its in spans.items():
        for place in devices.get(run, ()):
            holders[place].extend((span.began, span.seen, run) for span in its)
    for place, held in sorted(holders.items()):
        held.sort()
        for i, (_, until, run) in enumerate(held):
            for began, end, other in held[i + 1:]:
                both = min(until, end) - began
                if both > START_ERROR and other != run:
                    yield f"device {place} was held by {run} and {other} at the same time, for {both:.2f} s"


def training_never_behind(folder):
    """A member of a training job begins where it saved last, and never saves less than before."""
    for job, events in lines(folder, "training."):
        saved = defaultdict(int)
        for event, run, rank, step, was_saved in (words for words in events if len(words) == 5):
            if event == "begin" and int(step) < int(was_saved):
                yield f"{job}, member {rank}: {run} began at step {step}, behind its checkpoint at {was_saved}"
            if event == "saved":
                if int(step) < saved[rank]:
                    yield f"{job}, member {rank}: {run} saved step {step} after step {saved[rank]}"
                saved[rank] = int(step)


def done_once(folder, disturbed, jobs):
    """A batch job that ended well does not begin again, and is done. `disturbed`: run -> when the harness last killed
    something of it, which may have been after the job's own last word and before its exit."""
    for job, events in lines(folder, "batch."):
        ended = None
        for event, run, _, at in (words for words in events if len(words) == 4):
            if event == "begin" and ended:
                yield f"{job} ended well as {ended}, and was begun again as {run}"
                ended = None
            if event == "end" and disturbed.get(run, 0) < float(at):
                ended = run
        state = jobs.get(job, {}).get("state")
        if ended and state not in ("done", None):
            yield f"{job} ended well as {ended}, and is {state}: {jobs[job].get('reason')}"


PLACED_BEFORE = 20.0  # s; a run that begins later after a placement belongs to another one


def between_placement_and_begin(placed, began):
    """Seconds for which a run had its devices and no process yet. It has them from its placement on, which is durable; when
    its first process begins depends on what else the machine does, and on whether the gateway is there."""
    return next((began - at for at in sorted(placed, reverse=True) if 0 <= began - at < PLACED_BEFORE), 0.0)


def charged_as_held(records, devices, spans, placed, owner_of, slack_of):
    """Devices are charged for as long as their runs had processes, or were about to: within 2 %, by job and by model.
    `placed`: run -> when the gateway said that it placed its workload. slack_of() grants a run seconds for what cannot be
    known better: no look may have met a run that was shorter."""
    charged, least, most = defaultdict(float), defaultdict(float), defaultdict(float)
    lasted = defaultdict(float)  # owner -> seconds of its records
    for record in records:
        owner = record.get("job") or record.get("model")
        charged[owner] += record["device_us"] * 1e-6
        lasted[owner] += (record["until_us"] - record["time_us"]) * 1e-6
    for run, its in spans.items():
        owner, count = owner_of(run), len(devices.get(run, ()))
        least[owner] += count * (0.98 * sum(span.shortest for span in its) - slack_of(run))
        longest = sum(span.longest + between_placement_and_begin(placed(run), span.began) for span in its)
        most[owner] += count * (1.02 * longest + slack_of(run))
    for owner in sorted(charged.keys() | most.keys(), key=str):
        if owner not in most and lasted[owner] <= slack_of(None):
            continue
        if not least[owner] <= charged[owner] <= most[owner]:
            yield (f"{owner} was charged {charged[owner]:.2f} device-seconds, and held between {least[owner]:.2f} and "
                   f"{most[owner]:.2f}, tolerance included")


def nothing_left(processes):
    """When the gateway has ended and all jobs are over, no run has a process."""
    for process in processes:
        yield f"{process.run} is left running: {process.comm}, pid {process.pid}"
