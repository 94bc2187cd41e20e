// A gateway that starts on the state of version 0.1: keys.jsonl, key_events.json, jobs.jsonl and replicas.json, as
// that version wrote them.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using testing::IsEmpty;

constexpr std::string_view kSuffix = ".imported-0.1";

// Keys: app, one that was revoked, and one that replaces the first. Each line ends with a checksum.
constexpr std::string_view kKeys =
    R"({"event":1,"kind":"created","at":"2026-01-01T00:00:00Z","by":"ops","key":{"id":"AAAAAAAA)"
    R"(AA","hash":"ed8c9ef45eb90e2ad426b626ac5ada5e51499ed02ffe8acecc2e2be411a0c327","tenant":")"
    R"(demo","name":"app","created":"2026-01-01T00:00:00Z","created_by":"ops"},"sum":"a385e4740)"
    R"(9e42458"})"
    "\n"
    R"({"event":2,"kind":"created","at":"2026-01-01T00:01:00Z","by":"ops","key":{"id":"BBBBBBBB)"
    R"(BB","hash":"e95f13032ff05d0da90c39d4b9a9507778297a8483dd44f6df6e5271d5722ac8","tenant":")"
    R"(demo","name":"old","created":"2026-01-01T00:01:00Z","created_by":"ops"},"sum":"c6266fe85)"
    R"(bd47038"})"
    "\n"
    R"({"event":3,"kind":"revoked","at":"2026-01-02T00:00:00Z","by":"ops","id":"BBBBBBBBBB","re)"
    R"(ason":"leaked","sum":"9f1768594eb48a81"})"
    "\n"
    R"({"event":4,"kind":"rotated","at":"2026-01-03T00:00:00Z","by":"ops","id":"AAAAAAAAAA","ov)"
    R"(erlap_until":"2036-01-01T00:00:00Z","key":{"id":"CCCCCCCCCC","hash":"a25fac0a7df85c0c067)"
    R"(6afb1a2e9a69177cef991fa2dae90aa8ded37aea90ca0","tenant":"demo","name":"app","created":"2)"
    R"(026-01-03T00:00:00Z","rotated_from":"AAAAAAAAAA"},"sum":"32918bd371f12fab"})"
    "\n";
constexpr std::string_view kKeyEvents = "{\"event\":4,\"ledger_seq\":0}\n";

