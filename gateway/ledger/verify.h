// Verifies a ledger: every link, number, checkpoint and seal, and that the chain reaches as far as the head
// says. Only reads; may run beside the gateway, in any thread or process.
//
// Files beside the ledger can be replaced together with it: what lies there cannot show that a tail was cut
// with its head.json, or that the whole ledger is another one. Checkpoints that were kept elsewhere can, so
// they are given in `kept`; the report says with how many the chain was compared. Records after the last
// checkpoint are chained but not yet signed; the report counts them.
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

// Checkpoints that were kept in one place elsewhere, in any order.
struct KeptCheckpoints {
  struct Checkpoint {
    uint64_t seq = 0;
    Digest link = {};
  };
  std::string where;  // for people
  std::vector<Checkpoint> checkpoints;
};

// From a file of records, such as a sink writes it, or a copy of head.json. Other lines are passed over, and
// so is text before a record's brace. It must be read before the ledger is verified.
absl::StatusOr<KeptCheckpoints> ReadKeptCheckpoints(const std::string& path);

struct VerifyOptions {
  // All of these must be in the chain, but for those whose place retention has removed.
  std::vector<KeptCheckpoints> kept = {};
  // Called from time to time with the bytes read and the bytes in all.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
  // Asked as often; true ends it with Cancelled.
  std::function<bool()> stop = {};
};

struct Problem {
  std::string segment;  // file name
  uint64_t line = 0;    // from 1; 0: the segment as a whole
  uint64_t seq = 0;     // found or expected; 0: unknown
  std::string why;
};

// How the checkpoints of one place elsewhere were compared.
struct Compared {
  std::string where;
  uint64_t found = 0;    // in the chain, with the same link
  uint64_t removed = 0;  // older than the ledger's first record, so not comparable
  uint64_t newest = 0;   // the number of the newest that was found; 0: none was
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

// Whether a process writes the ledger.
bool InUse(const std::string& dir);

// Errors only when the directory cannot be read; problems of the ledger are in the report. Stops at the first
// bad record.
absl::StatusOr<VerifyReport> Verify(const std::string& dir, const PublicKey& key,
                                    const VerifyOptions& options = {});

}  // namespace gateway::ledger
