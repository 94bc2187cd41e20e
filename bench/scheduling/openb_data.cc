#include "bench/scheduling/openb_data.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>

#include "scheduler/io/csv.h"
#include "scheduler/io/lines.h"
#include "scheduler/io/nodes_csv.h"
#include "scheduler/sim/traces/openb.h"

namespace bench::scheduling {
namespace {

constexpr std::array<std::string_view, 9> kLists = {"default",    "cpu050",      "cpu100",
                                                    "gpushare40", "gpushare100", "gpuspec10",
                                                    "gpuspec25",  "multigpu20",  "multigpu50"};

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

absl::StatusOr<Openb> LoadOpenb(const std::string& folder) {
  Openb openb;
  const std::string nodes_path = folder + "/openb_node_list_gpu_node.csv";
  const absl::StatusOr<std::string> nodes = ReadFile(nodes_path);
  if (!nodes.ok()) return nodes.status();
  absl::Status read = CheckReport(scheduler::io::ReadNodes(*nodes, nodes_path, openb.cluster));
  if (!read.ok()) return read;

  for (const std::string_view name : kLists) {
    const std::string path = fmt::format("{}/openb_pod_list_{}.csv", folder, name);
    const absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return text.status();
    const scheduler::sim::Trace trace = scheduler::sim::ReadOpenb(*text, path);
    OpenbList list{std::string(name), {}};
    for (const scheduler::sim::TraceJob& pod : trace.jobs) list.asks.push_back(pod.job.roles.front().ask);
    if (list.asks.empty()) return absl::InvalidArgumentError(path + ": has no pods");
    openb.lists.push_back(std::move(list));
  }
  absl::Status published = ReadPublished(folder + "/published_allocation.csv", openb);
  if (!published.ok()) return published;
  return openb;
}

}  // namespace bench::scheduling
