// The job commands of `tidegate` on a running gateway, as an operator runs them.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "conf/json_parse.h"
#include "tests/fault/gateway/scaling.h"
#include "tests/support/run_cli.h"

namespace tests {

class JobCommands {
 public:
  static constexpr milliseconds kPatience{40'000};

  explicit JobCommands(const GatewayProcess& gateway) : gateway_(&gateway) {
    std::ofstream(folder_ / "key") << kScalingAdminKey << "\n";
  }

  CliResult Run(std::vector<std::string> args) const {
    args.insert(args.end(), {"--admin", fmt::format("http://127.0.0.1:{}", gateway_->admin_port()),
                             "--key-file", folder_ / "key"});
    return RunCli(args);
  }
  // Its first job's id. Waits until the gateway knows what runs.
  std::string Submit(std::string_view job) const {
    EXPECT_TRUE(Within(kPatience, [&] { return Run({"jobs", "list"}).code == 0; }));
    const std::string file = folder_ / "job.yaml";
    std::ofstream(file) << job;
    const CliResult submitted = Run({"jobs", "submit", file});
    EXPECT_EQ(submitted.code, 0) << submitted.err;
    return submitted.out.substr(0, submitted.out.find('\n'));
  }
  // Null where there is no such job.
  Json Show(std::string_view id) const {
    for (const Json& job : List(true)) {
      if (job["id"] == id) return job;
    }
    return {};
  }
  std::string StateOf(std::string_view id) const {
    const Json job = Show(id);
    return job.is_object() ? job["state"].get<std::string>() : "(gone)";
  }
  bool Comes(std::string_view id, std::string_view state, uint32_t attempt = 1) const {
    return Within(kPatience, [&] {
      const Json job = Show(id);
      return job.is_object() && job["state"] == state && job["attempt"] == attempt;
    });
  }
  std::string Explain(const std::string& id) const { return Run({"jobs", "explain", id}).out; }
  // Null while the gateway does not answer, or does not know yet.
  Json List(bool all) const {
    std::vector<std::string> args = {"jobs", "list", "--json"};
    if (all) args.emplace_back("--all");
    const Json jobs = conf::ParseJson(Run(args).out);
    return jobs.is_array() ? jobs : Json();
  }
  // "?" while that is not known.
  std::vector<std::string> Open() const {
    const Json jobs = List(false);
    if (jobs.is_null()) return {"?"};
    std::vector<std::string> ids;
    for (const Json& job : jobs) ids.push_back(job["id"]);
    return ids;
  }
  // What is left running would outlive the test.
  bool CancelAll(milliseconds patience = kPatience) const {
    for (const std::string& id : Open()) (void)Run({"jobs", "cancel", id});
    return Within(patience, [&] { return Open().empty(); });
  }

 private:
  const GatewayProcess* gateway_;
  TempDir folder_;
};

}  // namespace tests
