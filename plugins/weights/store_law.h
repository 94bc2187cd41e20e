// The law of a node's store of weights: what leaves it when room is needed. Pure.
//
// Least used first. What a running engine holds, what is pinned, what is being fetched and what was used
// within the last two minutes stays: a replica may be between its fetch and its start.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "conf/time.h"

namespace plugins::weights {

inline constexpr conf::Duration kJustUsed = std::chrono::minutes(2);

struct StoreEntry {
  std::string id{};  // "sha256-HEX", or "cache-KEY" of a compile cache
  uint64_t bytes = 0;
  conf::TimePoint used{};
  bool complete = true;  // else a fetch was broken off, or is under way
  bool held = false;     // by a running engine; incomplete: by a fetch
  bool pinned = false;
};

struct RoomNeed {
  uint64_t bytes = 0;  // of what comes
  uint64_t limit = 0;  // of the store; 0: none
  uint64_t free = 0;   // on the disk, less what fetches under way will write
  conf::TimePoint now{};
};

struct Eviction {
  std::vector<std::string> ids{};  // in the order in which they leave
  uint64_t bytes = 0;              // that the removals free
  std::string why{};               // not empty: there is no room even then, nothing leaves; a sentence
};

// `entries` are the others', without what comes.
Eviction PlanEviction(std::vector<StoreEntry> entries, const RoomNeed& need);

// "1.5 GiB".
std::string InBytes(uint64_t bytes);

}  // namespace plugins::weights