// What was compacted, what was appended since, and a last line that a crash has cut.
constexpr std::string_view kJobs =
    R"({"last":2})"
    "\n"
    R"({"at_us":1767225601000000,"file":"job.yaml","number":0,"queue":"default","submission":"d)"
    R"(one-1","tenant":"","text":"name: done\ncommand: [/bin/true]\ndevices: [{kind: gpu, count)"
    R"(: 1}]\n","user":"ada"})"
    "\n"
    R"({"actor":"control","afterwards":"ends","attempt":1,"before":[],"done_us":0,"element":0,")"
    R"(job":"done-1","members":[{"cpu_milli":0,"device_mib":0,"devices":1,"ended":true,"exit_co)"
    R"(de":0,"isolation":0,"memory_mib":0,"milli":1000,"node":"local","rank":0,"role":0,"run":")"
    R"(j-done-1-1-0"}],"next":[],"of":"done-1","restarts":0,"resumes":false,"since_us":17672256)"
    R"(09000000,"started_us":1767225606000000,"state":"done","why":"its members have done their)"
    R"( work"})"
    "\n"
    R"({"at_us":1767225602000000,"file":"job.yaml","number":0,"queue":"default","submission":"l)"
    R"(ater-2","tenant":"","text":"name: later\ncommand: [/bin/true]\ndevices: [{kind: gpu, cou)"
    R"(nt: 1}]\n","user":"ada"})"
    "\n"
    R"({"actor":"ada","afterwards":"suspends","attempt":1,"before":[{"cpu_milli":0,"device_mib")"
    R"(:0,"devices":2,"ended":true,"isolation":0,"memory_mib":0,"milli":1000,"node":"local","ra)"
    R"(nk":0,"role":0,"run":"j-later-2-1-0","why":"ended by signal 15"}],"done_us":0,"element":)"
    R"(0,"job":"later-2","members":[],"next":[],"of":"later-2","restarts":0,"resumes":false,"si)"
    R"(nce_us":1767225612000000,"started_us":1767225607000000,"state":"suspended","why":"suspen)"
    R"(ded by ada"})"
    "\n"
    R"({"at_us":1767225603000000,"file":"job.yaml","number":3,"queue":"default","submission":"w)"
    R"(aits-3","tenant":"","text":"name: waits\ncommand: [/bin/true]\ndevices: [{kind: gpu, cou)"
    R"(nt: 1}]\n","user":"ada"})"
    "\n"
    R"({"actor":"ada","afterwards":"waits","attempt":0,"before":[],"done_us":0,"element":0,"job)"
    R"(":"waits-3","members":[],"next":[],"of":"waits-3","restarts":0,"resumes":false,"since_us)"
    R"(":1767225603000000,"started_us":0,"state":"pending","why":"submitted by ada"})"
    "\n"
    R"({"at_us":1767225604000000,"file":"job.yaml","number":4,"queue":"default","submission":"t)"
    R"(rains-4","tenant":"","text":"name: trains\ncommand: [/bin/true]\ndevices: [{kind: gpu, c)"
    R"(ount: 1}]\n","user":"ada"})"
    "\n"
    R"({"actor":"ada","afterwards":"waits","attempt":0,"before":[],"done_us":0,"element":0,"job)"
    R"(":"trains-4","members":[],"next":[],"of":"trains-4","restarts":0,"resumes":false,"since_)"
    R"(us":1767225604000000,"started_us":0,"state":"pending","why":"submitted by ada"})"
    "\n"
    R"({"actor":"control","afterwards":"waits","attempt":1,"before":[],"done_us":0,"element":0,)"
    R"("job":"trains-4","members":[{"cpu_milli":0,"device_mib":0,"devices":4,"isolation":0,"mem)"
    R"(ory_mib":0,"milli":1000,"node":"local","rank":0,"role":0,"run":"j-trains-4-1-0"}],"next")"
    R"(:[],"of":"trains-4","restarts":0,"resumes":false,"since_us":1767225620000000,"started_us)"
    R"(":1767225620000000,"state":"starting","why":"there is room for it"})"
    "\n"
    R"({"actor":"control","afterwards":"waits","attempt":1,"before":[],"done_us":0,"element":0,)"
    R"("job":"trains-4","members":[{"cpu_milli":0,"device_mib":0,"devices":4,"isolation":0,"mem)"
    R"(ory_mib":0,"milli":1000,"node":"local","rank":0,"role":0,"run":"j-trains-4-1-0"}],"next")"
    R"(:[],"of":"trains-4","restarts":0,"resumes":false,"since_us":1767225621000000,"started_us)"
    R"(":1767225620000000,"state":"running","why":"there is room for it"})"
    "\n"
    R"({"at_us":1767225605000000,"file":"job.yaml","number":5,"queue":"default","submission":"o)"
    R"(ff-5","tenant":"","text":"name: off\ncommand: [/bin/true]\ndevices: [{kind: gpu, count: )"
    R"(1}]\n","user":"ada"})"
    "\n"
    R"({"actor":"ada","afterwards":"waits","attempt":0,"before":[],"done_us":0,"element":0,"job)"
    R"(":"off-5","members":[],"next":[],"of":"off-5","restarts":0,"resumes":false,"since_us":17)"
    R"(67225605000000,"started_us":0,"state":"pending","why":"submitted by ada"})"
    "\n"
    R"({"actor":"ada","afterwards":"cancels","attempt":0,"before":[],"done_us":0,"element":0,"j)"
    R"(ob":"off-5","members":[],"next":[],"of":"off-5","restarts":0,"resumes":false,"since_us":)"
    R"(1767225622000000,"started_us":0,"state":"cancelled","why":"cancelled by ada"})"
    "\n"
    R"({"actor":"ada","afterwards":"wai)";

// A replica whose process is gone, as after a restart of the machine.
constexpr std::string_view kReplicas =
    R"({
 "replicas": [
  {
   "cpu_milli": 0,
   "device_mib": 0,
   "devices": [
    3
   ],
   "kind": "gpu",
   "launched_us": 1767225630000000,
   "memory_mib": 0,
   "milli": 1000,
   "model": "chat-small",
   "node": "local",
   "run": "r-chat-small-5f1a2b-1"
  }
 ]
}
)";

