// A file or a folder of this machine, which may be another's that is mounted.
#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "gateway/net/files.h"
#include "plugins/weights/file_plan.h"

namespace plugins::weights {

absl::StatusOr<FilePlan> PlanPath(const PathSource& source) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(source.path, error);
  if (!fs::exists(status))
    return absl::NotFoundError(fmt::format("{} does not exist on this node", source.path));
  FilePlan plan;
  const fs::path root(source.path);
  if (fs::is_regular_file(status)) {
    const uintmax_t size = fs::file_size(root, error);
    if (error) return gateway::net::SystemError("read", source.path, error.value());
    plan.digest = DigestOf::kFile;
    plan.files.push_back({.path = root.filename().string(), .from = source.path, .size = size});
    return plan;
  }
  if (!fs::is_directory(status))
    return absl::FailedPreconditionError(fmt::format("{} is neither a file nor a folder", source.path));
  // Links to folders are not followed; those to files are, as in the caches of Hugging Face's tools.
  fs::recursive_directory_iterator walk(root, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    std::error_code kind;
    if (!walk->is_regular_file(kind)) continue;
    const uintmax_t size = walk->file_size(kind);
    if (kind) return gateway::net::SystemError("read", walk->path().string(), kind.value());
    plan.files.push_back({.path = walk->path().lexically_relative(root).generic_string(),
                          .from = walk->path().string(),
                          .size = size});
  }
  if (error) return gateway::net::SystemError("list", source.path, error.value());
  return plan;
}

}  // namespace plugins::weights
