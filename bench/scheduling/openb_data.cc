#include "bench/scheduling/openb_data.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "scheduler/io/csv.h"
#include "scheduler/io/lines.h"
#include "scheduler/io/nodes_csv.h"
#include "scheduler/sim/traces/openb.h"

namespace bench::scheduling {
namespace {

constexpr std::string_view kListPrefix = "openb_pod_list_";
constexpr std::string_view kNodesPrefix = "openb_node_list_";
constexpr std::string_view kGpuNodes = "openb_node_list_gpu_node.csv";
constexpr std::string_view kPublished = "published_allocation.csv";
// The order of the published lists; lists of other names follow by name.
constexpr std::array<std::string_view, 9> kOrder = {"default",    "cpu050",      "cpu100",
                                                    "gpushare40", "gpushare100", "gpuspec10",
                                                    "gpuspec25",  "multigpu20",  "multigpu50"};

// The files of the folder: the file of nodes, and the names of the lists in order.
struct Folder {
  std::string nodes{};  // a file name; empty: none
  std::vector<std::string> lists{};
  bool published = false;
};

size_t PlaceOf(const std::string& list) {
  return static_cast<size_t>(std::ranges::find(kOrder, list) - kOrder.begin());
}

absl::StatusOr<Folder> LookInto(const std::string& path) {
  Folder folder;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    folder.published = folder.published || name == kPublished;
    if (!name.ends_with(".csv")) continue;
    if (name.starts_with(kListPrefix)) {
      folder.lists.push_back(name.substr(kListPrefix.size(), name.size() - kListPrefix.size() - 4));
    } else if (name == kGpuNodes || (name.starts_with(kNodesPrefix) && folder.nodes != kGpuNodes &&
                                     (folder.nodes.empty() || name < folder.nodes))) {
      folder.nodes = name;
    }
  }
  if (error) return absl::NotFoundError(fmt::format("{}: {}", path, error.message()));
  if (folder.nodes.empty() || folder.lists.empty()) {
    return absl::NotFoundError(fmt::format("{}: needs a list of nodes, {}*.csv, and lists of pods, {}*.csv",
                                           path, kNodesPrefix, kListPrefix));
  }
  std::ranges::sort(folder.lists, {}, [](const std::string& list) { return std::pair(PlaceOf(list), list); });
  return folder;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("{}: cannot be read", path));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::Status CheckReport(const scheduler::io::LineReport& report) {
  if (report.problems.empty()) return absl::OkStatus();
  const conf::Problem& first = report.problems.front();
  return absl::InvalidArgumentError(
      fmt::format("{}:{}: {} ({} lines left out)", first.file, first.line, first.message, report.left_out));
}

absl::Status ReadPublished(const std::string& path, Openb& openb) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  absl::Status status;
  scheduler::io::ForEachLine(*text, [&](std::string_view line, int number) {
    if (line.empty() || number == 1) return;
    const auto fields = scheduler::io::SplitCsv(line);
    Reading reading;
    if (!fields || fields->size() != 5 || !absl::SimpleAtod((*fields)[2], &reading.at_100) ||
        !absl::SimpleAtod((*fields)[3], &reading.at_130)) {
      status = absl::InvalidArgumentError(
          fmt::format("{}:{}: expected workload, policy, two percentages and seeds", path, number));
      return;
    }
    openb.published[{(*fields)[0], (*fields)[1]}] = reading;
  });
  return status;
}

}  // namespace

absl::StatusOr<Openb> LoadOpenb(const std::string& path) {
  const absl::StatusOr<Folder> folder = LookInto(path);
  if (!folder.ok()) return folder.status();
  Openb openb;
  const std::string nodes_path = fmt::format("{}/{}", path, folder->nodes);
  const absl::StatusOr<std::string> nodes = ReadFile(nodes_path);
  if (!nodes.ok()) return nodes.status();
  absl::Status read = CheckReport(scheduler::io::ReadNodes(*nodes, nodes_path, openb.cluster));
  if (!read.ok()) return read;

  for (const std::string& name : folder->lists) {
    const std::string list_path = fmt::format("{}/{}{}.csv", path, kListPrefix, name);
    const absl::StatusOr<std::string> text = ReadFile(list_path);
    if (!text.ok()) return text.status();
    const scheduler::sim::Trace trace = scheduler::sim::ReadOpenb(*text, list_path);
    OpenbList list{name, {}};
    for (const scheduler::sim::TraceJob& pod : trace.jobs) list.asks.push_back(pod.job.roles.front().ask);
    if (list.asks.empty()) return absl::InvalidArgumentError(list_path + ": has no pods");
    openb.lists.push_back(std::move(list));
  }
  if (!folder->published) return openb;
  absl::Status published = ReadPublished(fmt::format("{}/{}", path, kPublished), openb);
  if (!published.ok()) return published;
  return openb;
}

}  // namespace bench::scheduling
