// CommitRecorded: a change of the store together with its record for the ledger.
//
// Thread: that of the copy's loop.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "gateway/audit/stored_events.h"
#include "gateway/ledger/record.h"
#include "gateway/net/task.h"
#include "gateway/store/stored_copy.h"

namespace gateway {

// With a store of its own (`epoch` 0), the gateway first records the event in the ledger by `record`, and then makes the
// change. In a shared store the event is one of the writes, since only the store knows who leads. `write` makes the
// change; without a value, nothing has to change any more. OK: both are on disk. Errors are those of `record` and of StoredCopy::Commit. `stored` must outlive it.
template <class T>
net::Task<absl::Status> CommitRecorded(store::StoredCopy<T>& stored, uint64_t epoch, ledger::Event event,
                                       std::function<net::Task<absl::Status>(ledger::Event)> record,
                                       std::function<std::optional<store::Write>()> write) {
  std::vector<store::Write> writes;
  if (epoch != 0) {
    writes.push_back(StoredEvent(std::move(event)));
  } else if (absl::Status recorded = co_await record(std::move(event)); !recorded.ok()) {
    co_return recorded;
  }
  std::optional<store::Write> change = write();
  if (!change) co_return absl::OkStatus();
  writes.push_back(*std::move(change));
  co_return co_await stored.Commit(std::move(writes), epoch);
}

}  // namespace gateway
