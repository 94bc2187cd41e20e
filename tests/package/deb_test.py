#!/usr/bin/env python3
"""The Debian package on a clean Debian 12 that boots systemd: installed, serving, reloaded, upgraded under load, removed, purged.

  TIDEGATE_BUILD=build/release tests/package/deb_test.py

Needs root, mmdebstrap, systemd-nspawn and a Debian mirror, which the first run asks for the root; it is kept in TIDEGATE_TEST_CACHE
(default: ~/.cache/tidegate). Exit codes: 0 passed, 1 failed, 77 skipped, with the reason.
"""

import atexit
import hashlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import support
from support import CHAT, ROOT, ask, run, wait_until

SUITE = "bookworm"
MIRROR_SECONDS = 300
SCALED = """
server: {listen: 127.0.0.1:8080, admin: 127.0.0.1:9090, state_dir: /var/lib/tidegate, shutdown_delay: 0s}
tenants: [{name: default, models: ["*"]}]
models:
  - name: chat-small
    endpoints: [{url: http://127.0.0.1:8000, engine: vllm}]
  - name: scaled
scaling:
  policies: [/etc/tidegate/scaled.yaml]
  cluster: [{kind: h100, count: 1}]
  device_locks: /run/lock/tidegate
  on_exit: keep
  runs: {user: tidegate-run, users: tidegate-run-0..15}
"""
POLICY = """
model: scaled
replicas: {min: 1, max: 1}
slo: {ttft: 2s}
scaling: {policy: demand}
placement: {devices: [{kind: h100, count: 1}]}
replica:
  engine: vllm
  command: [tidegate-engine, --listen, "{host}", --port, "{port}", --model, scaled, --load-time, 100ms]
  preset: demo
  ready: {path: /health, timeout: 1m}
"""
BROKER_RIGHTS = {"cap_setuid", "cap_setgid", "cap_kill", "cap_sys_ptrace"}
RIGHT_BITS = {"cap_kill": 5, "cap_setgid": 6, "cap_setuid": 7, "cap_net_bind_service": 10, "cap_sys_ptrace": 19}


def depends_of(package):
    text = run("dpkg-deb", "-f", package, "Depends").stdout
    return sorted({re.split(r"[ |(]", one.strip())[0] for one in text.split(",")})


