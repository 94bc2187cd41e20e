"""The processes of runs, watched from outside by /proc: which run holds its devices when."""

import copy
import os
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAUSE = 0.05  # between looks
SETTLED = 1.0  # seconds after which a process has become its program, and keeps its environment
WRAPPER = "tidegate-run"


class Process:
    """One process, told from a later one of the same number by its start."""

    def __init__(self, pid, ticks, comm, run):
        self.pid, self.ticks, self.comm, self.run = pid, ticks, comm, run

    @property
    def is_wrapper(self):
        return self.comm == WRAPPER

    def signal(self, signal):
        """False when it is gone."""
        stat = read_stat(self.pid)
        if not stat or stat[1] != self.ticks:
            return False
        try:
            os.kill(self.pid, signal)
        except ProcessLookupError:
            return False
        return True


def read_stat(pid):
    """(state, start in ticks, name), or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
    return rest[0], int(rest[19]), name


def read_environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


class Span:
    """From when on a run had processes, when it was last seen to have one, and when it was first seen to have none (None:
    it has some). Its end lies between the two: how far they are apart depends on what else the machine does."""

    def __init__(self, began):
        self.began, self.seen, self.gone = began, began, None

    @property
    def shortest(self):
        return self.seen - self.began

    @property
    def longest(self):
        return (self.gone or self.seen) - self.began


class Watch(threading.Thread):
    """Looks at all processes again and again. `alive` has the processes of runs as last seen; `held` has, for each run,
    the spans in which it had processes, wrappers apart."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder = folder
        self.lock = threading.Lock()
        self.alive = []
        self.held = {}  # run -> [Span]
        self.devices = {}  # run -> the places of its devices, as its processes are told
        self.known = {}  # (pid, ticks) -> (run or None, seen at)
        self.stray_ticks = {}  # (run, pid) -> ticks of the process that is meant
        self.looks = 0
        self.ending = False
        with open("/proc/stat", encoding="ascii") as file:
            boot = next(line for line in file if line.startswith("btime"))
        # btime is cut to seconds; the uptime has hundredths.
        with open("/proc/uptime", encoding="ascii") as file:
            self.boot = time.time() - float(file.read().split()[0])
        assert abs(self.boot - int(boot.split()[1])) < 5

    def run(self):
        while not self.ending:
            self.look()
            time.sleep(PAUSE)

    def look(self):
        now = time.time()
        alive = []
        seen = set()
        strays = self.strays()
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            pid = int(entry)
            stat = read_stat(pid)
            if not stat or stat[0] in "ZX":
                continue
            key = (pid, stat[1])
            seen.add(key)
            run, since = self.known.get(key, (None, now))
            if key not in self.known or (run is None and now - since < SETTLED):
                run = self.run_of(pid)
                self.known[key] = (run, since)
            # A stray is nobody's by its environment. A number may be used again: strays are `sleep`s or shells, and the
            # first one with the number is meant.
            if run is None and pid in strays and stat[2] in ("sleep", "sh", "dash", "bash"):
                if self.stray_ticks.setdefault((strays[pid], pid), stat[1]) == stat[1]:
                    run = strays[pid]
            if run is not None:
                alive.append(Process(pid, stat[1], stat[2], run))
        for key in [key for key in self.known if key not in seen]:
            del self.known[key]
        with self.lock:
            self.alive = alive
            self.looks += 1
            self.note(alive, now)

    def note(self, alive, now):
        first = {}
        for process in alive:
            if not process.is_wrapper:
                began = self.boot + process.ticks / TICKS
                first[process.run] = min(first.get(process.run, began), began)
        for run, began in first.items():
            spans = self.held.setdefault(run, [])
            if not spans or spans[-1].gone is not None:
                spans.append(Span(began))
            spans[-1].seen = now
        for run, spans in self.held.items():
            if spans[-1].gone is None and run not in first:
                spans[-1].gone = time.time()

    def run_of(self, pid):
        environment = read_environment(pid)
        if environment.get("CHAOS") != self.folder or "TIDEGATE_RUN_ID" not in environment:
            return None
        run = environment["TIDEGATE_RUN_ID"]
        visible = environment.get("CUDA_VISIBLE_DEVICES", "")
        self.devices[run] = frozenset(int(place) for place in visible.split(",") if place)
        return run

    def strays(self):
        pids = {}
        for name in os.listdir(self.folder):
            if name.startswith("strays."):
                with open(os.path.join(self.folder, name), encoding="ascii") as file:
                    pids.update((int(line), name.removeprefix("strays.")) for line in file.read().split())
        return pids

    def processes(self, wanted=lambda process: True):
        with self.lock:
            return sorted((process for process in self.alive if wanted(process)), key=lambda p: (p.run, p.pid))

    def spans(self):
        """Run -> [Span]."""
        with self.lock:
            return {run: [copy.copy(span) for span in spans] for run, spans in self.held.items()}

    def wait_for_look(self):
        looks = self.looks
        while self.looks < looks + 2:
            time.sleep(PAUSE / 2)
