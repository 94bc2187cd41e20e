// StoredBatches: the batches of this gateway, and shared ones, as the store has them. Each change is in the store, with
// its event for the ledger, before it counts.
//
// One gateway at a time runs a shared batch. Each write names the version that it replaces, so a write of a former
// runner is refused, whatever that gateway still believes.
//
// Owner: Batches. Thread: the loop's.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/batches/batch.h"
#include "gateway/batches/both_copies.h"
#include "gateway/batches/files.h"
#include "gateway/net/loop.h"
#include "gateway/people/principal.h"
#include "gateway/store/store.h"

namespace gateway::batches {

// What an application asks for.
struct Creation {
  PrincipalRef principal = {};
  std::string input_file = {};
  std::string endpoint = {};
  std::string window = std::string(kUsualWindow);  // a duration
  std::map<std::string, std::string> metadata = {};
  std::optional<conf::Duration> output_age = {};
  std::optional<uint64_t> lines = {};  // of an input that was checked: the batch runs at once
};

class StoredBatches {
 public:
  static constexpr size_t kMostStored = 1000;  // of a tenant; the oldest that have ended go first

  // All must outlive it. `changed` is called after each change of a shared batch.
  StoredBatches(net::Loop& loop, store::Store& store, Files& files, std::function<void()> changed);

  net::Task<absl::Status> Start() { return copy_.Start(); }
  void Stop();

  std::vector<const BothCopies<Batch>::Entry*> all() const { return copy_.all(); }
  // Of what other gateways have changed, too.
  net::Task<absl::Status> CatchUpShared() { return copy_.CatchUpShared(); }
  // Null: there is none.
  const Batch* Find(std::string_view id) const;
  std::vector<const Batch*> OfTenant(std::string_view tenant) const;  // the newest first
  // The batch that has not ended and needs that file.
  std::optional<std::string> UserOf(std::string_view file) const;
  // Whether a batch that this gateway runs needs that file.
  bool NeededHere(std::string_view file) const;
  // Names in the folder of files that must stay.
  std::set<std::string> UsedFiles() const;
  // Whether this gateway runs it: always, if it is not shared.
  bool IsRunHere(const Batch& batch) const {
    return !batch.shared || batch.runner == files_.sharing().gateway;
  }

  // `most_active`: batches of a tenant that have not ended.
  net::Task<Result<Batch>> Create(Creation creation, uint32_t most_active, conf::TimePoint now);
  net::Task<Result<Batch>> Cancel(std::string tenant, std::string id, std::string key, conf::TimePoint now);
  // Forgets one that has ended; its files stay.
  net::Task<Result<Batch>> Delete(std::string tenant, std::string id, std::string key);
  // Forgets those that ended longer ago than files are kept.
  net::Task<void> Sweep(conf::TimePoint now);

  // Makes this gateway the runner of a shared batch, in the next epoch unless it is that already. One try. An
  // error: it is not, or that is not known.
  net::Task<absl::Status> Claim(std::string id);
  // Changes a shared batch that this gateway runs in that epoch, with `also` in the same transaction. One try.
  // PermissionDenied: another gateway runs it now; Aborted: it has changed, or `edit` says that it has.
  net::Task<absl::Status> ChangeRun(std::string id, uint64_t epoch, std::function<bool(Batch&)> edit,
                                    std::vector<store::Write> also = {});
  // Changes one that has not ended and that this gateway runs, with `also` in the same transaction. Tries again until
  // it can be written; false: the batch is gone, another gateway runs it, or this one stops.
  net::Task<bool> Change(std::string id, std::function<void(Batch&)> edit, std::string_view action,
                         std::vector<store::Write> also = {});

 private:
  net::Task<absl::Status> Commit(const Batch& batch, uint64_t replaces, std::string_view action,
                                 std::string actor, std::vector<store::Write> also);

  net::Loop& loop_;
  store::Store& store_;
  Files& files_;
  BothCopies<Batch> copy_;
  bool stopped_ = false;
};

}  // namespace gateway::batches
