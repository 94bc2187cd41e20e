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

// Where this gateway has its store to itself (`epoch` 0), `record` puts the event into the ledger before the change;
// else the event is stored with it, since the store alone knows who leads. `write` returns nothing when nothing is
// left to change. OK: both are on disk. Errors are those of `record` and of StoredCopy::Commit. `stored` must outlive it.
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
