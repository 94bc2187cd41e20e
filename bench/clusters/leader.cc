// A gateway that leads with 1,000 workloads on Kubernetes, its state in PostgreSQL: what it asks of the database, idle
// and with a job a second; and how long it takes from a decision to the pod.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/clusters/api_server.h"
#include "bench/clusters/database.h"
#include "bench/clusters/samples.h"
#include "bench/clusters/section.h"
#include "tests/support/gateway_process.h"

namespace bench::clusters {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kAdminKey = "a-bootstrap-key-of-enough-characters";

void WriteSecret(const std::string& path, const char* secret) {
  std::ofstream(path) << secret;
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
}

std::string Sections(const tests::TempDir& folder, const ApiServer& server, const Database& database) {
  return fmt::format(
      "admin: {{bootstrap_key: \"file:{}\"}}\nstate: {{url: \"{}\", password: \"file:{}\"}}\n"
      "kubernetes: {{kubeconfig: {}, namespace: {}}}\n"
      "scaling: {{launcher: kubernetes, on_exit: keep, kubernetes: {{name: bench}}}}\n",
      folder / "key", database.url(), folder / "password", server.kubeconfig(), ApiServer::kNameSpace);
}

// User and system, in seconds, as the kernel counts it.
double CpuSeconds(tests::ChildProcess& process) {
  std::string text = tests::ReadFile(fmt::format("/proc/{}/stat", process.pid()));
  std::istringstream words(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) words >> skipped;
  double user = 0;
  double system = 0;
  words >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

class Leader {
 public:
  Leader(const Options& options, ApiServer& server, Database& database)
      : options_(options), server_(server), database_(database) {
    WriteSecret(folder_ / "key", kAdminKey);
    WriteSecret(folder_ / "password", tests::PostgresServer::kPassword);
    gateway_.emplace(Config());
  }

  absl::Status Measure(Json& out) {
    if (!tests::Within(seconds(60), [&] { return Ask(tests::Get("/admin/v1/jobs", Credentials())) == 200; }))
      return absl::UnavailableError("the gateway does not lead: " + gateway_->process().Output());
    const size_t many = options_.Of(1'000);
    const seconds time(options_.quick ? 6 : 40);
    const auto nothing = [] { return absl::OkStatus(); };
    if (absl::Status idle = Window("no workload, idle", "none_idle", time, nothing, out); !idle.ok())
      return idle;
    if (absl::Status submitted = Submit(many); !submitted.ok()) return submitted;
    if (!Comes(many, seconds(300)) || !Rests())
      return absl::UnavailableError("not all jobs have come to run");
    if (absl::Status idle = Window("many workloads, idle", "many_idle", time, nothing, out); !idle.ok())
      return idle;
    const auto job = [&] { return Submit(1); };
    if (absl::Status busy = Window("many, a new job a second", "many_busy", time, job, out); !busy.ok())
      return busy;
    if (absl::Status decided = Decisions(out); !decided.ok()) return decided;
    tests::GatewayProcess follower(Config());
    if (!Rests()) return absl::UnavailableError("the gateways do not come to rest");
    return Window("many, idle, and a follower", "follower_idle", time, nothing, out);
  }

 private:
  tests::GatewayConfig Config() const {
    return {.replicas = {9}, .sections = Sections(folder_, server_, database_)};
  }
  static std::string Credentials() { return fmt::format("Authorization: Bearer {}\r\n", kAdminKey); }
  int Ask(const std::string& request) { return gateway_->AskAdmin(request).status; }

  // Submits one job, or one array of `jobs` elements.
  absl::Status Submit(size_t jobs) {
    std::string file =
        "name: bench\nwork: batch\nimage: engine:1\ncommand: [sleep, \"86400\"]\ndevices: [{count: 1}]\n";
    if (jobs > 1) file += fmt::format("array: {{count: {}}}\n", jobs);
    const tests::Answer answer =
        gateway_->AskAdmin(tests::Post("/admin/v1/jobs", Json{{"job", file}}.dump(), Credentials()));
    submitted_ += jobs;
    return answer.status == 201 ? absl::OkStatus() : absl::InternalError("a job was refused: " + answer.body);
  }
  bool Comes(size_t pods, milliseconds patience) {
    return tests::Within(patience, [&] {
      tests::Pause(milliseconds(1));
      return server_.Created().size() >= pods;
    });
  }
  // Waits until the gateways write only their heartbeats and the lead to the database.
  bool Rests() {
    return tests::Within(seconds(120), [&] {
      const auto before = database_.Read();
      tests::Pause(seconds(4));
      const auto after = database_.Read();
      return before.ok() && after.ok() && after->rows_written - before->rows_written < 40;
    });
  }

  // Prints what the database and the gateway do in each second of that time.
  absl::Status Window(const char* title, const char* name, seconds time,
                      const std::function<absl::Status()>& each_second, Json& out) {
    if (absl::Status written = database_.Checkpoint(); !written.ok()) return written;
    tests::Pause(seconds(2));
    const auto before = database_.Read();
    if (!before.ok()) return before.status();
    const double cpu = CpuSeconds(gateway_->process());
    const auto begun = std::chrono::steady_clock::now();
    for (int64_t second = 1; second <= time.count(); ++second) {
      if (absl::Status done = each_second(); !done.ok()) return done;
      std::this_thread::sleep_until(begun + seconds(second));
    }
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    const double used = CpuSeconds(gateway_->process()) - cpu;
    const auto after = database_.Read();
    if (!after.ok()) return after.status();
    const auto rate = [&](uint64_t Database::Counts::* count) {
      return static_cast<double>((*after).*count - (*before).*count) / took;
    };
    const Json row = {{"commits", rate(&Database::Counts::commits)},
                      {"statements", rate(&Database::Counts::statements)},
                      {"rows_read", rate(&Database::Counts::rows_read)},
                      {"rows_written", rate(&Database::Counts::rows_written)},
                      {"wal_bytes", rate(&Database::Counts::wal_bytes)},
                      {"gateway_cpu_percent", 100 * used / took}};
    fmt::print("{:<32} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:10.0f} {:8.1f}\n", title,
               row["commits"].get<double>(), row["statements"].get<double>(), row["rows_read"].get<double>(),
               row["rows_written"].get<double>(), row["wal_bytes"].get<double>(), 100 * used / took);
    out["database"][name] = row;
    return absl::OkStatus();
  }

  // Single jobs, each when the pod of the one before was asked for.
  absl::Status Decisions(Json& out) {
    const size_t first = submitted_;
    std::vector<int64_t> asked;
    for (size_t i = 0; i < options_.Of(200); ++i) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      asked.push_back(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
      if (absl::Status submitted = Submit(1); !submitted.ok()) return submitted;
      if (!Comes(submitted_, seconds(30))) return absl::UnavailableError("a pod did not come");
    }
    std::vector<int64_t> decided;
    for (const gateway::ledger::Record& record : gateway_->Records()) {
      if (record.kind == gateway::ledger::Kind::kAction && record.action == "job.start")
        decided.push_back(record.time_us);
    }
    const std::vector<int64_t> created = server_.Created();
    if (created.size() != submitted_ || decided.size() != submitted_) {
      return absl::InternalError(
          fmt::format("{} jobs, {} starts and {} pods", submitted_, decided.size(), created.size()));
    }
    Samples from_decision;
    Samples from_submission;
    for (size_t i = first; i < submitted_; ++i) {
      from_decision.Add(static_cast<double>(created[i] - decided[i]) * 1e-3);
      from_submission.Add(static_cast<double>(created[i] - asked[i - first]) * 1e-3);
    }
    for (const auto& [name, millis] :
         {std::pair("decision", &from_decision), std::pair("submission", &from_submission)}) {
      fmt::print("from the {} of a job to its pod, {} there: {:.1f} ms p50, {:.1f} ms p99\n", name, first,
                 millis->At(0.5), millis->At(0.99));
      out["to_pod_ms"][name] = millis->ToJson();
    }
    return absl::OkStatus();
  }

  const Options& options_;
  ApiServer& server_;
  Database& database_;
  tests::TempDir folder_;
  size_t submitted_ = 0;
  std::optional<tests::GatewayProcess> gateway_;
};

}  // namespace

absl::Status MeasureLeader(const Options& options, Json& out) {
  Database database;
  if (absl::Status started = database.Start(); !started.ok()) return started;
  ApiServer server([](tests::FakeKube& kube) {
    for (int i = 0; i < 200; ++i) kube.AddNode(fmt::format("node-{:03}", i), 8);
  });
  fmt::print("{:<32} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8}\n", "each second", "commits", "stmts", "read",
             "written", "WAL bytes", "CPU %");
  Leader leader(options, server, database);
  return leader.Measure(out);
}

}  // namespace bench::clusters