def clean_root(packages, folder):
    """A Debian with these packages, unpacked; the tar of it is kept between runs."""
    cache = Path(os.environ.get("TIDEGATE_TEST_CACHE", Path.home() / ".cache/tidegate"))
    cache.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(" ".join([SUITE, *packages]).encode()).hexdigest()[:16]
    tar = cache / f"root-{SUITE}-{name}.tar"
    if not tar.exists():
        made = tar.with_suffix(f".{os.getpid()}.tar")
        try:
            done = run("mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(packages)}", SUITE, made,
                       timeout=MIRROR_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            made.unlink(missing_ok=True)
            support.skip(f"the Debian mirror did not give the root within {MIRROR_SECONDS} s")
        if done.returncode != 0:
            made.unlink(missing_ok=True)
            support.skip(f"no clean root: {done.stderr.strip().splitlines()[-1]}")
        made.rename(tar)
    run("tar", "xf", tar, "-C", folder, timeout=120)


class Machine:
    """The clean root, booted in a container with a network of its own."""

    def __init__(self, root):
        self.root = root
        self.log = open(f"{root}.log", "w")
        self.container = subprocess.Popen(
            ["systemd-nspawn", "-q", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "-D", str(root), "--boot"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.init = wait_until(self.find_init, "the container starts")
            wait_until(lambda: self.state() in ("running", "degraded"), f"systemd runs; see {self.log.name}", 60)
        except AssertionError as error:
            self.end()
            support.skip(f"systemd-nspawn does not boot here: {error}")

    def find_init(self):
        if self.container.poll() is not None:
            raise AssertionError(Path(self.log.name).read_text()[-500:])
        found = run("pgrep", "-P", self.container.pid, check=False).stdout.split()
        return int(found[0]) if found else None

    def run(self, *words, **options):
        return run("nsenter", "-t", self.init, "-m", "-u", "-i", "-p", "-n", "-C", *words, **options)

    def state(self):
        return self.run("systemctl", "is-system-running", check=False).stdout.strip()

    def main_pid(self):
        return int(self.run("systemctl", "show", "-p", "MainPID", "--value", "tidegate").stdout)

    def processes(self):
        """pid -> (user, command) in the container."""
        shown = self.run("sh", "-c", "for p in /proc/[0-9]*; do echo \"${p#/proc/} $(stat -c %U $p) $(tr '\\0' ' ' < $p/cmdline)\"; done",
                         check=False).stdout
        rows = (line.split(" ", 2) for line in shown.splitlines())
        return {int(row[0]): (row[1], row[2]) for row in rows if len(row) == 3}

    def rights(self, pid):
        status = self.run("cat", f"/proc/{pid}/status").stdout
        mask = int(re.search(r"CapEff:\s*(\w+)", status).group(1), 16)
        return {name for name, bit in RIGHT_BITS.items() if mask >> bit & 1} | ({"others"} if mask & ~sum(1 << b for b in RIGHT_BITS.values()) else set())

    def end(self):
        self.container.send_signal(signal.SIGTERM)
        try:
            self.container.wait(20)
        except subprocess.TimeoutExpired:
            self.container.kill()
            self.container.wait()
        self.log.close()


class Load:
    """Clients that ask one after the other, and try again where a connection is refused, as the SDKs do."""

    def __init__(self, port, key, clients=4):
        self.port, self.key = port, key
        self.served, self.refused, self.failed, self.longest = 0, 0, [], 0.0
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.ask_on) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def ask_on(self):
        while not self.stopped.is_set():
            begun = time.monotonic()
            while True:
                try:
                    status, _, body = ask(self.port, "POST", "/v1/chat/completions", CHAT, self.key)
                # A closing listener resets what the kernel had accepted: nothing of it was read.
                except (ConnectionRefusedError, ConnectionResetError):
                    self.refused += 1
                    if time.monotonic() - begun > 20:
                        self.failed.append("refused for 20 s")
                        return
                    time.sleep(0.05)
                    continue
                except (OSError, http.client.HTTPException) as error:
                    self.failed.append(repr(error))
                    break
                if status == 200:
                    self.served += 1
                else:
                    self.failed.append(f"{status} {body[:200]!r}")
                break
            self.longest = max(self.longest, time.monotonic() - begun)
            time.sleep(0.02)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class Package(unittest.TestCase):
    """One life of a package: the steps build on each other."""

    @classmethod
    def setUpClass(cls):
        support.need_root("mmdebstrap", "systemd-nspawn", "dpkg-deb", "dpkg-shlibdeps", "nsenter")
        build = support.build_folder()
        cls.folder = Path(tempfile.mkdtemp(prefix="tidegate-deb-"))
        atexit.register(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.first = Path(run(ROOT / "tools/package/deb", "--build", build, "--out", cls.folder, timeout=180).stdout.strip())
        # The next version: the same files under another number.
        parts = cls.folder / "parts"
        run("dpkg-deb", "-R", cls.first, parts)
        control = parts / "DEBIAN/control"
        control.write_text(re.sub(r"^Version: .*", "Version: 99.0-1", control.read_text(), flags=re.MULTILINE))
        cls.second = cls.folder / "next.deb"
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", parts, cls.second)
        root = cls.folder / "root"
        root.mkdir()
        clean_root(sorted({"systemd", *depends_of(cls.first)}), root)
        for package in (cls.first, cls.second):
            shutil.copy(package, root / "root" / ("first.deb" if package == cls.first else "second.deb"))
        cls.machine = Machine(root)
        atexit.register(cls.machine.end)
        support.enter_network_of(cls.machine.init)

    def configure(self, text):
        (self.machine.root / "etc/tidegate/tidegate.yaml").write_text(text)

    def chat(self, model):
        return ask(8080, "POST", "/v1/chat/completions", {**CHAT, "model": model}, self.key, timeout=60)

    def test_a_package_lives(self):
        for step in (self.installs, self.serves, self.gives_up_rights, self.reloads_or_says_why_not, self.starts_replicas_as_another_user,
                     self.upgrades_under_load, self.removes, self.purges):
            with self.subTest(step.__name__):
                begun = time.monotonic()
                try:
                    step()
                except (AssertionError, OSError):
                    print(self.machine.run("journalctl", "-u", "tidegate", "--no-pager", "-n", "30", check=False).stdout)
                    raise
                print(f"{step.__name__}: {time.monotonic() - begun:.1f} s", flush=True)

    def installs(self):
        self.machine.run("dpkg", "-i", "/root/first.deb", timeout=120)
        self.assertEqual(self.machine.run("systemctl", "is-active", "tidegate").stdout.strip(), "active")
        self.assertEqual(self.machine.run("systemctl", "is-enabled", "tidegate").stdout.strip(), "enabled")
        wait_until(lambda: support.answers(9090), "/livez answers")
        self.machine.run("tidegate", "healthcheck", "--config", "/etc/tidegate/tidegate.yaml")
        exposure = self.machine.run("systemd-analyze", "security", "--no-pager", "tidegate", check=False).stdout
        found = re.search(r"Overall exposure level for tidegate.service: ([\d.]+)", exposure)
        self.assertLess(float(found.group(1)), 3.5, "docs/install.md names the figure")
        for file in ("bash-completion/completions/tidegate", "zsh/vendor-completions/_tidegate", "man/man1/tidegate.1.gz", "doc/tidegate/copyright"):
            self.assertGreater((self.machine.root / "usr/share" / file).stat().st_size, 0, file)

    def serves(self):
        self.machine.run("systemd-run", "-q", "--unit=engine", "--uid=nobody", "tidegate-engine", "--listen", "127.0.0.1", "--port", "8000",
                         "--model", "chat-small")
        type(self).key = self.machine.run("tidegate", "keys", "create", "--config", "/etc/tidegate/tidegate.yaml", "--tenant", "default",
                                          "--name", "test").stdout.strip()
        wait_until(lambda: self.chat("chat-small")[0] == 200, "a call is answered")

    def gives_up_rights(self):
        main = self.machine.main_pid()
        gateway = [pid for pid, (user, command) in self.machine.processes().items() if "tidegate serve" in command]
        self.assertEqual(len(gateway), 2, "the gateway and its launch broker")
        rights = {user_pid: self.machine.rights(user_pid) for user_pid in gateway}
        inside = min(gateway)  # the broker is forked off, so the gateway is the older one
        self.assertEqual(inside, main)
        self.assertEqual(rights.pop(inside), set())
        self.assertEqual(list(rights.values()), [BROKER_RIGHTS])
        self.assertEqual({self.machine.processes()[pid][0] for pid in gateway}, {"tidegate"})

    def reloads_or_says_why_not(self):
        good = (self.machine.root / "etc/tidegate/tidegate.yaml").read_text()
        self.configure(good.replace("models:\n", "modells:\n"))
        self.assertNotEqual(self.machine.run("systemctl", "reload", "tidegate", check=False).returncode, 0)
        self.assertEqual(self.chat("chat-small")[0], 200)
        self.configure(good + "  - name: other\n    endpoints: [{url: http://127.0.0.1:8000, engine: vllm, model: chat-small}]\n")
        self.machine.run("systemctl", "reload", "tidegate")
        wait_until(lambda: self.chat("other")[0] == 200, "the model of the new configuration serves")

    def starts_replicas_as_another_user(self):
        (self.machine.root / "etc/tidegate/scaled.yaml").write_text(POLICY)
        self.configure(SCALED)
        self.machine.run("systemctl", "restart", "tidegate", timeout=60)
        wait_until(lambda: support.answers(9090, "/readyz"), "ready")
        self.assertEqual(self.chat("scaled")[0], 200)
        self.assertEqual(self.replica()[1], "tidegate-run")

    def replica(self):
        """(pid, user) of the replica that the gateway started."""
        return next((pid, user) for pid, (user, command) in self.machine.processes().items() if command.startswith("tidegate-engine") and " scaled " in command)

    def upgrades_under_load(self):
        before, replica = self.machine.main_pid(), self.replica()
        load = Load(8080, self.key)
        time.sleep(1)
        served = load.served
        self.machine.run("dpkg", "-i", "/root/second.deb", timeout=120)
        wait_until(lambda: support.answers(9090, "/readyz"), "ready")
        time.sleep(1)
        load.stop()
        print(f"upgrade under load: {load.served} served, {load.refused} connections refused and tried again, longest wait {load.longest:.2f} s")
        self.assertNotEqual(self.machine.main_pid(), before, "the new version runs")
        self.assertEqual(load.failed, [], "no request fails but by a refused connection, and that one is served in the end")
        self.assertGreater(load.served, served)
        self.assertEqual(self.replica(), replica, "a replica with `on_exit: keep` is taken over")
        self.assertEqual((self.machine.root / "etc/tidegate/tidegate.yaml").read_text(), SCALED, "a changed configuration stays")
        self.assertEqual(self.chat("scaled")[0], 200)

    def removes(self):
        self.machine.run("dpkg", "-r", "tidegate", timeout=120)

        def left():
            return [command for _, command in self.machine.processes().values() if "tidegate-run " in command or "tidegate serve" in command]

        wait_until(lambda: not left(), "nothing of it runs", 20)
        self.assertFalse((self.machine.root / "usr/bin/tidegate").exists())
        self.assertTrue((self.machine.root / "var/lib/tidegate/state.db").exists(), "state stays")
        self.assertTrue((self.machine.root / "etc/tidegate/tidegate.yaml").exists(), "configuration stays")

    def purges(self):
        (self.machine.root / "etc/tidegate/scaled.yaml").unlink()
        self.machine.run("dpkg", "--purge", "tidegate", timeout=120)
        self.assertFalse((self.machine.root / "var/lib/tidegate").exists())
        self.assertFalse((self.machine.root / "etc/tidegate").exists())
        self.assertNotIn("tidegate", self.machine.run("systemctl", "list-unit-files", "--no-pager").stdout)


if __name__ == "__main__":
    unittest.main()
