#!/usr/bin/env python3
"""hardening_test.py BINARY...: the released programs are built against the use of bugs in memory."""

import subprocess
import sys
import unittest

BINARIES = sys.argv[1:]
# tidegate-run is small: it has no copy and no index that need a check at run time.
WITH_CHECKS = [binary for binary in BINARIES if not binary.endswith("/tidegate-run")]


def readelf(option, binary):
    return subprocess.run(["readelf", "--wide", option, binary], check=True, capture_output=True, text=True).stdout


def line(text, word):
    return next((line for line in text.splitlines() if word in line.split()), "")


class Hardening(unittest.TestCase):
    def each(self, option, check, binaries=BINARIES):
        for binary in binaries:
            with self.subTest(binary=binary):
                check(readelf(option, binary))

    def test_code_is_loaded_at_an_address_of_chance(self):
        self.each("--file-header", lambda text: self.assertRegex(text, r"Type:\s+DYN"))
        self.each("--dynamic", lambda text: self.assertRegex(line(text, "(FLAGS_1)"), r"\bPIE\b"))

    def test_tables_of_functions_are_read_only_once_it_runs(self):
        self.each("--program-headers", lambda text: self.assertIn("GNU_RELRO", text))
        self.each("--dynamic", lambda text: self.assertRegex(line(text, "(FLAGS_1)"), r"\bNOW\b"))

    def test_no_memory_is_both_written_and_executed(self):
        def check(text):
            self.assertRegex(line(text, "GNU_STACK"), r" RW ")
            for segment in text.splitlines():
                self.assertNotRegex(segment, r"^\s+LOAD .* RWE ")

        self.each("--program-headers", check)

    def test_a_smashed_stack_ends_the_process(self):
        self.each("--dyn-syms", lambda text: self.assertIn("__stack_chk_fail", text))

    def test_overlong_copies_end_the_process(self):
        self.each("--dyn-syms", lambda text: self.assertRegex(text, r"__mem(cpy|move)_chk"), WITH_CHECKS)

    def test_an_index_past_the_end_ends_the_process(self):
        self.each("--dyn-syms", lambda text: self.assertIn("__glibcxx_assert_fail", text), WITH_CHECKS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
