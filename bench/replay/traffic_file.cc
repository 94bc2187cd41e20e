#include "bench/replay/traffic_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "conf/problem.h"

namespace bench {

absl::StatusOr<std::vector<Call>> ReadTrafficFile(const std::string& path, TrafficFormat format,
                                                  const TrafficWindow& window) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot be opened", path));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  router::sim::Traffic traffic = router::sim::ReadTraffic(text, path, format, window);
  if (traffic.report.left_out > 0) {
    return absl::InvalidArgumentError(fmt::format("{} ({} of {} rows cannot be read)",
                                                  conf::ToString(traffic.report.problems.front()),
                                                  traffic.report.left_out, traffic.report.lines));
  }
  return std::move(traffic.calls);
}

}  // namespace bench
