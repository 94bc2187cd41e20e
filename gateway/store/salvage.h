// What can still be read of a store file that is damaged.
//
// The file itself is not touched: a copy of it, and of its log of changes, is read row by row, and rows on
// pages that SQLite cannot read are left out. What is read may be older than what was stored last: the caller
// compares it with what else it knows.
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

// Nothing where there is no file, or nothing of it is a database. An error: the copy cannot be made.
absl::StatusOr<Salvaged> Salvage(const std::string& path);

}  // namespace gateway::store
