// FetchFiles: all files of a plan into a folder, some at a time. Blocks; each of its threads has a loop.
//
// With neighbours, each file comes from the first of their stores that has it, and else from the source; a part
// is continued wherever the rest comes from. The plan is then a neighbour's, and each file has a hash.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugins/weights/file_plan.h"
#include "plugins/weights/listing.h"
#include "plugins/weights/neighbours.h"
#include "plugins/weights/web.h"

namespace plugins::weights {

struct FileSteps {
  std::string folder{};  // the files'
  std::string tags{};    // for what resumes a file
  uint32_t connections = 4;
  Web::Options web{};
  Neighbours* neighbours = nullptr;  // the plan is theirs; null: it is the source's
  Web::Options neighbours_web{};
  // The source's own plan, once a file has to come from there; on any of the threads, once.
  std::function<absl::StatusOr<FilePlan>()> source_plan{};
  // The sizes are known as far as that; an error ends all. On any of the threads, one at a time.
  std::function<absl::Status(uint64_t bytes)> make_room{};
  std::function<void(uint64_t bytes, uint64_t of)> report{};  // on the caller's thread
  conf::Duration report_every{};
};

struct FetchedFiles {
  std::vector<ListedFile> files{};  // in the plan's order
  uint64_t bytes = 0;
  uint64_t transferred = 0;
  uint64_t neighbours = 0;  // of these
};

// The files are on disk when it returns OK. The first error ends all; what came so far stays.
absl::StatusOr<FetchedFiles> FetchFiles(const FilePlan& plan, const FileSteps& steps);

}  // namespace plugins::weights
