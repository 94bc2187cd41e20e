// StoredPosition: how far a reader of the ledger has come, kept in the store (kind `position`). Its text is
// the reader's.
//
// Owner: the reader's, beside it. Thread: the loop's; one call at a time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "gateway/net/task.h"
#include "gateway/store/import.h"
#include "gateway/store/store.h"

namespace gateway {

class StoredPosition {
 public:
  // `store` must outlive it. `reader` names the position among those of other readers.
  StoredPosition(store::Store& store, std::string reader) : store_(store), reader_(std::move(reader)) {}

  // Nothing when none was saved.
  net::Task<absl::StatusOr<std::optional<std::string>>> Load();
  // Durable when it returns Ok.
  net::Task<absl::Status> Save(std::string text);

 private:
  store::Store& store_;
  const std::string reader_;
  std::optional<store::Object> last_;
  bool known_ = false;  // last_ is what the store has
};

// The positions that version 0.1 kept in `sinks/NAME.cursor`, as they are found in the folder.
store::Import SinkPositionsOfVersion01(const std::string& state_dir);
// The reader's name for the sink of this name.
std::string ReaderOfSink(const std::string& sink);

}  // namespace gateway
