// A proof that a record is in the ledger: the link before it, and all lines from the record to the next signed
// checkpoint. Anyone with the public key can check it without the ledger: each line continues the chain, and the
// checkpoint's signature covers the link before the checkpoint, and so every line.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/signing.h"

namespace gateway::ledger {

struct Proof {
  uint64_t record = 0;             // the number of lines[0]
  Digest previous = {};            // the link before it
  std::vector<std::string> lines;  // as on disk, without newlines; the last one is a checkpoint
};

// NotFound: the ledger has no such record, or retention has removed it. FailedPrecondition: no checkpoint follows it
// yet. ResourceExhausted: the lines would have more than `max_bytes`. Blocks.
absl::StatusOr<Proof> MakeProof(const std::string& dir, uint64_t record, size_t max_bytes);

struct ProofReport {
  uint64_t checkpoint = 0;  // its number
  Digest link = {};         // of the checkpoint, for a comparison with one that was kept elsewhere
};
// InvalidArgument says what is wrong with the proof.
absl::StatusOr<ProofReport> CheckProof(const Proof& proof, const PublicKey& key);

// The proof as JSON on one line. Parsing any other text is InvalidArgument.
std::string ProofText(const Proof& proof);
absl::StatusOr<Proof> ParseProof(std::string_view text);

}  // namespace gateway::ledger
