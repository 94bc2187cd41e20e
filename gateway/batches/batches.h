// Batches: all batches that this gateway knows: created, checked, run line by line, ended.
//
//   validating ─▶ in_progress ─▶ completed
//        │             ├──────▶ expired      its window is over
//        └─▶ failed ◀──┤                     a bad line; or the key stopped working
//                      └─ cancelling ─▶ cancelled
//
// A gateway that comes up goes on with every batch that has not ended, where its result files end. Lines go out while
// there is one of `batches.max_in_flight` free, a tenant at a time in turn; of a tenant, its oldest batch first. Each
// is sent as a request of the batch's key through the whole pipeline (line_call.h), in the least urgent band.
//
// A shared batch is run by the gateway that created it. When that is gone, or stops, another takes it over and sends
// the lines whose results do not count yet (result_commit.h).
//
// Owner: the process. Thread: the loop's.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/batches/batch.h"
#include "gateway/batches/batch_run.h"
#include "gateway/batches/files.h"
#include "gateway/batches/input_index.h"
#include "gateway/batches/line_call.h"
#include "gateway/batches/sharing.h"
#include "gateway/batches/store_contact.h"
#include "gateway/batches/stored_batches.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"
#include "gateway/people/principal.h"
#include "gateway/shard/runtime.h"
#include "gateway/store/store.h"

namespace gateway::batches {

// For the metrics.
struct BatchStats {
  std::array<uint64_t, 7> batches{};  // by BatchState
  uint64_t completed = 0;             // lines, since the start
  uint64_t failed = 0;
  uint64_t not_sent = 0;  // of batches that were cancelled, expired or lost their key
  uint64_t put_off = 0;   // times that a line waited for room, or was tried again
  uint64_t waiting = 0;   // lines now
  uint64_t in_flight = 0;
  uint64_t paused = 0;      // batches whose results cannot be committed
  uint64_t taken_over = 0;  // from other gateways, since the start
};

class Batches {
 public:
  struct Environment {
    std::function<std::shared_ptr<const Runtime>()> runtime;
    // The principal of a batch's key now; null: the key or the tenant no longer works.
    std::function<PrincipalRef(const std::string& tenant, const std::string& key)> principal;
    SendLine send;
    Sharing sharing = {};
  };

  // All must outlive it.
  Batches(net::Loop& loop, store::Store& store, Files& files, Environment environment);

  net::Task<absl::Status> Start();
  // Continues batches that have not ended, and begins those that are created.
  void Begin();
  // Sends no further line; those that run go on. Shared batches without such lines are left to other gateways.
  void Drain();
  // Shared batches that are not left yet.
  bool leaving() const;
  // Cuts running lines short; their results until now are on disk when the loop's tasks have ended.
  void Stop();

  // Looks at every line of an input; an error: it cannot be read.
  net::Task<absl::StatusOr<InputIndex>> Check(std::string path, absl::StatusOr<ledger::ContentKeyRef> key,
                                              std::string endpoint, PrincipalRef principal);
  net::Task<Result<Batch>> Create(Creation creation, conf::TimePoint now);
  // Nothing: the tenant has none of that id. With the progress of now.
  std::optional<Batch> Find(std::string_view tenant, std::string_view id) const;
  std::vector<Batch> OfTenant(std::string_view tenant) const;  // the newest first
  std::vector<Batch> All() const;                              // likewise
  net::Task<Result<Batch>> Cancel(std::string tenant, std::string id, std::string key, conf::TimePoint now);

  StoredBatches& stored() { return stored_; }
  BatchStats stats() const;

 private:
  using RunRef = std::shared_ptr<BatchRun>;

  net::Task<void> Drive(std::string id, PrincipalRef principal);
  // Until the configuration has the batch's tenant, or the batch needs it no more.
  net::Task<void> AwaitTenant(std::string id);
  // False: it has ended, or the gateway stops.
  net::Task<bool> Validate(std::string id, PrincipalRef principal);
  net::Task<absl::StatusOr<std::string>> InputOf(Batch batch);
  net::Task<RunRef> Open(std::string id);
  net::Task<void> FailErased(std::string id);
  net::Task<void> Finish(RunRef run);
  net::Task<void> FinishShared(RunRef run);
  net::Task<bool> WriteRest(RunRef run);
  std::vector<StoredFile> MadeFiles(const BatchRun& run, conf::TimePoint now) const;
  static void End(const BatchRun& run, conf::TimePoint now, Batch& stored);
  // What removes the parts of a batch, with the change that takes them from it.
  std::vector<store::Write> DiscardingOf(const Batch& batch) const;

  // Of shared batches.
  bool MayTakeOver(const Batch& batch, conf::TimePoint now) const;
  net::Task<void> TakeOver(std::string id);
  net::Task<void> AskStore();
  void CheckRunners();
  void CommitMore(conf::TimePoint now);
  net::Task<void> Commit(RunRef run);
  // In the batch, for its applications. `told`: operators know it.
  net::Task<void> ShowPaused(Batch batch, absl::Status why, bool told);
  net::Task<void> Leave(RunRef run);
  net::Task<void> RemoveRunFiles(RunRef run);
  net::Task<std::optional<std::vector<store::Write>>> MoveResults(std::string id,
                                                                  std::vector<StoredFile>& made);
  net::Task<void> Pump();
  void DriveAll();
  void SendMore();
  bool SendNext(conf::TimePoint now);
  net::Task<void> RunLine(RunRef run, BatchRun::Line line);
  void CheckEnds(conf::TimePoint now);
  void Wake();

  Batch Shown(const Batch& stored) const;
  net::Task<void> Pause();

  net::Loop& loop_;
  Files& files_;
  const Environment environment_;
  StoredBatches stored_;
  StoreContact contact_;
  bool asking_ = false;
  std::map<std::string, RunRef, std::less<>> runs_;
  std::set<std::string, std::less<>> driven_;
  std::string last_tenant_;  // that was served
  uint64_t in_flight_ = 0;
  uint64_t completed_ = 0;
  uint64_t failed_ = 0;
  uint64_t not_sent_ = 0;
  uint64_t put_off_ = 0;
  uint64_t taken_over_ = 0;
  bool begun_ = false;
  bool draining_ = false;
  bool stopped_ = false;
  bool woken_ = false;
  conf::TimePoint look_at_{};  // when all batches are looked at again
  net::Sleep pump_;
};

}  // namespace gateway::batches
