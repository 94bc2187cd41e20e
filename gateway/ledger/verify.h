// Verifies a ledger: every link, number, checkpoint and seal, and that the chain reaches as far as the head
// says. Only reads; may run beside the gateway, in any thread or process.
//
// It cannot detect a cut tail when head.json was replaced by an older one, too. Against that an auditor keeps
// a checkpoint elsewhere and gives it as `anchor_*`. Records after the last checkpoint are chained but not
// yet signed; the report counts them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/signing.h"

namespace gateway::ledger {

struct VerifyOptions {
  // A checkpoint (its number and link) that must be in the chain.
  uint64_t anchor_seq = 0;
  Digest anchor_link = {};
  // Called from time to time with the bytes read and the bytes in all.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

struct Problem {
  std::string segment;  // file name
  uint64_t line = 0;    // from 1; 0: the segment as a whole
  uint64_t seq = 0;     // found or expected; 0: unknown
  std::string why;
};

struct VerifyReport {
  std::optional<Problem> first_bad;
  uint64_t records = 0;
  uint64_t segments = 0;
  uint64_t first_seq = 0;
  uint64_t last_seq = 0;
  uint64_t checkpoints = 0;
  uint64_t last_checkpoint_seq = 0;
  uint64_t unsigned_records = 0;  // after the last checkpoint
  uint64_t open_requests = 0;     // opens without a close
  uint64_t partial_bytes = 0;     // of a line that a running gateway is writing
  std::string last_link;          // hex
  bool ok() const { return !first_bad.has_value(); }
};

// Errors only when the directory cannot be read; problems of the ledger are in the report. Stops at the first
// bad record.
absl::StatusOr<VerifyReport> Verify(const std::string& dir, const PublicKey& key,
                                    const VerifyOptions& options = {});

}  // namespace gateway::ledger
