// Report: what a replay saw, summed up as the answers come.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/client/answer.h"
#include "bench/client/samples.h"

namespace bench {

struct Tokens {
  uint64_t calls = 0;
  uint64_t input = 0;
  uint64_t cached = 0;
  uint64_t output = 0;
  bool operator==(const Tokens&) const = default;
};
using TokensByModel = std::map<std::string, Tokens>;

class Report {
 public:
  // `input` and `output`: tokens that the call should come to. `late`: how long after its time it was sent.
  void Add(const std::string& model, const Answer& answer, uint32_t input, uint32_t output,
           conf::Duration late);

  void AddRetry() { ++retries_; }

  uint64_t calls() const { return calls_; }
  uint64_t done() const { return done_; }
  // Calls whose answer had usage, by model.
  const TokensByModel& tokens() const { return tokens_; }

  nlohmann::ordered_json ToJson();
  std::string ToText();

 private:
  uint64_t calls_ = 0;
  uint64_t done_ = 0;
  uint64_t retries_ = 0;
  uint64_t events_ = 0;
  uint64_t unexpected_counts_ = 0;            // done, but of another length than asked for
  uint64_t without_usage_ = 0;                // done, but without usage in the answer
  std::map<std::string, uint64_t> errors_;    // by ending, and by code where the server gave one
  std::map<std::string, uint64_t> refusals_;  // by limit
  TokensByModel tokens_;
  Samples to_first_, mean_gap_, max_gap_, total_, late_;
};

}  // namespace bench
