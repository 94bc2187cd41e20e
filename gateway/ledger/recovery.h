// The ledger's work before its first record: finds the end of the chain, moves a torn tail aside, and
// collects the journals of a process that is gone. It changes nothing else; the Ledger then appends the found
// records to the chain, so that a crash during recovery is recovered from in the same way.
//
// Outline. Reads the whole last segment, and checks each line's number and link.
// - A bad line without a signed checkpoint after it is where the writing stopped: the bytes from there on go
//   to a `.torn` file, and the segment is cut.
// - A bad line that a later, validly signed checkpoint covers was damaged afterwards: nothing is cut, the
//   chain continues after the checkpoint, and `verify` names the line.
// A checkpoint carries the oldest open request and, for each shard, the number of its last record in a
// segment. Opens without a close are collected from the former on; with the latter, no journal frame is
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
