// The single writer of the segments: assigns sequence numbers, renders and chains records, joins each close
// to its open, signs checkpoints, begins and seals segments, and removes old ones. First recovery uses it, then
// the ledger thread; never both at once.
//
//   while there is work:  Ready → Add… → Commit
//
// Ready and Commit may fail when the disk is full. Then no added record is lost, and both may be called again. This
// is rare: the segment, and the file of the next one, have reserved room on the disk.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/file_ops.h"
#include "gateway/ledger/record.h"
#include "gateway/ledger/render.h"
#include "gateway/ledger/segment.h"
#include "gateway/ledger/signing.h"
#include "gateway/ledger/spend.h"

namespace gateway::ledger {

struct CommitOptions {
  std::string dir;
  uint64_t segment_bytes = 64 << 20;
  conf::Duration segment_age = std::chrono::hours(24);
  uint64_t checkpoint_records = 50'000;
  conf::Duration checkpoint_interval = std::chrono::seconds(5);
  conf::Duration retain_for = conf::Duration::zero();  // 0: for ever
  uint64_t retain_bytes = 0;                           // 0: no bound
  std::function<conf::TimePoint()> clock;
  FileOps* files = nullptr;
};

// A request with an open record and without a close.
struct OpenRequest {
  uint64_t seq = 0;
  std::string identity;         // as EncodeOpen wrote it
  uint64_t counted_weight = 0;  // the part of its weight that TakeServed has returned
};

// The place from which the chain continues, as recovery found it.
struct ChainState {
  uint64_t next_seq = 1;
  Digest link{};                         // of the last record
  std::optional<SegmentWriter> segment;  // none: the next record begins a segment
  int64_t segment_begun_us = 0;
  uint64_t removed_to = 0;                          // the last record that a retention record accounts for
  std::vector<uint64_t> last_n;                     // per shard: its last number in a segment
  absl::flat_hash_map<uint64_t, OpenRequest> open;  // by OpenKey
};

// The weight (DeviceWeight) of the tokens that a replica has read and written for a tenant.
struct Served {
  std::string tenant;
  std::string replica;
  uint64_t weight = 0;
};

inline uint64_t OpenKey(uint32_t shard, uint64_t n) {
  return uint64_t{shard} << 48 | n;
}

class Committer {
 public:
  Committer(CommitOptions options, const SigningKey* key, ChainState state);

  // OK: records may be added, because earlier ones are on disk and a segment is open.
  absl::Status Ready();

  // Adds a frame of a shard's journal. A frame that is already in a segment is skipped.
  void AddFrame(uint32_t shard, uint64_t n, std::string_view payload);
  void AddEvent(Event event);
  void AddDevices(const DeviceRecord& record);
  void AddRecovery(std::string_view action, std::string_view detail);
  // Closes a request whose shard will not close it.
  void AddInterrupted(uint64_t open_key, const CloseRecord& record);
  void AddCheckpoint(bool seal);

  // Adds records that are due (checkpoint, seal), then writes and syncs everything that was added.
  absl::Status Commit();
  // Removes the oldest segment if the policy says so, after a signed record of the removal. The record carries
  // what the segment's closes spent of budgets that still run. Removes one segment a call, so that commits
  // continue in between; `*more`: another may be due. After a failed removal the next call tries again, without
  // another record.
  absl::Status Retain(bool* more);

  // From now on, served tokens are added up for TakeServed.
  void BeginCounting() { counts_served_ = true; }
  // Notes the use so far of a request that is still open.
  void NoteProgress(uint64_t open_key, const CloseRecord& so_far);
  // Returns the tokens that were noted or closed since the last call, by tenant and replica.
  std::vector<Served> TakeServed();

  size_t pending_bytes() const { return pending_.size(); }
  uint64_t durable_seq() const { return durable_seq_; }  // the last record on disk
  uint64_t records() const { return records_; }          // added since the start
  uint64_t unknown_frames() const { return unknown_frames_; }
  const absl::flat_hash_map<uint64_t, OpenRequest>& open() const { return state_.open; }
  uint64_t last_n(uint32_t shard) const { return shard < state_.last_n.size() ? state_.last_n[shard] : 0; }

 private:
  int64_t Now() const { return conf::ToUnixMicros(options_.clock()); }
  void Finish(size_t begin);
  void AddClose(uint64_t key, Origin origin, CloseRecord record);
  void CountServed(OpenRequest& request, const OpenRecord& of, const CloseRecord& record);
  absl::Status Write();
  absl::Status WriteHead();
  uint64_t Room() const;
  bool MaySeal();
  absl::StatusOr<bool> RecordRemoval(const std::vector<SegmentName>& segments);
  void AddRetention(uint64_t from_seq, uint64_t to_seq, std::string_view last_link,
                    const std::vector<SpendRow>& spent);

  CommitOptions options_;
  const SigningKey* key_;
  ChainState state_;
  std::string pending_;     // whole lines, not yet on disk
  std::string checkpoint_;  // the last one, for head.json
  bool head_due_ = false;
  bool sealing_ = false;           // the last pending line seals the segment
  uint64_t since_checkpoint_ = 0;  // records
  int64_t checkpoint_us_ = 0;
  uint64_t durable_seq_ = 0;
  uint64_t records_ = 0;
  uint64_t unknown_frames_ = 0;
  bool counts_served_ = false;
  std::map<std::pair<std::string, std::string>, uint64_t, std::less<>> served_;
};

}  // namespace gateway::ledger
