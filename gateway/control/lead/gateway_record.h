// A gateway's report to the others, through the store: its name, the last change of the store that it has applied, its
// demand, its remaining requests at replicas that are to stop, what its requests have met at the replicas of a
// rollout, and which LoRA adapters they use or wait for.
//
// An object of the kind store::kGateway, by the gateway's name. It is written at least every few seconds; others
// count the gateway as gone once it has not changed for kGatewayLease by their own clocks, so that no two clocks
// have to agree.
//
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace gateway::control {

inline constexpr conf::Duration kGatewayLease = std::chrono::seconds(10);
// Bounds of one record. The models with the least demand are left out first.
inline constexpr size_t kMostModelsInRecord = 2000;
inline constexpr size_t kMostLeavingInRecord = 2000;
inline constexpr size_t kMostTriesInRecord = 1000;     // replicas
inline constexpr size_t kMostAdaptersInRecord = 1000;  // those for which requests wait come first

// The demand for one model at one gateway. The first ones count since its start.
struct DemandAt {
  uint64_t work_ns = 0;
  uint64_t came = 0;
  uint64_t in_time = 0;  // first tokens; ...
  uint64_t late = 0;
  uint64_t hopeless = 0;

  uint64_t held_work_ns = 0;  // now; ...
  uint64_t active = 0;
  uint64_t waiting = 0;
  conf::Duration oldest{};       // age of the oldest waiting request
  uint64_t lines = 0;            // of batches, waiting or at replicas; none of them count above
  conf::Duration oldest_line{};  // age of the oldest waiting line

  bool operator==(const DemandAt&) const = default;
};
using DemandByModel = std::map<std::string, DemandAt, std::less<>>;

// As metrics::LogCells counts: logarithms of microseconds, in millionths.
struct TimesAt {
  uint64_t count = 0;
  uint64_t sum = 0;
  uint64_t sum_of_squares = 0;

  bool operator==(const TimesAt&) const = default;
};

// What a gateway's requests have met at one replica since the start of the gateway.
struct TriesAt {
  uint64_t tries = 0;
  uint64_t failures = 0;
  TimesAt first_token{};
  TimesAt token_time{};

  bool operator==(const TriesAt&) const = default;
};
// By the replica's identity.
using TriesByReplica = std::map<std::string, TriesAt, std::less<>>;
// Of the models whose new version is rolled out.
using TriesByModel = std::map<std::string, TriesByReplica, std::less<>>;

// How a gateway's requests use one LoRA adapter.
struct AdapterUse {
  bool waits = false;  // requests wait for it
  // Since the last one began; absent: none has.
  std::optional<conf::Duration> idle{};
  std::map<std::string, uint32_t, std::less<>> in_flight{};  // requests by the replica's identity

  bool operator==(const AdapterUse&) const = default;
};
// By IdOf(base, name).
using AdapterUses = std::map<std::string, AdapterUse, std::less<>>;

struct GatewayRecord {
  std::string name{};
  std::string id{};       // of its state folder; empty: the gateway is of an earlier release
  std::string start{};    // unique for each process
  std::string version{};  // of the program
  std::string address{};  // of its admin listener, as bound
  std::string
      public_key{};  // seals what only this process may read; empty: the gateway is of an earlier release
  conf::TimePoint since{};
  uint64_t epoch = 0;     // of its lead; 0: it follows
  uint64_t followed = 0;  // the last change of the store that it has applied to its routes
  // Requests that it still has at replicas that take no new ones, by the replica's id.
  std::map<std::string, uint32_t, std::less<>> leaving{};
  DemandByModel demand{};
  TriesByModel tries{};
  AdapterUses adapters{};

  bool operator==(const GatewayRecord&) const = default;
};

std::string BodyOf(const GatewayRecord& record);
// DataLoss: the body is no such record.
absl::StatusOr<GatewayRecord> ReadGateway(std::string_view name, std::string_view body);

}  // namespace gateway::control
