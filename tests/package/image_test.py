#!/usr/bin/env python3
"""The OCI image: what is in it, that two runs give the same, and that it serves as it is meant to run: by its user, with a root
that nobody may write, without rights.

  TIDEGATE_BUILD=build/release tests/package/image_test.py

Needs root and runc for the container; the rest needs neither. Exit codes: 0 passed, 1 failed, 77 skipped, with the reason.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

import support
from support import ROOT, run, wait_until

SHELLS = {"sh", "bash", "dash", "busybox", "perl", "python3", "apt", "dpkg"}


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build = support.build_folder()
        cls.folder = Path(tempfile.mkdtemp(prefix="tidegate-image-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.make = [ROOT / "tools/package/image", "--build", build, "--out", cls.folder]
        cls.path, cls.digest = run(*cls.make, timeout=180).stdout.split()
        with tarfile.open(cls.path) as archive:
            cls.blobs = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
        index = json.loads(cls.blobs["index.json"])
        manifest = json.loads(cls.blob(index["manifests"][0]["digest"]))
        cls.config = json.loads(cls.blob(manifest["config"]["digest"]))
        cls.layer = cls.blob(manifest["layers"][0]["digest"])
        with tarfile.open(fileobj=io.BytesIO(cls.layer), mode="r:gz") as layer:
            cls.entries = {entry.name: entry for entry in layer}

    @classmethod
    def blob(cls, digest):
        data = cls.blobs["blobs/sha256/" + digest.removeprefix("sha256:")]
        assert hashlib.sha256(data).hexdigest() == digest.removeprefix("sha256:")
        return data

    def test_two_runs_give_the_same_image(self):
        before = Path(self.path).read_bytes()
        self.assertEqual(run(*self.make, timeout=180).stdout.split(), [self.path, self.digest])
        self.assertEqual(Path(self.path).read_bytes(), before)

    def test_it_has_no_shell_and_belongs_to_root(self):
        names = {Path(name).name for name in self.entries}
        self.assertEqual(names & SHELLS, set())
        owned = {name for name, entry in self.entries.items() if entry.uid != 0}
        self.assertEqual(owned, {"var/lib/tidegate"})
        self.assertEqual([name for name, entry in self.entries.items() if entry.mode & 0o6000], [], "no file with setuid or setgid")

    def test_it_says_who_runs_it_and_what_it_is(self):
        config = self.config["config"]
        self.assertEqual(config["User"], "65532:65532")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/tidegate"])
        self.assertEqual(config["Healthcheck"]["Test"][:3], ["CMD", "/usr/bin/tidegate", "healthcheck"])
        self.assertEqual(config["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertTrue(config["Labels"]["org.opencontainers.image.version"])

    def test_the_bill_of_materials_has_every_library(self):
        with tarfile.open(fileobj=io.BytesIO(self.layer), mode="r:gz") as layer:
            bill = json.loads(layer.extractfile("usr/share/sbom/tidegate.spdx.json").read())
        self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
        packages = {package["name"]: package for package in bill["packages"]}
        for name in ("libc6", "libssl3", "libstdc++6", "libpq5", "ca-certificates", "nlohmann-json3-dev"):
            self.assertIn(name, packages)
            self.assertTrue(packages[name]["externalRefs"][0]["referenceLocator"].startswith("pkg:deb/debian/" + name + "@"))
        ids = {package["SPDXID"] for package in bill["packages"]} | {"SPDXRef-DOCUMENT"}
        for relation in bill["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, ids)

    def test_a_container_serves(self):
        if os.geteuid() != 0 or shutil.which("runc") is None:
            self.skipTest("a container needs root and runc")
        bundle = self.folder / "bundle"
        (bundle / "rootfs").mkdir(parents=True)
        layer = self.folder / "layer.tar.gz"
        layer.write_bytes(self.layer)
        run("tar", "xzf", layer, "-C", bundle / "rootfs", "--numeric-owner")
        state = self.folder / "state"
        state.mkdir(mode=0o700)
        os.chown(state, 65532, 65532)
        engine = self.start(bundle, "engine", ["/usr/bin/tidegate-engine", "--listen", "127.0.0.1", "--port", "8000", "--model", "chat-small"], state)
        self.addCleanup(self.stop, engine)
        network = wait_until(lambda: self.pid_of(engine), "the engine's container runs")
        gateway = self.start(bundle, "gateway", self.config["config"]["Entrypoint"] + self.config["config"]["Cmd"], state, network)
        self.addCleanup(self.stop, gateway)

        def execute(*words, check=True):
            return run("runc", "--root", self.folder / "runc", "exec", gateway[0], "/usr/bin/tidegate", *words, check=check, timeout=30)

        config = ["--config", "/etc/tidegate/tidegate.yaml"]
        wait_until(lambda: self.pid_of(gateway) and execute("healthcheck", *config, check=False).returncode == 0,
                   f"the health check passes; {gateway[2].name}")
        key = execute("keys", "create", *config, "--tenant", "default", "--name", "test").stdout.strip()
        calls = subprocess.run(
            ["nsenter", "-t", str(network), "-n", "python3", "-c",
             f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nimport support, time\n"
             f"status = 0\nfor _ in range(50):\n  status = support.ask(8080, 'POST', '/v1/chat/completions', support.CHAT, {key!r})[0]\n"
             "  if status == 200: break\n  time.sleep(0.2)\nprint(status)"],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(calls.stdout.strip(), "200", calls.stderr)
        status = Path(f"/proc/{self.pid_of(gateway)}/status").read_text()
        self.assertIn("CapEff:\t0000000000000000", status)
        self.assertIn("Uid:\t65532", status)

    def start(self, bundle, name, args, state, network=None):
        """Runs it as the image says: its user, a read-only root, no rights. Returns (id, process, log)."""
        own = self.folder / name
        own.mkdir()
        run("runc", "spec", "-b", own)
        spec = json.loads((own / "config.json").read_text())
        spec["root"] = {"path": str(bundle / "rootfs"), "readonly": True}
        process = spec["process"]
        process.update(terminal=False, args=args, cwd="/var/lib/tidegate", user={"uid": 65532, "gid": 65532}, noNewPrivileges=True)
        process["capabilities"] = {kind: [] for kind in process["capabilities"]}
        process.pop("rlimits", None)  # those of this machine
        spec["mounts"].append({"destination": "/var/lib/tidegate", "type": "bind", "source": str(state), "options": ["rbind", "rw", "nosuid", "nodev"]})
        for namespace in spec["linux"]["namespaces"]:
            if namespace["type"] == "network" and network:
                namespace["path"] = f"/proc/{network}/ns/net"
        (own / "config.json").write_text(json.dumps(spec))
        log = open(self.folder / f"{name}.log", "w")
        name = f"tidegate-test-{os.getpid()}-{name}"
        started = subprocess.Popen(["runc", "--root", str(self.folder / "runc"), "run", "--bundle", str(own), name],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return name, started, log

    def pid_of(self, container):
        if container[1].poll() is not None:
            self.fail(Path(container[2].name).read_text()[-2000:])
        shown = run("runc", "--root", self.folder / "runc", "state", container[0], check=False)
        state = json.loads(shown.stdout) if shown.returncode == 0 else {}
        return state.get("pid") if state.get("status") == "running" else None

    def stop(self, container):
        run("runc", "--root", self.folder / "runc", "kill", container[0], "TERM", check=False)
        try:
            container[1].wait(60)
        except subprocess.TimeoutExpired:
            run("runc", "--root", self.folder / "runc", "kill", container[0], "KILL", check=False)
            container[1].wait(10)
        run("runc", "--root", self.folder / "runc", "delete", "-f", container[0], check=False)
        container[2].close()


if __name__ == "__main__":
    unittest.main()
