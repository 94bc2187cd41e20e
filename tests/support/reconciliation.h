// Compares the tries of a recorded trace, as the client saw them, with the ledger and `tidegate usage`.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "tests/support/gateway_process.h"

namespace tests {

struct TraceTokens {
  int64_t requests = 0;
  int64_t input = 0;
  int64_t cached = 0;
  int64_t output = 0;

  void Add(int64_t in, int64_t from_cache, int64_t out) {
    ++requests, input += in, cached += from_cache, output += out;
  }
  friend bool operator==(const TraceTokens&, const TraceTokens&) = default;
  friend void PrintTo(const TraceTokens& t, std::ostream* out) {
    *out << fmt::format("{} requests, {} in ({} cached), {} out", t.requests, t.input, t.cached, t.output);
  }
};

// Compares each try of `world` (gateway(), Attempts(), Usage()) with its close record, and all of them with `tidegate
// usage`. A complete answer was counted as the client was told. An answer that was cut by a kill of the gateway was
// counted up to its cut: at least the part that the client has seen.
struct Reconciliation {
  int whole = 0;
  int cut = 0;         // head seen, end not: `cuts_allowed` says whether there may be any
  int unanswered = 0;  // tries whose connection was lost or not made
};

template <class World>
Reconciliation Reconcile(const World& world, bool cuts_allowed) {
  using gateway::ledger::Kind;
  std::map<std::string, gateway::ledger::Record> closes;
  std::map<std::string, std::string> known_as;  // the client's id, by ours
  for (gateway::ledger::Record& record : world.gateway().Records()) {
    if (record.kind == Kind::kOpen) known_as[record.request] = record.client_request;
    if (record.kind != Kind::kClose) continue;
    const std::string id = record.client_request.empty() ? known_as[record.request] : record.client_request;
    EXPECT_TRUE(closes.emplace(id, std::move(record)).second) << id << " was counted twice";
  }
  Reconciliation found;
  std::map<std::string, TraceTokens> sums;
  for (const Json& attempt : world.Attempts()) {
    const std::string id = attempt["id"];
    const std::string ending = attempt["ending"];
    const int status = attempt["status"];
    EXPECT_LT(status, 500) << attempt << ": waiting would have avoided it";
    const auto close = closes.find(id);
    if (ending == "done") {
      ++found.whole;
      EXPECT_TRUE(attempt.contains("output")) << attempt << " was told no usage";
      if (close == closes.end()) {
        ADD_FAILURE() << attempt << " was answered and is not in the ledger";
        continue;
      }
      EXPECT_EQ(close->second.input, attempt.value("input", -1)) << attempt;
      EXPECT_EQ(close->second.cached, attempt.value("cached", -1)) << attempt;
      EXPECT_EQ(close->second.output, attempt.value("output", -1)) << attempt;
    } else {
      EXPECT_TRUE(cuts_allowed && (ending == "cut" || ending == "not_reached")) << attempt;
      ++(ending == "cut" ? found.cut : found.unanswered);
      if (ending == "cut") EXPECT_NE(close, closes.end()) << attempt << " was begun and is not in the ledger";
    }
    if (close == closes.end()) continue;
    const gateway::ledger::Record& record = close->second;
    if (ending != "done") {
      EXPECT_EQ(record.reason, "interrupted") << attempt;
      // Without the engine's own count, tokens are estimated from the events; the gateway has learned how many a token takes.
      EXPECT_GE(2 * record.output + 2, attempt.value("events", 0)) << attempt;
      EXPECT_LE(record.output, 2 * attempt.value("events", 0) + 2) << attempt;
    }
    sums[record.model].Add(record.input, record.cached, record.output);
    closes.erase(close);
  }
  for (const auto& [id, close] : closes) ADD_FAILURE() << "nobody sent " << id << ", a " << close.model;
  std::map<std::string, TraceTokens> usage;
  for (const auto& [model, row] : world.Usage()) {
    if (model.empty() && row["requests"] == 0) continue;  // devices that jobs held
    usage[model] = {row.value("requests", int64_t{-1}), row.value("input_tokens", int64_t{-1}),
                    row.value("cached_tokens", int64_t{-1}), row.value("output_tokens", int64_t{-1})};
  }
  EXPECT_EQ(usage, sums);
  return found;
}

}  // namespace tests
