// Salvage: the readable objects of a damaged store file.
//
// The file itself is not touched: a copy of it, and of its log of changes, is read row by row, and rows on pages that
// SQLite cannot read are left out. The objects may be older than the last stored ones: the caller compares them with
// its other sources.
//
// Blocks; no gateway may use the file meanwhile.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/store/store.h"

namespace gateway::store {

struct Salvaged {
  std::vector<Object> objects;  // the last readable state of each, in the order of their versions
  uint64_t last = 0;            // the highest number of a change that was seen
  bool complete = false;        // every row was readable
};

// Empty where there is no file, or no part of it is a database. An error: the copy cannot be made.
absl::StatusOr<Salvaged> Salvage(const std::string& path);

}  // namespace gateway::store
