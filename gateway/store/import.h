// Imports into the store, once, the state that an earlier version kept in files of its own.
//
// The objects and a record of the import (kind `import`) are one transaction; then the files are renamed to
// `<file>.imported-0.1`. An import that is interrupted at any point is repeated without harm: before the transaction
// nothing has happened, and after it only the files' names are still to change. A file that exists again with other
// contents is refused, since an older gateway has written it after the import.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "gateway/net/task.h"
#include "gateway/store/store.h"

namespace gateway::store {

inline constexpr char kImportedSuffix[] = ".imported-0.1";

struct Import {
  std::string name;                // of the record
  std::vector<std::string> files;  // paths below the folder; those that are missing do not count
  // The objects that the files hold, all of them new. Reads `folder`; DataLoss names the file and the place.
  std::function<absl::StatusOr<std::vector<Write>>(const std::string& folder)> read;
};

// Blocks on the disk for as long as the files are read: before anything is served.
net::Task<absl::Status> RunImport(Store& store, std::string folder, Import import);

}  // namespace gateway::store
