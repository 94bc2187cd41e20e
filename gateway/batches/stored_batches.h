// StoredBatches: the batches of this gateway as the store has them. Each change is in the store, with its event
// for the ledger, before it counts.
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
#include "gateway/batches/files.h"
#include "gateway/net/loop.h"
#include "gateway/people/principal.h"
#include "gateway/store/store.h"
#include "gateway/store/stored_copy.h"

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

  // All must outlive it.
  StoredBatches(net::Loop& loop, store::Store& store, Files& files);

  net::Task<absl::Status> Start() { return copy_.Start(); }
  void Stop();

  const store::StoredCopy<Batch>::Entries& all() const { return copy_.all(); }
  // Null: there is none.
  const Batch* Find(std::string_view id) const;
  std::vector<const Batch*> OfTenant(std::string_view tenant) const;  // the newest first
  // The batch that has not ended and needs that file.
  std::optional<std::string> UserOf(std::string_view file) const;
  // Files that must stay.
  std::set<std::string> UsedFiles() const;

  // `most_active`: batches of a tenant that have not ended.
  net::Task<Result<Batch>> Create(Creation creation, uint32_t most_active, conf::TimePoint now);
  net::Task<Result<Batch>> Cancel(std::string tenant, std::string id, std::string key, conf::TimePoint now);
  // Forgets one that has ended; its files stay.
  net::Task<Result<Batch>> Delete(std::string tenant, std::string id, std::string key);
  // Forgets those that ended longer ago than files are kept.
  net::Task<void> Sweep(conf::TimePoint now);

  // Changes one that has not ended, with `also` in the same transaction. Tries again until it can be written;
  // false: the batch is gone, or the gateway stops.
  net::Task<bool> Change(std::string id, std::function<void(Batch&)> edit, std::string_view action,
                         std::vector<store::Write> also = {});

 private:
  net::Task<absl::Status> Commit(const Batch& batch, uint64_t replaces, std::string_view action,
                                 std::string actor, std::vector<store::Write> also);

  net::Loop& loop_;
  store::Store& store_;
  Files& files_;
  store::StoredCopy<Batch> copy_;
  bool stopped_ = false;
};

}  // namespace gateway::batches
