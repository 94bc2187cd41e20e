"""tools/lint_layers finds what it is there to find, in a tree made for it."""

import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from unittest import mock
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
    ("scheduler/long.cc", "int x;\n" * 900),
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
    ("tests/unit/long_test.cc", "int x;\n" * 901, 901, "900 lines"),
    ("gateway/control/capacity.h", "\nReckoned ReckonCapacity();\n", 2, "Reckoned: a name that was given up; use Estimate…"),
    ("gateway/control/disk_room.cc", "bool ok = room.LookAtDisk();\n", 1, "use Check, Probe or Reconcile"),
]

# Files of a tree, and what is told of its READMEs.
README_CASES = [
    ({"router/pick.cc": "", "router/README.md": "`pick.cc`, `router/pick.h`\n"}, ["router/README.md:1 names router/pick.h, which does not exist"]),
    ({"router/pick.cc": "", "router/README.md": "`router/pick`, `pick.cc`, `router/*.cc`, `/healthz`, `a/b`, `text/plain`\n"}, []),
    ({"router/pick.cc": "", "router/prefix/tree.h": "", "router/README.md": "\n`prefix/tree.{h,cc}`\n"},
     ["router/README.md:2 names prefix/tree.{h,cc}, which does not exist"]),
    ({"router/pick.cc": "", "router/prefix/tree.h": "", "router/README.md": "", "router/prefix/README.md": "`pick.cc`, `prefix/tree.h`\n"}, []),
    ({"router/prefix/tree.h": ""}, ["router/README.md:1 does not exist, and router has rooms of its own (router/prefix)"]),
    ({f"router/{i}.cc": "" for i in range(12)}, []),
    ({f"router/{i}.cc": "" for i in range(13)}, ["router/README.md:1 does not exist, and router has 13 files"]),
    ({f"tests/unit/router/{i}.cc": "" for i in range(13)} | {"tests/README.md": ""}, []),
]

# Rooms of two folders, one of which holds a layer of its own and one a folder with rooms of its own.
FLOORS = {
    "scheduler": [("model", "policy"), ("state",), ("planner",)],
    "gateway": [("log",), ("request", "replicas"), ("control",)],
    "gateway/request": [("exchange",), ("stages",)],
}

FLOOR_FILES = {
    "scheduler/model.h": "", "scheduler/policy.h": "", "scheduler/state/table.h": "", "scheduler/state/node.h": "",
    "scheduler/planner.h": "", "gateway/log.h": "", "gateway/request/exchange.h": "", "gateway/request/stages/send.h": "",
    "gateway/replicas/fleet.h": "", "gateway/control/loop.h": "", "gateway/net/stream.h": "",
}

# (path, what it includes, part of the message or None where it may)
FLOOR_CASES = [
    ("scheduler/state/table.h", "scheduler/model.h", None),
    ("scheduler/state/table.h", "scheduler/state/node.h", None),
    ("scheduler/planner.cc", "scheduler/planner.h", None),
    ("scheduler/planner.cc", "scheduler/model.h", None),
    ("scheduler/policy.h", "scheduler/model.h", "scheduler/model is on its own floor; scheduler/policy may include no other room"),
    ("scheduler/model.cc", "scheduler/state/table.h", "scheduler/state stands above it"),
    ("scheduler/state/table.cc", "scheduler/planner.h", "scheduler/planner stands above it; scheduler/state may include only model, policy"),
    ("gateway/request/exchange.h", "gateway/replicas/fleet.h", "gateway/replicas is on its own floor"),
    ("gateway/control/loop.cc", "gateway/request/stages/send.h", None),
    ("gateway/control/loop.cc", "gateway/net/stream.h", None),
    ("gateway/request/exchange.cc", "gateway/request/stages/send.h", "gateway/request/stages stands above it"),
    ("gateway/request/stages/send.cc", "gateway/request/exchange.h", None),
]

# (files, the circle as it is told or None)
CIRCLE_CASES = [
    ({"scheduler/a.h": '#include "scheduler/b.h"\n', "scheduler/b.h": "", "scheduler/b.cc": '#include "scheduler/b.h"\n'}, None),
    ({"scheduler/a.h": '#include "scheduler/b.h"\n', "scheduler/b.cc": '\n#include "scheduler/a.h"\n', "scheduler/b.h": ""},
     "scheduler/a.h:1 scheduler/a → scheduler/b → scheduler/a"),
    ({"scheduler/a.h": "", "scheduler/a.cc": '\n#include "scheduler/x/b.h"\n', "scheduler/x/b.h": '#include "scheduler/c.h"\n',
      "scheduler/c.h": '#include "scheduler/a.h"\n', "scheduler/d.h": '#include "scheduler/a.h"\n'},
     "scheduler/a.cc:2 scheduler/a → scheduler/x/b → scheduler/c → scheduler/a"),
    ({"router/a.h": '#include "router/b.h"\n', "router/b.h": '#include "router/a.h"\n'}, "router/a.h:1 router/a → router/b → router/a"),
]

