"""tools/lint_layers finds what it is there to find, in a tree made for it."""

import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "lint_layers"
loader = importlib.machinery.SourceFileLoader("lint_layers", str(SCRIPT))
lint_layers = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(lint_layers)

# One header a layer, and one of a room inside a layer, that the cases include.
HEADERS = ["conf/time.h", "scheduler/rng.h", "router/pick.h", "gateway/net/stream.h", "plugins/api.h", "gateway/shard.h",
           "tools/engine/engine.h", "tests/support/clock.h"]

ALLOWED = [
    ("router/pick.cc", '#include "router/pick.h"\n#include "scheduler/rng.h"\n#include "conf/time.h"\n#include <chrono>\n'),
    ("router/limits/tree.cc", "#include <mutex>\n#include <absl/synchronization/mutex.h>\nstd::mutex mutex;\n"),
    ("router/say.cc", "// system_clock::now is not for us\nauto s = \"steady_clock::now(\"; /* std::cout */\n"),
    ("router/raw.cc", 'auto s = R"({"printf(": 1})";\nint big = 1\'000\'000;\n'),
    ("router/record.cc", "Print(fmt::format(\"{}\", load.time(now)));\n"),
    ("gateway/net/http/codec.cc", '#include "gateway/net/stream.h"\n#include <boost/beast/http/basic_parser.hpp>\n'),
    ("gateway/net/transport.cc", "#include <boost/asio/ip/tcp.hpp>\n#include <boost/asio/ssl.hpp>\n#include <sys/socket.h>\n"),
    ("plugins/auth/jwt.cc", '#include "plugins/api.h"\n#include "gateway/net/stream.h"\n#include "router/pick.h"\n'),
    ("gateway/stages/relay.cc", '#include "gateway/shard.h"\n#include "plugins/api.h"\n#include <spdlog/spdlog.h>\n'),
    ("gateway/ledger/age.cc", "auto now = std::chrono::system_clock::now();\n"),
    ("tools/engine/pump.cc", '#include "tools/engine/engine.h"\n#include "gateway/net/stream.h"\n'),
    ("tests/unit/engine_test.cc", '#include "tools/engine/engine.h"\n#include "tests/support/clock.h"\n'),
    ("bench/load.cc", '#include "gateway/shard.h"\n#include <boost/asio/ip/tcp.hpp>\n'),
    ("scheduler/long.cc", "int x;\n" * 600),
]

# (path, text, line, part of the message)
REFUSED = [
    ("conf/reader.cc", '#include "scheduler/rng.h"\n', 1, "stands to its right"),
    ("scheduler/planner.cc", '\n#include "router/pick.h"\n', 2, "stands to its right"),
    ("scheduler/planner.cc", '#  include <router/pick.h>\n', 1, "stands to its right"),
    ("router/pick.cc", '#include "gateway/net/stream.h"\n', 1, "stands to its right"),
    ("gateway/net/pool.cc", '#include "plugins/api.h"\n', 1, "stands to its right"),
    ("gateway/net/pool.cc", '#include "router/pick.h"\n', 1, "may know only conf, gateway/net"),
    ("plugins/builtin.cc", '#include "gateway/shard.h"\n', 1, "stands to its right"),
    ("gateway/shard.cc", '#include "tests/support/clock.h"\n', 1, "stands to its right"),
    ("gateway/shard.cc", '#include "tools/engine/engine.h"\n', 1, "stands to its right"),
    ("tools/engine/main.cc", '#include "gateway/shard.h"\n', 1, "may know only"),
    ("gateway/shard.cc", '#include "shard.h"\n', 1, "from the root"),
    ("gateway/shard.cc", '#include "gateway/shards.h"\n', 1, "does not exist"),
    ("scheduler/planner.cc", "#include <mutex>\n", 1, "no locks"),
    ("scheduler/planner.cc", "void F() {\n  std::lock_guard lock(m);\n}\n", 2, "no locks"),
    ("scheduler/sim/world.h", "std::atomic<int> count;\n", 1, "no locks"),
    ("scheduler/planner.cc", "#include <spdlog/spdlog.h>\n", 1, "pure"),
    ("router/pick.cc", "#include <boost/asio/io_context.hpp>\n", 1, "pure"),
    ("router/pick.cc", "#include <iostream>\n", 1, "pure"),
    ("router/pick.cc", "#include <sys/socket.h>\n", 1, "sockets"),
    ("router/pick.cc", "/* a\n comment */ auto t = std::chrono::steady_clock::now();\n", 2, "steady_clock::now"),
    ("router/pick.cc", 'auto* f = fopen("x", "r");\n', 1, "fopen("),
    ("router/pick.cc", "std::uniform_int_distribution<int> d(0, 1);\n", 1, "uniform_int_distribution"),
    ("scheduler/sim/arrivals.cc", "std::mt19937_64 rng(seed);\n", 1, "mt19937_64"),
    ("gateway/admin/serve.cc", "#include <boost/asio/ip/tcp.hpp>\n", 1, "transport.cc alone"),
    ("gateway/net/pool.cc", "#include <boost/asio/ssl/stream.hpp>\n", 1, "transport.cc alone"),
    ("gateway/answer.cc", "#include <boost/beast/http/write.hpp>\n", 1, "HTTP parsing"),
    ("tests/unit/long_test.cc", "int x;\n" * 601, 601, "600 lines"),
]


class LintLayers(unittest.TestCase):
    def problems(self, path, text):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, content in [(header, "#pragma once\n") for header in HEADERS] + [(path, text)]:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content, encoding="utf-8")
            return lint_layers.find_problems(root)[0]

    def test_accepts_what_points_leftwards(self):
        for path, text in ALLOWED:
            with self.subTest(path=path, text=text[:60]):
                self.assertEqual(self.problems(path, text), [])

    def test_names_the_line_of_what_is_wrong(self):
        for path, text, line, message in REFUSED:
            with self.subTest(path=path, text=text[:60]):
                found = [what for where, number, what in self.problems(path, text) if (where, number) == (path, line)]
                self.assertTrue(any(message in what for what in found), found)

    def test_exit_code_says_whether_something_was_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            self.assertEqual(lint_layers.main([folder]), 2, "an empty tree is a wrong call, not a clean one")
            (root / "conf").mkdir()
            (root / "conf" / "reader.cc").write_text("int x;\n", encoding="utf-8")
            self.assertEqual(lint_layers.main([folder]), 0)
            (root / "conf" / "reader.cc").write_text('#include "gateway/none.h"\n', encoding="utf-8")
            self.assertEqual(lint_layers.main([folder]), 1)


if __name__ == "__main__":
    unittest.main()
