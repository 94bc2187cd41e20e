#!/usr/bin/env python3
"""Runs every command and checks every YAML block of README.md, SECURITY.md and docs/, against a demo gateway of its own.

  TIDEGATE=... TIDEGATE_ENGINE=... tests/docs/examples_test.py [PAGE...]

The word behind the fence says what a block is:
  sh              commands, run in one shell per page, from a copy of the working folder, with the demo's keys in the environment
  sh no-run: WHY  commands that a test cannot run; WHY says who does, or why not
  yaml            a configuration, or some of its sections
  yaml policy     a scaling policy; likewise `yaml job`, `yaml planner` and `yaml cluster`
  python          is compiled
Besides, links between pages lead somewhere, and docs/metrics.md has every metric that the gateway shows.
Exit codes: 0 all is well, 1 something is not.
"""

import ast
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_NOT_RUN = 20
PAGE_SECONDS = 120
MINIMAL = {
    "server": "server: {listen: 127.0.0.1:8080}",
    "tenants": 'tenants: [{name: default, models: ["*"]}]',
    "models": "models: [{name: chat-small, endpoints: [{url: http://127.0.0.1:8000, engine: vllm}]}]",
}


class Checks:
    def __init__(self):
        self.failures = 0
        self.done = 0

    def fail(self, where, what):
        self.failures += 1
        print(f"FAIL {where}: {what}", flush=True)


def blocks(page):
    """(line, kind, reason, text) of each fenced block."""
    text = page.read_text()
    for match in FENCE.finditer(text):
        kind, _, reason = match.group(1).partition(":")
        yield text[:match.start()].count("\n") + 2, kind.strip(), reason.strip(), match.group(2)


