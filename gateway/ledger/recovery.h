// The work of the ledger before its first record: finds the end of the chain, moves a torn tail aside, and reads the
// journals of the last process. It changes nothing else. The Ledger then appends the records of the journals to the
// chain; a crash during recovery is handled in the same way.
//
// Outline. Reads the whole last segment, and checks each line's number and link.
// - After a bad line, no signed checkpoint follows: the writing stopped here. The bytes from here on go to a `.torn`
//   file, and the segment is cut.
// - A later, validly signed checkpoint covers the bad line: it was damaged afterwards. Nothing is cut, the chain
//   continues after the checkpoint, and `verify` reports the line.
// A checkpoint has the oldest open request, from which on opens without a close are collected. It also has the number
// of each shard's last record in a segment, so that no journal frame is written twice.
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
  bool damaged = false;     // a later checkpoint covers a bad line
  uint64_t lost_below = 0;  // the number of a signed checkpoint that is missing; 0: none
  std::string lost_link;    // its link
  std::vector<std::string> unreadable_journals;
};

// `dir` has the segments, `journal_dir` the files `journal-N`. Only I/O can fail.
absl::StatusOr<Recovered> Recover(const std::string& dir, const std::string& journal_dir,
                                  const PublicKey& key, FileOps* files);

}  // namespace gateway::ledger