const std::vector<std::pair<std::string, std::string_view>> kFiles = {{"keys.jsonl", kKeys},
                                                                      {"key_events.json", kKeyEvents},
                                                                      {"jobs.jsonl", kJobs},
                                                                      {"replicas.json", kReplicas}};

std::string Secret(char id, char rest) {
  return fmt::format("tg-{}-{}", std::string(10, id), std::string(43, rest));
}

// What a traced program did: "sync", or "rename" for a file that is imported.
using Steps = std::vector<std::string>;

// Runs `tidegate serve` and kills it (-9) just before step `at`, or after the last rename of the import.
class TracedStart {
 public:
  explicit TracedStart(const std::string& config) : child_(fork()) {
    if (child_ != 0) return;
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    alarm(60);  // for a start that imports nothing
    raise(SIGSTOP);
    const int output = open("/dev/null", O_WRONLY);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(TIDEGATE_BINARY, TIDEGATE_BINARY, "serve", "--config", config.c_str(), nullptr);
    _exit(78);
  }
  // The process is gone when all its traced threads are.
  ~TracedStart() {
    kill(child_, SIGKILL);
    while (true) {
      int status = 0;
      const pid_t thread = waitpid(-1, &status, __WALL);
      if (thread < 0 && errno != EINTR) return;
      if (thread == child_ && (WIFEXITED(status) || WIFSIGNALED(status))) return;
    }
  }
  TracedStart(const TracedStart&) = delete;
  TracedStart& operator=(const TracedStart&) = delete;

  // Nothing: this system does not allow a process to trace its child.
  std::optional<Steps> KillBefore(size_t at) {
    int status = 0;
    waitpid(child_, &status, 0);
    if (!WIFSTOPPED(status)) return std::nullopt;
    ptrace(PTRACE_SETOPTIONS, child_, nullptr,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL);
    ptrace(PTRACE_SYSCALL, child_, nullptr, nullptr);
    Steps steps;
    size_t renamed = 0;
    while (true) {
      const pid_t thread = waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) return steps;
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (thread == child_) return steps;
        continue;
      }
      int signal = WSTOPSIG(status);
      if (signal == (SIGTRAP | 0x80)) {
        if (renamed == kFiles.size()) return steps;
        const std::string step = StepOf(thread);
        if (!step.empty() && steps.size() == at) return steps;
        if (!step.empty()) steps.push_back(step);
        renamed += step == "rename" ? 1 : 0;
        signal = 0;
      } else if (signal == SIGTRAP || signal == SIGSTOP) {
        signal = 0;
      }
      ptrace(PTRACE_SYSCALL, thread, nullptr, signal);
    }
  }

 private:
  static std::string StepOf(pid_t thread) {
    __ptrace_syscall_info info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_ENTRY)
      return {};
    switch (info.entry.nr) {
      case SYS_fsync:
      case SYS_fdatasync:
        return "sync";
#ifdef SYS_rename
      case SYS_rename:
        return IsImport(thread, info.entry.args[1]) ? "rename" : "";
#endif
      case SYS_renameat:
      case SYS_renameat2:
        return IsImport(thread, info.entry.args[3]) ? "rename" : "";
      default:
        return {};
    }
  }
  static bool IsImport(pid_t thread, uint64_t path) {
    char text[512] = {};
    const iovec here{text, sizeof text - 1};
    const iovec there{reinterpret_cast<void*>(path), sizeof text - 1};  // NOLINT(performance-no-int-to-ptr)
    if (process_vm_readv(thread, &here, 1, &there, 1, 0) <= 0) return false;
    return std::string_view(text).ends_with(kSuffix);
  }

  const pid_t child_;
};

class StateOfVersion01 : public testing::Test {
 protected:
  StateOfVersion01() : scaled_({}, "cluster: [{kind: gpu, count: 4}]") { scaled_.gateway.Kill(); }
  ~StateOfVersion01() override { EXPECT_TRUE(commands_.CancelAll()); }

  GatewayProcess& gateway() { return scaled_.gateway; }
  std::string Path(const std::string& name) { return gateway().state_dir() + "/" + name; }

  void PutOldState() {
    std::filesystem::remove_all(gateway().state_dir());
    std::filesystem::create_directories(gateway().state_dir());
    for (const auto& [name, text] : kFiles) {
      std::ofstream(Path(name), std::ios::binary) << text;
      std::filesystem::permissions(Path(name), std::filesystem::perms(0600));
    }
  }
  int StatusWith(const std::string& secret) {
    return gateway().Ask(Get("/v1/models", fmt::format("Authorization: Bearer {}\r\n", secret))).status;
  }
  std::string StateOf(const std::string& id) { return commands_.StateOf(id); }