def free_ports(count):
    """Below those that the system gives to outgoing connections, so that none of them takes one first."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10_000, 20_000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


class Demo:
    """The demo gateway with its training job, in a temporary folder that has the conf/ and tools/ of the tree."""

    def __init__(self, tidegate, engine):
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-docs-"))
        self.tidegate = tidegate
        shutil.copytree(ROOT / "conf", self.folder / "conf", ignore=shutil.ignore_patterns("*.cc", "*.h"))
        (self.folder / "tools").symlink_to(ROOT / "tools")
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "tidegate").symlink_to(tidegate)
        (bin_folder / "tidegate-engine").symlink_to(engine)
        listen, admin = free_ports(2)
        text = (ROOT / "conf/demo.yaml").read_text()
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{listen}").replace("127.0.0.1:9090", f"127.0.0.1:{admin}")
        (self.folder / "conf/demo.yaml").write_text(text)
        self.env = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}", CONFIG="conf/demo.yaml",
                        TIDEGATE_URL=f"http://127.0.0.1:{listen}", TIDEGATE_ADMIN_URL=f"http://127.0.0.1:{admin}",
                        OPENAI_API_KEY="none", REDIS_PASSWORD="none", SLURM_JWT="none",
                        TIDEGATE_STATE_PASSWORD="none", TIDEGATE_S3_ACCESS_KEY="none", TIDEGATE_S3_SECRET_KEY="none", TIDEGATE_WEIGHTS_TOKEN="none")
        self.env["TIDEGATE_KEY"] = self.command("keys", "create", "--tenant", "demo/research", "--config", "conf/demo.yaml").strip()
        self.env["TIDEGATE_ADMIN_KEY"] = self.command("keys", "create", "--admin", "admin", "--config", "conf/demo.yaml").strip()
        self.log = open(self.folder / "gateway.log", "w")
        self.process = subprocess.Popen(["tidegate", "serve", "--config", "conf/demo.yaml"], cwd=self.folder, env=self.env,
                                        stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def start_training(self):
        self.wait_for(f"{self.env['TIDEGATE_ADMIN_URL']}/readyz")
        # It serves requests before it knows what runs.
        self.command_ok("jobs", "list", "--config", "conf/demo.yaml")
        self.command("jobs", "submit", "conf/demo/training.yaml", "--config", "conf/demo.yaml")
        self.wait_until(lambda: '"state":"running"' in self.command("jobs", "list", "--json", "--config", "conf/demo.yaml"),
                        "the training job runs")
        self.command_ok("jobs", "logs", "finetune-1", "--config", "conf/demo.yaml")

    def command(self, *words):
        done = subprocess.run([self.tidegate, *words], cwd=self.folder, env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"tidegate {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def command_ok(self, *words):
        self.wait_until(lambda: subprocess.run([self.tidegate, *words], cwd=self.folder, env=self.env,
                                               capture_output=True).returncode == 0, " ".join(words))

    def wait_for(self, url):
        def answers():
            try:
                return urllib.request.urlopen(url, timeout=5).status == 200
            except (urllib.error.URLError, OSError):
                return False
        self.wait_until(answers, url)

    def wait_until(self, holds, what):
        until = time.monotonic() + 60
        while not holds():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{what}: not within 60 s; the gateway says:\n{(self.folder / 'gateway.log').read_text()[-3000:]}")
            time.sleep(0.1)

    def open_jobs(self):
        return [job["id"] for job in json.loads(self.command("jobs", "list", "--json", "--config", "conf/demo.yaml"))]

    def stop(self):
        # Jobs outlive a gateway on purpose, so it is stopped once they have ended.
        try:
            for job in self.open_jobs():
                self.command("jobs", "cancel", job, "--config", "conf/demo.yaml")
            self.wait_until(lambda: not self.open_jobs(), "the jobs have ended")
        except RuntimeError as error:
            print(error)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_page(page, demo, checks):
    """All its `sh` blocks in one shell; a command that fails ends it and is named."""
    script, last = ["set -euo pipefail"], ""
    for line, kind, _, text in blocks(page):
        if kind == "sh":
            script += [f"BLOCK={line}", text]
            last = text
    if not last:
        return
    script.append("BLOCK=done")
    body = "\n".join(["trap 'echo \"ended in the block at line $BLOCK\" >&2' EXIT", *script, "trap - EXIT"])
    shell = subprocess.Popen(["bash", "-c", body], cwd=demo.folder, env=demo.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = shell.communicate(timeout=PAGE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        output = shell.communicate()[0] + f"\nnot over after {PAGE_SECONDS} s"
        checks.fail(page.name, output[-3000:])
        return
    checks.done += 1
    if shell.returncode != 0:
        checks.fail(page.name, f"exit code {shell.returncode}\n{output[-3000:]}")
    try:
        os.killpg(shell.pid, signal.SIGTERM)  # what a page left in the background
    except ProcessLookupError:
        pass


def check_yaml(page, demo, checks):
    for line, kind, _, text in blocks(page):
        if not kind.startswith("yaml"):
            continue
        file = demo.folder / "block.yaml"
        what = kind[4:].strip()
        if what == "policy":
            words = ["policy", "check", "block.yaml"]
        elif what == "job":
            words = ["jobs", "submit", "--check", "block.yaml"]
        elif what in ("planner", "cluster"):
            option = "--policy" if what == "planner" else "--cluster"
            words = ["simulate", "jobs", "none.jsonl", option, "block.yaml"]
            (demo.folder / "none.jsonl").write_text('{"id":"one","submitted":"2026-11-20T08:00:00Z","roles":[{"cpu_milli":1}],"run":"1m"}\n')
        elif what == "":
            given = set(re.findall(r"^(\w+):", text, re.MULTILINE))
            text += "".join(f"\n{section}" for name, section in MINIMAL.items() if name not in given)
            words = ["check", "block.yaml"]
        else:
            checks.fail(f"{page.name}:{line}", f"unknown kind of block: {kind}")
            continue
        file.write_text(text)
        done = subprocess.run([demo.tidegate, *words], cwd=demo.folder, env=demo.env, capture_output=True, text=True)
        checks.done += 1
        wrong = done.stderr.strip()
        if done.returncode != 0 and not (what in ("planner", "cluster") and "block.yaml" not in wrong):
            checks.fail(f"{page.name}:{line}", f"{wrong}\n{text}")


def check_kinds(pages, checks):
    not_run = 0
    for page in pages:
        for line, kind, reason, text in blocks(page):
            if kind == "sh no-run":
                not_run += 1
                if not reason:
                    checks.fail(f"{page.name}:{line}", "no-run needs a reason behind a colon")
            elif kind == "python":
                try:
                    ast.parse(text)
                except SyntaxError as error:
                    checks.fail(f"{page.name}:{line}", str(error))
            elif kind not in ("sh", "text", "json", "sql") and not kind.startswith("yaml"):
                checks.fail(f"{page.name}:{line}", f'a block is sh, yaml, python, json or text, not "{kind}"')
    if not_run > MOST_NOT_RUN:
        checks.fail("docs", f"{not_run} blocks are not run, at most {MOST_NOT_RUN} are allowed")


def check_links(pages, checks):
    for page in pages:
        plain = FENCE.sub("", page.read_text())
        for target in re.findall(r"\]\(([^)\s]+)\)", plain):
            file, _, _ = target.partition("#")
            if file and not target.startswith(("http://", "https://")) and not (page.parent / file).exists():
                checks.fail(page.name, f"the link {target} leads nowhere")


def check_names(pages, checks):
    """Metrics that a page names are in the reference."""
    known = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
    for page in pages:
        for name in re.findall(r"\b(tidegate_[a-z_]+)\b", page.read_text()):
            if name not in known and not name.endswith("_"):
                checks.fail(page.name, f"there is no metric {name}")


def check_metrics(demo, checks):
    """The reference comes from the source text; what a gateway shows must be in it, with its type, labels and help."""
    page = (ROOT / "docs/metrics.md").read_text()
    rows = {}
    for name, kind, labels, about in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*) \|$", page, re.MULTILINE):
        rows[name] = (kind, set(re.findall(r"`(\w+)`", labels)), about)
    text = urllib.request.urlopen(f"{demo.env['TIDEGATE_ADMIN_URL']}/metrics", timeout=10).read().decode()
    for name, about in re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE):
        kind = re.search(rf"^# TYPE {name} (\w+)$", text, re.MULTILINE).group(1)
        labels = set()
        for series in re.findall(rf"^{name}(?:_bucket|_sum|_count)?\{{(.*)\}} ", text, re.MULTILINE):
            labels |= set(re.findall(r"(\w+)=\"", series))
        labels -= {"le"}
        checks.done += 1
        if name not in rows:
            checks.fail("metrics.md", f"{name} is missing")
        elif rows[name] != (kind, labels, about):
            checks.fail("metrics.md", f"{name} is {rows[name]}, a gateway shows {(kind, labels, about)}")


def main(arguments):
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
    checks = Checks()
    check_kinds(pages, checks)
    check_links(pages, checks)
    check_names(pages, checks)
    if arguments:
        pages = [page for page in pages if page.name in arguments]
    tidegate = os.environ.get("TIDEGATE", str(ROOT / "build/release/gateway/tidegate"))
    engine = os.environ.get("TIDEGATE_ENGINE", str(ROOT / "build/release/tools/tidegate-engine"))
    demo = Demo(tidegate, engine)
    try:
        demo.start_training()
        for page in pages:
            check_yaml(page, demo, checks)
            run_page(page, demo, checks)
        check_metrics(demo, checks)
    finally:
        demo.stop()
    print(f"{len(pages)} pages, {checks.done} checks, {checks.failures} failures")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
