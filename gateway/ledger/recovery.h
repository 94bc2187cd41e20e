// What the ledger does before it takes its first record: finds where the chain ends, moves a torn tail aside,
// and gathers what a process that is gone left in its journals. It only looks and sets aside; the Ledger then
// writes what was found into the chain, so that a death in the middle of recovery is recovered from in the
// same way.
//
// Outline. The last segment is read whole, each line's number and link checked.
//   - A bad line with no signed checkpoint after it is where the writing stopped: the bytes from there on go
//   to a
//     `.torn` file and the segment is cut.
//   - A bad line that a later, validly signed checkpoint covers is damage done since: nothing is cut, the
//   chain goes on
//     after the checkpoint, and `verify` names the line.
// A checkpoint carries the oldest open request and, for each shard, the number of its last record in a
// segment. From the former on, opens without a close are collected; with the latter, no journal frame is
// written twice.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/ledger/committer.h"
#include "gateway/ledger/journal.h"
#include "gateway/ledger/signing.h"

namespace gateway::ledger {

struct Recovered {
  ChainState state;
  std::vector<JournalImage> journals;
  std::vector<std::string> journal_files;
  uint64_t torn_bytes = 0;
  std::string torn_file;
  std::string torn_sha256;
  bool damaged = false;     // a bad line under a later checkpoint
  uint64_t lost_below = 0;  // a signed checkpoint with this number is gone; 0: none
  std::string lost_link;    // its link
  std::vector<std::string> unreadable_journals;
};

// `dir` holds the segments, `journal_dir` the files `journal-N`. Errors: I/O only.
absl::StatusOr<Recovered> Recover(const std::string& dir, const std::string& journal_dir,
                                  const PublicKey& key, FileOps* files);

}  // namespace gateway::ledger
