// FetchFiles: all files of a plan into a folder, some at a time. Blocks; each of its threads has a loop.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugins/weights/file_plan.h"
#include "plugins/weights/listing.h"
#include "plugins/weights/web.h"

namespace plugins::weights {

struct FileSteps {
  std::string folder{};  // the files'
  std::string tags{};    // for what resumes a file
  uint32_t connections = 4;
  Web::Options web{};
  // The sizes are known as far as that; an error ends all. On any of the threads, one at a time.
  std::function<absl::Status(uint64_t bytes)> make_room{};
  std::function<void(uint64_t bytes, uint64_t of)> report{};  // on the caller's thread
  conf::Duration report_every{};
};

struct FetchedFiles {
  std::vector<ListedFile> files{};  // in the plan's order
  uint64_t bytes = 0;
  uint64_t transferred = 0;
};

// The files are on disk when it returns OK. The first error ends all; what came so far stays.
absl::StatusOr<FetchedFiles> FetchFiles(const FilePlan& plan, const FileSteps& steps);

}  // namespace plugins::weights
