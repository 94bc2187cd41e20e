// A proof that a record stands in the ledger: the link before it, and all lines from it to the next signed checkpoint.
// Who has the public key checks it without the ledger: each line continues the chain, and the checkpoint's signature
// covers the link before it, and so every line. The lines between are part of it, since the chain has no other form.
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
  uint64_t record = 0;             // of lines[0]
  Digest previous = {};            // the link before it
  std::vector<std::string> lines;  // as on disk, without newlines; the last one is a checkpoint
};

// NotFound: there is no such record, or retention has removed it. FailedPrecondition: no checkpoint stands behind it
// yet. ResourceExhausted: the lines would take more than `max_bytes`. Blocks.
absl::StatusOr<Proof> MakeProof(const std::string& dir, uint64_t record, size_t max_bytes);

struct ProofReport {
  uint64_t checkpoint = 0;  // its number
  Digest link = {};         // of the checkpoint, to be compared with one that was kept elsewhere
};
// InvalidArgument says what is wrong with it.
absl::StatusOr<ProofReport> CheckProof(const Proof& proof, const PublicKey& key);

// As JSON on one line; reading another text is InvalidArgument.
std::string ProofText(const Proof& proof);
absl::StatusOr<Proof> ParseProof(std::string_view text);

}  // namespace gateway::ledger
