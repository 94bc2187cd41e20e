#!/usr/bin/env python3
"""tools/install_packages with an apt-get, a dpkg-query and a sleep of the test's own."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[3] / "tools" / "install_packages"
LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)"


class InstallPackages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.bin = Path(self.folder.name)
        self.put("dpkg-query", "exit 1")  # nothing is installed
        self.put("sleep", 'echo "$1" >> "$STATE/slept"')
        self.put("sudo", 'exec "$@"')
        self.put("tee", "cat > /dev/null")
        self.put("chmod", ":")
        self.put("rm", ":")

    def put(self, name, text):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def apt_fails(self, times, message):
        self.put("apt-get", f"""n=$(cat "$STATE/runs" 2>/dev/null || echo 0); echo $((n + 1)) > "$STATE/runs"
if [ "$n" -lt {times} ]; then echo '{message}'; exit 100; fi""")

    def run_tool(self, group="demo"):
        environment = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", STATE=self.folder.name)
        return subprocess.run([TOOL, group], env=environment, capture_output=True, text=True, timeout=60)

    def slept(self):
        path = self.bin / "slept"
        return sum(map(int, path.read_text().split())) if path.exists() else 0

    def test_waits_while_another_program_holds_the_lock_and_says_so(self):
        self.apt_fails(2, LOCKED)
        result = self.run_tool()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("waiting up to 120 s"), 1)
        self.assertIn("held by process 7", result.stdout)
        self.assertGreater(self.slept(), 0)

    def test_gives_up_after_two_minutes(self):
        self.apt_fails(10_000, LOCKED)
        result = self.run_tool()
        self.assertEqual(result.returncode, 1)
        self.assertIn("still held after 120 s", result.stderr)
        self.assertEqual(self.slept(), 120)

    def test_another_failure_is_reported_at_once(self):
        self.apt_fails(10_000, "E: Unable to locate package curl")
        result = self.run_tool()
        self.assertEqual(result.returncode, 1)
        self.assertIn("Unable to locate package", result.stderr)
        self.assertEqual(self.slept(), 0)

    def test_a_kubectl_from_elsewhere_is_kept(self):
        self.put("kubectl", ":")
        self.put("apt-get", 'echo "$@" >> "$STATE/asked"')
        result = self.run_tool("kubernetes")
        self.assertEqual(result.returncode, 0, result.stderr)
        asked = (self.bin / "asked").read_text()
        self.assertIn("etcd-server", asked)
        self.assertNotIn("kubernetes-client", asked)


if __name__ == "__main__":
    unittest.main()
