#include "gateway/control/launching/open_launcher.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "gateway/config/state_files.h"
#include "gateway/control/launching/open_kubernetes.h"
#include "gateway/control/launching/open_slurm.h"
#include "gateway/log.h"
#include "gateway/net/files.h"
#include "plugins/devices/builtin.h"
#include "plugins/devices/faults.h"
#include "plugins/devices/machine.h"
#include "plugins/launchers/process.h"

namespace gateway::control {

namespace {

// Faults from a watch that may hang in a driver for good: then its earlier faults count.
class PatientFaults {
 public:
  explicit PatientFaults(std::shared_ptr<plugins::devices::FaultWatch> watch)
      : shared_(std::make_shared<Shared>()) {
    shared_->watch = std::move(watch);
  }

  std::map<std::string, plugins::devices::Fault> Find() {
    std::unique_lock lock(shared_->mutex);
    if (!std::exchange(shared_->looks, true)) {
      // Detached: nobody could end it.
      std::thread([shared = shared_] {
        std::map<std::string, plugins::devices::Fault> found = shared->watch->FindFaults();
        const std::lock_guard locked(shared->mutex);
        shared->found = std::move(found);
        shared->looks = false;
        shared->changed.notify_all();
      }).detach();
    }
    shared_->changed.wait_for(lock, kPatience, [this] { return !shared_->looks; });
    return shared_->found;
  }

 private:
  static constexpr std::chrono::seconds kPatience{5};  // the gateway may be about to end

  struct Shared {
    std::shared_ptr<plugins::devices::FaultWatch> watch;
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, plugins::devices::Fault> found;
    bool looks = false;
  };
  const std::shared_ptr<Shared> shared_;
};

// Null if there are no devices.
std::function<std::map<std::string, plugins::devices::Fault>()> FindFaultsOf(
    const std::vector<plugins::devices::LocalNode>& nodes) {
  std::vector<plugins::devices::Device> known;
  for (const plugins::devices::LocalNode& node : nodes)
    known.insert(known.end(), node.devices.begin(), node.devices.end());
  if (known.empty()) return nullptr;
  auto watch =
      std::make_shared<plugins::devices::FaultWatch>(std::move(known), plugins::devices::BuiltinProbes());
  return [patient = std::make_shared<PatientFaults>(std::move(watch))] { return patient->Find(); };
}

// The bound of logs where the configuration sets none.
constexpr uint64_t kMostLogs = uint64_t{16} << 30;

dev_t DiskOf(const std::string& path) {
  struct stat found{};
  return stat(path.c_str(), &found) == 0 ? found.st_dev : 0;
}

// The output of runs leaves room for the gateway's records: output is lost before requests are refused.
void BoundLogs(const Config& config, plugins::launchers::ProcessLauncher::Options& options) {
  const config::Runs& runs = config.scaling->runs;
  options.logs_dir = runs.logs_dir;
  options.log_bytes = uint64_t{runs.log_mib} << 20;
  std::string folder = config.server.state_dir;
  if (!runs.logs_dir.empty()) {
    folder = runs.logs_dir;
    net::MakeDirectories(folder, 0700).IgnoreError();  // the launcher says what is wrong with it
  }
  if (DiskOf(folder) == DiskOf(config.server.state_dir))
    options.log_floor = config.ledger.min_free_bytes + config.ledger.min_free_bytes / 4;
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(folder, error);
  options.logs_bytes = runs.logs_mib ? uint64_t{*runs.logs_mib} << 20
                       : error       ? kMostLogs
                                     : std::min<uint64_t>(kMostLogs, disk.capacity / 4);
}

}  // namespace

absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenLauncher(
    net::Loop& loop, const Config& config, const RunUsers& users, plugins::launchers::Broker* broker) {
  const config::Scaling& scaling = *config.scaling;
  const std::string& state_dir = config.server.state_dir;
  if (scaling.launcher == config::LauncherKind::kSlurm) return OpenSlurm(loop, scaling, state_dir);
  if (scaling.launcher == config::LauncherKind::kKubernetes) return OpenKubernetes(loop, config);
  using plugins::launchers::ProcessLauncher;
  ProcessLauncher::Options options;
  options.state_dir = LauncherDir(state_dir);
  options.nodes = scaling.probed ? scaling.probed->nodes : plugins::devices::LocalNodesOf(scaling.nodes);
  if (scaling.probed) {
    for (const std::string& left : scaling.probed->left_out) log::Warn("device not used", {{"why", left}});
    options.find_faults = FindFaultsOf(scaling.probed->nodes);
  }
  options.mps = scaling.shares == config::Shares::kMps;
  options.first_port = scaling.ports.first;
  options.last_port = scaling.ports.last;
  options.limits = {.processes = scaling.runs.processes,
                    .open_files = scaling.runs.open_files,
                    .file_bytes = uint64_t{scaling.runs.file_gib} << 30};
  BoundLogs(config, options);
  if (broker != nullptr && !users.names().empty()) {
    options.make_host = [&](const std::string& token, const std::string& wrapper) {
      return broker->MakeHost(token, wrapper, users.names());
    };
  }
  auto launcher = ProcessLauncher::Open(loop, std::move(options));
  if (!launcher.ok()) return launcher.status();
  return *std::move(launcher);
}

}  // namespace gateway::control