  void ExpectImported() {
    EXPECT_EQ(StatusWith(Secret('A', '0')), 200);
    EXPECT_EQ(StatusWith(Secret('C', '2')), 200);
    EXPECT_EQ(StatusWith(Secret('B', '1')), 401) << "it was revoked";
    EXPECT_EQ(StatusWith(Secret('D', '3')), 401);
    ASSERT_TRUE(Within(JobCommands::kPatience, [&] { return commands_.Run({"jobs", "list"}).code == 0; }));
    EXPECT_EQ(StateOf("done-1"), "done");
    EXPECT_EQ(StateOf("later-2"), "suspended");
    EXPECT_EQ(StateOf("off-5"), "cancelled");
    EXPECT_TRUE(commands_.Comes("waits-3", "done")) << commands_.Explain("waits-3");
    EXPECT_TRUE(commands_.Comes("trains-4", "done", 2)) << commands_.Explain("trains-4");
    EXPECT_THAT(scaled_.Replicas(), IsEmpty()) << "its process is gone";
    for (const auto& [name, text] : kFiles) {
      EXPECT_FALSE(std::filesystem::exists(Path(name))) << name;
      EXPECT_EQ(ReadFile(Path(name + std::string(kSuffix))), text) << name;
    }
  }

  Scaled scaled_;
  JobCommands commands_{scaled_.gateway};
};

TEST_F(StateOfVersion01, IsImportedOnceAndItsFilesAreKept) {
  PutOldState();
  gateway().Start();
  ExpectImported();
  const CliResult resumed = commands_.Run({"jobs", "resume", "later-2"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(commands_.Comes("later-2", "done", 2)) << commands_.Explain("later-2");
  EXPECT_EQ(gateway()
                .AskAdmin(Post(fmt::format("/admin/v1/keys/{}:revoke", std::string(10, 'C')), "{}",
                               Scaled::Credentials()))
                .status,
            200);
  EXPECT_EQ(commands_.Submit("name: next\ncommand: [/bin/true]\n"), "next-6") << "numbers are not used again";

  gateway().Restart();
  EXPECT_EQ(StatusWith(Secret('A', '0')), 200);
  EXPECT_EQ(StatusWith(Secret('C', '2')), 401) << "the key was imported again";
  ASSERT_TRUE(Within(JobCommands::kPatience, [&] { return commands_.Run({"jobs", "list"}).code == 0; }));
  EXPECT_EQ(StateOf("later-2"), "done") << "the job was imported again";
  for (const auto& [name, text] : kFiles) {
    EXPECT_FALSE(std::filesystem::exists(Path(name))) << name;
    EXPECT_EQ(ReadFile(Path(name + std::string(kSuffix))), text) << name;
  }
  EXPECT_TRUE(gateway().Verify().ok());
}

TEST_F(StateOfVersion01, AKillBetweenStepsOfTheImportLosesNothing) {
  PutOldState();
  const std::optional<Steps> all = TracedStart(gateway().config_path()).KillBefore(SIZE_MAX);
  if (!all) GTEST_SKIP() << "needs the right to trace a child";
  ASSERT_EQ(std::ranges::count(*all, "rename"), static_cast<std::ptrdiff_t>(kFiles.size()))
      << fmt::format("{}", fmt::join(*all, " "));
  // Before each rename, and before the write to the disk that comes before it: the end of a transaction.
  std::vector<size_t> places;
  for (size_t i = 0; i < all->size(); ++i) {
    if ((*all)[i] != "rename") continue;
    if (i > 0 && (*all)[i - 1] == "sync") places.push_back(i - 1);
    places.push_back(i);
  }
  for (const size_t place : places) {
    SCOPED_TRACE(fmt::format("killed before step {} of: {}", place, fmt::join(*all, " ")));
    PutOldState();
    ASSERT_TRUE(TracedStart(gateway().config_path()).KillBefore(place));
    gateway().Start();
    ExpectImported();
    gateway().Kill();
    if (HasFailure()) break;
  }
  gateway().Start();
}

}  // namespace
}  // namespace tests
