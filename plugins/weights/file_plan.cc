#include "plugins/weights/file_plan.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <variant>

#include "conf/shown.h"
#include "plugins/weights/listing.h"

namespace plugins::weights {

using gateway::net::Task;

absl::StatusOr<FilePlan> Checked(FilePlan plan, const std::string& from) {
  if (plan.files.empty()) return absl::NotFoundError(fmt::format("{} has no files", conf::Visible(from)));
  std::set<std::string> paths;
  for (const PlannedFile& file : plan.files) {
    if (const std::string defect = PathDefect(file.path); !defect.empty())
      return absl::FailedPreconditionError(fmt::format("{}: {}", conf::Visible(from), defect));
    if (!paths.insert(file.path).second)
      return absl::FailedPreconditionError(
          fmt::format("{} has {} twice", conf::Visible(from), conf::Visible(file.path)));
  }
  for (const std::string& path : paths) {
    const auto next = paths.lower_bound(path + "/");
    if (next != paths.end() && next->starts_with(path + "/"))
      return absl::FailedPreconditionError(
          fmt::format("{} has {} both as a file and as a folder", conf::Visible(from), conf::Visible(path)));
  }
  return plan;
}

Task<absl::StatusOr<FilePlan>> PlanFiles(Web& web, const WeightsOrder& order) {
  absl::StatusOr<FilePlan> plan = absl::InternalError("no source");
  if (const auto* const http = std::get_if<HttpSource>(&order.source)) {
    plan = co_await PlanHttp(web, *http, order.digest);
  } else if (const auto* const hub = std::get_if<HuggingFaceSource>(&order.source)) {
    plan = co_await PlanHuggingFace(web, *hub);
  } else if (const auto* const oci = std::get_if<OciSource>(&order.source)) {
    plan = co_await PlanOci(web, *oci, order.digest);
  } else if (const auto* const s3 = std::get_if<S3Source>(&order.source)) {
    plan = co_await PlanS3(web, *s3, order.digest);
  } else if (const auto* const path = std::get_if<PathSource>(&order.source)) {
    plan = PlanPath(*path);
  }
  if (!plan.ok()) co_return plan.status();
  co_return Checked(*std::move(plan), InWords(order.source));
}

}  // namespace plugins::weights
