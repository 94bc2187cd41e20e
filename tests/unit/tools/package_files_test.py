#!/usr/bin/env python3
"""package_files_test.py TIDEGATE: the manual page, the unit, the users and the configurations that tools/package ships."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PACKAGE = ROOT / "tools/package"
TIDEGATE = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build/release/gateway/tidegate")


def longest_end():
    """Seconds that a gateway may take to end beyond shutdown_delay and shutdown_grace: for records, and for its replicas."""
    places = {"gateway/process/process.cc": "kRecordsPatience", "gateway/control/scaling_loop.h": "kClosePatience"}
    return sum(int(re.search(rf"{name} = std::chrono::seconds\((\d+)\)", (ROOT / file).read_text()).group(1)) for file, name in places.items())


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def unit():
    """The keys of the unit -> all their values, in order."""
    out = {}
    for line in (PACKAGE / "debian/tidegate.service").read_text().splitlines():
        if match := re.match(r"(\w+)=(.*)", line):
            out.setdefault(match.group(1), []).append(match.group(2))
    return out


class Files(unittest.TestCase):
    def test_the_manual_page_has_every_command(self):
        page = output(sys.executable, str(PACKAGE / "man"), TIDEGATE).replace("\\-", "-")
        for command in json.loads(output(TIDEGATE, "reference", "commands"))[1:]:
            self.assertIn(f".SS {command['command']}\n", page)
        for line in page.splitlines():
            self.assertNotRegex(line, r"^'", "roff would take it for a request")

    def test_configurations_are_valid(self):
        for file in (PACKAGE / "debian/tidegate.yaml", PACKAGE / "image.yaml"):
            with tempfile.TemporaryDirectory() as folder:
                own = Path(folder) / "tidegate.yaml"
                own.write_text(file.read_text().replace("/var/lib/tidegate", folder))
                subprocess.run([TIDEGATE, "check", str(own)], check=True, capture_output=True)

    def test_the_unit_waits_longer_than_the_gateway_takes(self):
        # The defaults of conf/tidegate.yaml, and what records and replicas have beyond them.
        text = (ROOT / "conf/tidegate.yaml").read_text()
        delay, grace = (int(re.search(rf"^  shutdown_{name}: (\d+)s", text, re.MULTILINE).group(1)) for name in ("delay", "grace"))
        self.assertGreaterEqual(int(unit()["TimeoutStopSec"][0].removesuffix("s")), delay + grace + longest_end())

    def test_the_unit_has_the_rights_of_the_broker_and_no_others(self):
        needed = set(re.findall(r"\bCAP_\w+", re.search(r"bool MayChangeUsers\(\).*?\n}", (ROOT / "plugins/launchers/run_user.cc").read_text(), re.DOTALL).group()))
        for key in ("AmbientCapabilities", "CapabilityBoundingSet"):
            self.assertEqual(set(unit()[key][0].split()), needed, key)

    def test_the_users_are_those_that_the_docs_name(self):
        users = set(re.findall(r"^u\s+(\S+)", (PACKAGE / "debian/tidegate.sysusers").read_text(), re.MULTILINE))
        self.assertEqual(users, {"tidegate", "tidegate-run", *(f"tidegate-run-{n}" for n in range(16))})
        self.assertEqual(unit()["User"], ["tidegate"])

    def test_scripts_have_no_mistake_that_a_shell_sees(self):
        for script in ("postinst", "prerm", "postrm"):
            subprocess.run(["sh", "-n", str(PACKAGE / "debian" / script)], check=True)
        subprocess.run(["bash", "-n", str(PACKAGE / "deb")], check=True)


if __name__ == "__main__":
    unittest.main()
