// What came of a run of a TraceWorld: the client's tries beside the ledger, and what it cost.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/json_parse.h"
#include "tests/fault/slurm/trace_world.h"
#include "tests/support/reconciliation.h"

namespace tests {

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
    const Json detail = conf::ParseJson(record.detail);
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
