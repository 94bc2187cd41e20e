// The job commands of `tidegate`, asked of a gateway that runs, as its operator would.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fault/gateway/scaling.h"
#include "tests/support/run_cli.h"

namespace tests {

class JobCommands {
 public:
  explicit JobCommands(const GatewayProcess& gateway) : gateway_(&gateway) {
    std::ofstream(folder_ / "key") << kScalingAdminKey << "\n";
  }

  CliResult Run(std::vector<std::string> args) const {
    args.insert(args.end(), {"--admin", fmt::format("http://127.0.0.1:{}", gateway_->admin_port()),
                             "--key-file", folder_ / "key"});
    return RunCli(args);
  }
  // Null while the gateway does not answer, or does not know yet.
  Json List(bool all) const {
    std::vector<std::string> args = {"jobs", "list", "--json"};
    if (all) args.emplace_back("--all");
    const Json jobs = Json::parse(Run(args).out, nullptr, false);
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
  bool CancelAll(milliseconds patience) const {
    for (const std::string& id : Open()) (void)Run({"jobs", "cancel", id});
    return Within(patience, [&] { return Open().empty(); });
  }

 private:
  const GatewayProcess* gateway_;
  TempDir folder_;
};

}  // namespace tests
