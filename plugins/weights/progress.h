// The progress of the step before an engine, as lines in the log of its run, which the gateway reads. Pure.
//
//   tidegate-weights: {"phase":"fetching","bytes":1048576,"of":8388608,"unix_ms":1764223875123}
//
// The log is the one channel that every launcher has, and that a run of another user can write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"

namespace plugins::weights {

enum class FetchPhase : uint8_t {
  kWaiting,  // another replica of this node fetches the same weights
  kFetching,
  kVerifying,
  kFetched,  // the weights are there; the engine's program follows
  kFailed,
};
conf::Words<FetchPhase> WordsOf(FetchPhase);

struct FetchProgress {
  static constexpr size_t kMostNotes = 16;
  static constexpr size_t kLongestNote = 600;

  FetchPhase phase = FetchPhase::kFetching;
  uint64_t bytes = 0;                // there already
  uint64_t of = 0;                   // 0: not known
  uint64_t transferred = 0;          // kFetched: over the network, or copied; 0: the node had them
  uint64_t neighbours = 0;           // kFetched: of these, from the stores of other nodes
  std::vector<std::string> notes{};  // kFetched: why neighbours were not asked any more; sentences
  conf::TimePoint at{};
  std::string why{};                 // kFailed
  std::vector<std::string> holds{};  // kFetched: hex digests of all weights that the node's store has now
};

std::string ProgressLine(const FetchProgress& progress);  // with its line's end

// Whether a line is meant for the gateway, and not for people.
bool IsProgressLine(std::string_view line);

// The last such line of a log's text; absent where it has no whole one.
std::optional<FetchProgress> LastProgress(std::string_view log);

}  // namespace plugins::weights
