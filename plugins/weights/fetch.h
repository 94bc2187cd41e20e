// Fetch: brings a model's weights into the store of this node, once for all callers, and holds them from then on.
//
//   held already? ── yes ─▶ done
//      │ no
//   the right to fetch ── another has it ─▶ wait, and look again
//      │
//   plan the files, by a neighbour's store or the source ─▶ make room ─▶ fetch several files at a time
//      ─▶ compare the digest ─▶ rename into place
//
// A process that is killed at any point leaves its parts, and the next one continues them. A process that finds the
// disk full, or the digest wrong, removes them.
//
// Blocks; with threads of its own for the files.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "plugins/weights/order.h"
#include "plugins/weights/progress.h"
#include "plugins/weights/store.h"
#include "plugins/weights/web.h"

namespace plugins::weights {

struct FetchedWeights {
  Lease weights{};
  std::optional<Lease> cache{};
  uint64_t bytes = 0;
  uint64_t transferred = 0;          // 0: they were there
  uint64_t neighbours = 0;           // of these, from the stores of other nodes
  std::vector<std::string> notes{};  // why neighbours were not asked any more
  std::vector<std::string> holds{};  // hex digests of all weights of the store
};

struct FetchOptions {
  std::function<void(const FetchProgress&)> report = [](const FetchProgress&) {};
  std::function<void(std::string_view)> say = [](std::string_view) {};  // for people: a sentence
  conf::Duration report_every = std::chrono::seconds(2);
  Web::Options web{};
  // A neighbour is nearby: one that does not answer soon is passed over.
  conf::Duration neighbour_connect = std::chrono::seconds(2);
  conf::Duration neighbour_silence = std::chrono::seconds(20);
};

absl::StatusOr<FetchedWeights> FetchWeights(const WeightsOrder& order, FetchOptions options);

// The digest of what a folder or file has: as a policy names it.
absl::StatusOr<std::string> DigestOfPath(const std::string& path);

// Reads all files of the weights in the store again. DataLoss: some are not what they were, and which.
absl::Status VerifyWeights(const Store& store, const std::string& id);

}  // namespace plugins::weights
