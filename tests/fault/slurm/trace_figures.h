// What came of a run of a TraceWorld: the client's tries beside the ledger, and what it cost.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fault/slurm/trace_world.h"

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

// Compares each try with the ledger's close of it, and all of them with `tidegate usage`. An answer that came
// whole was counted as the client was told. One that did not, since the gateway was killed, was counted as
// far as it had gone: at least what the client has seen of it.
struct Reconciliation {
  int whole = 0;
  int cut = 0;         // head seen, end not: `cuts_allowed` says whether there may be any
  int unanswered = 0;  // tries whose connection was lost or not made
};

inline Reconciliation Reconcile(const TraceWorld& world, bool cuts_allowed) {
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
      // What an engine has not told is reckoned from the events: what a token takes of them is learnt.
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

// Device-hours by what they were held for, from the ledger's actions, up to its last record; and how often
// training made way, and why.
struct Held {
  double replicas = 0;
  double training = 0;
  std::map<std::string, int> actions;  // of the ledger: "replica.launch", "job.resize", …
};

inline Held HeldDevices(const TraceWorld& world) {
  struct Holding {
    int64_t from_us = 0;
    int64_t until_us = 0;  // 0: it holds them still
    size_t devices = 0;
  };
  Held held;
  std::map<std::string, Holding> holdings;
  int64_t last = 0;
  const auto add = [&](const std::string& subject, const Holding& holding) {
    const int64_t until = holding.until_us > 0 ? holding.until_us : last;
    (subject == world.job() ? held.training : held.replicas) +=
        static_cast<double>(until - holding.from_us) / 3.6e9 * static_cast<double>(holding.devices);
  };
  for (const gateway::ledger::Record& record : world.gateway().Records()) {
    last = std::max(last, record.time_us);
    if (record.kind != gateway::ledger::Kind::kAction) continue;
    ++held.actions[record.action];
    const Json detail = Json::parse(record.detail, nullptr, false);
    Holding& holding = holdings[record.subject];
    if (record.action == "replica.launch") {
      holding = {record.time_us, 0, detail.value("devices", Json::array()).size()};
    } else if (record.action == "job.start") {
      if (holding.from_us > 0) add(record.subject, holding);
      holding = {record.time_us, 0, 0};
      for (const Json& place : detail.value("places", Json::array()))
        holding.devices += place["devices"].size();
    } else if (record.action == "replica.stop" || record.action == "job.ended") {
      holding.until_us = record.time_us;  // who is killed in between says it again
    }
  }
  for (const auto& [subject, holding] : holdings) add(subject, holding);
  return held;
}

inline void PrintFigures(const TraceWorld& world, const Reconciliation& found) {
  const Held held = HeldDevices(world);
  const TraceWorld::Steps steps = world.Trained();
  std::map<std::string, std::pair<double, bool>> calls;  // to the first token in us, of the last try; whole
  for (const Json& attempt : world.Attempts()) {
    const std::string id = attempt["id"];
    calls[id.substr(0, id.find('.'))] = {attempt["ttft_us"], attempt["ending"] == "done"};
  }
  std::vector<double> ttft;
  ttft.reserve(calls.size());
  double in_time = 0;
  const double slo = static_cast<double>(kTraceTtft.count()) * 1e3;
  for (const auto& [id, call] : calls) {
    ttft.push_back(call.first / 1e6);
    in_time += call.second && call.first <= slo ? 1 : 0;
  }
  const double attained = in_time / static_cast<double>(std::max<size_t>(calls.size(), 1));
  std::ranges::sort(ttft);
  const auto quantile = [&](double q) {
    return ttft.empty() ? 0 : ttft[static_cast<size_t>(q * static_cast<double>(ttft.size() - 1))];
  };
  const auto count = [&](const char* action) {
    const auto at = held.actions.find(action);
    return at == held.actions.end() ? 0 : at->second;
  };
  fmt::print(
      "{} calls: {} answered, {} cut by a kill, {} tries made again; first token within {} ms: {:.2f} %, "
      "p50 {:.2f} s, p90 {:.2f} s, p99 {:.2f} s\n",
      calls.size(), found.whole, found.cut, found.unanswered, kTraceTtft.count(), 100 * attained,
      quantile(0.5), quantile(0.9), quantile(0.99));
  fmt::print("GPU-hours: {:.3f} of replicas ({} launched, {} adopted, {} stopped), {:.3f} of training\n",
             held.replicas, count("replica.launch"), count("replica.adopt"), count("replica.stop"),
             held.training);
  fmt::print(
      "training: {} times smaller or larger, {} times preempted, {} times started again after a failure; "
      "{} steps, {} done twice\n",
      count("job.resize"), count("job.preempt"), count("job.retry"), steps.done, steps.lost);
  fmt::print("others: {} devices scavenged at the end, {} times taken for ours and put back into the queue\n",
             world.Scavenging(), world.Requeued());
  fmt::print("nodes: {} times found silent, {} times trusted again\n", count("node.suspect"),
             count("node.trust"));
  fmt::print("{}", RunCli({"usage", "--by", "model", "-c", world.gateway().config_path()}).out);
  testing::Test::RecordProperty("slo_attainment", fmt::format("{:.4f}", attained));
  testing::Test::RecordProperty("replica_gpu_hours", fmt::format("{:.4f}", held.replicas));
  testing::Test::RecordProperty("training_gpu_hours", fmt::format("{:.4f}", held.training));
  testing::Test::RecordProperty("steps_lost", steps.lost);
  testing::Test::RecordProperty("others_requeued", world.Requeued());
}

}  // namespace tests
