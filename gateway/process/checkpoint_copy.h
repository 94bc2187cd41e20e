// CheckpointCopy: keeps the ledger's last checkpoint in the store, too, so that a ledger that was cut or
// replaced without the store is noticed: by the gateway when it starts, and by `tidegate audit verify`.
//
// A checkpoint that the ledger does not have stays in the store as evidence, and no newer one replaces it.
//
// Owner: the process; destroyed after the loop's tasks have ended. Thread: the loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "gateway/config/config.h"
#include "gateway/ledger/verify.h"
#include "gateway/net/loop.h"
#include "gateway/store/store.h"

namespace gateway {

class CheckpointCopy final : private net::Alarm {
 public:
  // All must outlive it.
  CheckpointCopy(net::Loop& loop, store::Store& store, std::string ledger_dir);

  // Compares the ledger with the store, and keeps the store's copy current from then on. An error of the
  // store or of the disk.
  net::Task<absl::Status> Start();
  void Stop();

  // Why the ledger cannot be the one that the store knows; empty: it is.
  const std::string& trouble() const { return trouble_; }

 private:
  void OnAlarm() override;
  net::Task<void> Copy();
  net::Task<absl::Status> CopyNow();

  net::Loop& loop_;
  store::Store& store_;
  const std::string ledger_dir_;
  std::optional<store::Object> stored_;
  uint64_t stored_seq_ = 0;
  std::string trouble_;
  bool copying_ = false;
  bool failing_ = false;
  bool stopped_ = false;
};

inline constexpr char kStoredCheckpoint[] = "the store";

// What the store of a gateway has, for a command; nothing when it has none. It must be read before the
// ledger is verified. Blocks.
absl::StatusOr<std::optional<ledger::KeptCheckpoints>> StoredCheckpoint(const Config& config);

}  // namespace gateway
