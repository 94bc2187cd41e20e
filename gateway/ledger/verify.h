// Verifies a ledger: every link, number, checkpoint and seal, and that the chain reaches as far as head.json says. Only
// reads; may run beside the gateway, in any thread or process.
//
// Files beside the ledger can be replaced together with it, so they cannot show that a tail was cut together with its
// head.json, or that the whole ledger was replaced. Checkpoints that were kept elsewhere can: callers pass them in
// `kept`, and the report says how many were compared. Records after the last checkpoint are chained but not yet
// signed; the report counts them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/signing.h"

namespace gateway::ledger {

// Checkpoints from one other place, in any order.
struct KeptCheckpoints {
  struct Checkpoint {
    uint64_t seq = 0;
    Digest link = {};
  };
  std::string where;  // for people
  std::vector<Checkpoint> checkpoints;
};

// Reads a file of records as a sink writes it, or a copy of head.json. Skips other lines, and text before a record's
// brace. Call this before Verify.
absl::StatusOr<KeptCheckpoints> ReadKeptCheckpoints(const std::string& path);

struct VerifyOptions {
  // All of these must be in the chain, unless retention has removed them.
  std::vector<KeptCheckpoints> kept = {};
  // Called from time to time with the bytes read and the bytes of the whole ledger.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
  // Called as often; true ends the verification with Cancelled.
  std::function<bool()> stop = {};
};

struct Problem {
  std::string segment;  // file name
  uint64_t line = 0;    // from 1; 0: the whole segment
  uint64_t seq = 0;     // the number found or expected; 0: unknown
  std::string why;
};

// The result of the comparison with the checkpoints of one other place.
struct Compared {
  std::string where;
  uint64_t found = 0;    // in the chain, with the same link
  uint64_t removed = 0;  // older than the ledger's first record, so not comparable
  uint64_t newest = 0;   // the number of the newest checkpoint found; 0: none
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
  std::vector<Compared> compared;
  bool ok() const { return !first_bad.has_value(); }
};

// Whether a process is writing the ledger.
bool InUse(const std::string& dir);

// Fails only if the directory cannot be read; the report has the problems of the ledger. Stops at the first bad
// record.
absl::StatusOr<VerifyReport> Verify(const std::string& dir, const PublicKey& key,
                                    const VerifyOptions& options = {});

}  // namespace gateway::ledger