# Methods in one more .cc, and whether that one counts for scheduler::World, which has two already.
METHODS = [
    ("namespace scheduler {\nvoid World::Run() {}\n}\n", True),
    ("namespace scheduler {\nWorld::World(int a) : a_{a}, b_(Make<int>(a)) {\n  Begin();\n}\n}\n", True),
    ("namespace scheduler {\nstd::map<int, std::function<void(int)>> World::Handlers(\n    int a) const {\n  return {};\n}\n}\n", True),
    ("namespace scheduler {\nbool World::operator==(const World& other) const {\n  return true;\n}\n}\n", True),
    ("namespace scheduler {\nstruct Helper { int x = 1; };\nconst Job& World::job() const { return job_; }\n}\n", True),
    ("namespace scheduler {\n#define BEGIN {\nWorld::~World() = default;\nint World::size() { return 1; }\n}\n", True),
    ("namespace scheduler {\nnamespace {\nvoid World::Run() {}\n}\n}\n", False),  # of this file alone
    ("namespace scheduler::sim {\nvoid World::Run() {}\n}\n", False),
    ("namespace scheduler {\nWorld Make() { return World::Of(1); }\nauto x = World::Of(1);\n}\n", False),
    ("namespace scheduler {\nint Count(World::Kind kind) {\n  World::Start(kind);\n  return 1;\n}\n}\n", False),
    ("namespace scheduler {\n// void World::Run() {}\nauto text = \"void World::Run() {}\";\n}\n", False),
    ("namespace World {}\nnamespace scheduler {\nvoid World::Run() {}\n}\n", False),  # a free function, defined by its full name
]


class LintLayers(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(lint_layers, "FLOORS", {})
        patch.start()
        self.addCleanup(patch.stop)

    def problems_of(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, content in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content, encoding="utf-8")
            return lint_layers.find_problems(root)[0]

    def problems(self, path, text):
        return self.problems_of({header: "#pragma once\n" for header in HEADERS} | {path: text})

    def test_accepts_what_points_leftwards(self):
        for path, text in ALLOWED:
            with self.subTest(path=path, text=text[:60]):
                self.assertEqual(self.problems(path, text), [])

    def test_names_the_line_of_what_is_wrong(self):
        for path, text, line, message in REFUSED:
            with self.subTest(path=path, text=text[:60]):
                found = [what for where, number, what in self.problems(path, text) if (where, number) == (path, line)]
                self.assertTrue(any(message in what for what in found), found)

    def test_holds_the_order_of_rooms(self):
        for path, target, message in FLOOR_CASES:
            with self.subTest(path=path, target=target), mock.patch.object(lint_layers, "FLOORS", FLOORS):
                found = self.problems_of(FLOOR_FILES | {path: f'\n#include "{target}"\n'})
                if message is None:
                    self.assertEqual(found, [])
                else:
                    self.assertEqual([(where, line) for where, line, _ in found], [(path, 2)])
                    self.assertIn(message, found[0][2])

    def test_asks_for_a_floor_for_each_room(self):
        with mock.patch.object(lint_layers, "FLOORS", FLOORS):
            (found,) = self.problems_of(FLOOR_FILES | {"scheduler/queues/tree.cc": "", "router/anything.h": ""})
            self.assertEqual(found[0], "scheduler/queues/tree.cc")
            self.assertIn("scheduler/queues has no floor", found[2])
            (found,) = self.problems_of({path: text for path, text in FLOOR_FILES.items() if path != "gateway/log.h"})
            self.assertIn("gateway/log has a floor in tools/lint_layers, but does not exist", found[2])

    def test_finds_circles_of_files(self):
        for files, circle in CIRCLE_CASES:
            with self.subTest(files=files):
                found = self.problems_of(files)
                told = [f"{path}:{line} {what.removeprefix('closes a circle of files: ')}" for path, line, what in found]
                self.assertEqual(told, [] if circle is None else [circle])

    def test_tells_each_circle_once(self):
        pair = {"scheduler/{0}.h": '#include "scheduler/{1}.h"\n', "scheduler/{1}.h": '#include "scheduler/{0}.h"\n'}
        files = {path.format(*names): text.format(*names) for names in ("ab", "cd") for path, text in pair.items()}
        files["scheduler/e.h"] = '#include "scheduler/a.h"\n#include "scheduler/c.h"\n'
        self.assertEqual([path for path, _, _ in self.problems_of(files)], ["scheduler/a.h", "scheduler/c.h"])

    def test_looks_for_circles_and_spread_classes_in_every_folder(self):
        for folder in ("gateway/cli", "gateway/limits", "plugins/auth", "tools/engine", "tests/unit"):
            with self.subTest(folder=folder):
                files = {f"{folder}/{name}.cc": "namespace n {\nvoid World::%s() {}\n}\n" % name for name in "abc"}
                files |= {f"{folder}/p.h": f'#include "{folder}/q.h"\n', f"{folder}/q.h": f'#include "{folder}/p.h"\n'}
                found = self.problems_of(files)
                self.assertEqual([path for path, _, _ in found], [f"{folder}/p.h", f"{folder}/a.cc"])

    def test_finds_classes_in_more_than_two_files(self):
        two = {f"scheduler/{name}.cc": "namespace scheduler {\nvoid World::%s() {}\n}\n" % name for name in ("a", "b")}
        self.assertEqual(self.problems_of(two), [])
        for text, counts in METHODS:
            with self.subTest(text=text):
                found = self.problems_of(two | {"scheduler/c.cc": text})
                self.assertEqual([(path, line) for path, line, _ in found], [("scheduler/a.cc", 2)] if counts else [])
                if counts:
                    self.assertIn("the methods of scheduler::World stand in 3 files (scheduler/a.cc, scheduler/b.cc, scheduler/c.cc)",
                                  found[0][2])

    def test_asks_for_readmes_and_checks_the_paths_in_them(self):
        for files, wanted in README_CASES:
            with self.subTest(files=files), tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                for name, content in files.items():
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(content, encoding="utf-8")
                found = [*lint_layers.find_missing_readmes(root), *lint_layers.find_stale_paths(root)]
                self.assertEqual([f"{path}:{line} {what.split(':')[0]}" for path, line, what in found], wanted)

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
