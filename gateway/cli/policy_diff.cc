#include "gateway/cli/policy_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "conf/file_problem.h"
#include "conf/reader.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/top_frame.h"
#include "gateway/config/model_policy.h"
#include "gateway/config/scaling_policy.h"
#include "gateway/config/sources.h"
#include "gateway/net/url.h"
#include "scheduler/autoscale/replay.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;
using scheduler::autoscale::Observed;
using scheduler::autoscale::Replay;
using scheduler::autoscale::Replayed;
using scheduler::autoscale::ScalingPolicy;

constexpr size_t kRows = 30;                                            // of the table over time
constexpr conf::Duration kUnknownColdStart = std::chrono::seconds(90);  // the law's default

// The gateway keeps how it scaled, and of what runs only the size.
constexpr std::string_view kNotCompared =
    "Not compared: the keys of placement and replica, such as replica.command and the kind of device, "
    "except the number of members and devices";

struct Recorded {
  std::string file;
  nlohmann::json policy;
  uint32_t members = 1;  // of a replica
  double devices = 0;    // likewise
  std::optional<conf::Duration> cold_start{};
  std::vector<Observed> steps{};
};

absl::StatusOr<Recorded> ReadHistory(const ordered_json& answer) {
  Recorded out{.file = answer.value("file", ""), .policy = answer.value("policy", ordered_json::object())};
  out.members = answer.value("members", 1U);
  out.devices = answer.value("devices_per_replica", 0.0);
  if (const auto p90 = answer.find("cold_start_p90_ms"); p90 != answer.end() && p90->is_number())
    out.cold_start = std::chrono::milliseconds(p90->get<int64_t>());
  const ordered_json steps = answer.value("steps", ordered_json::array());
  out.steps.reserve(steps.size());
  for (const ordered_json& step : steps) {
    const std::optional<conf::TimePoint> at = conf::ParseTime(step.value("at", ""));
    if (!at) return absl::UnavailableError("the gateway's history has a step without a time");
    out.steps.push_back({.at = *at,
                         .seconds = step.value("seconds", 0.0),
                         .work = step.value("work", 0.0),
                         .arrivals = step.value("arrivals_per_second", 0.0),
                         .in_flight = step.value("outstanding_requests", 0.0),
                         .held = step.value("held_requests", 0.0),
                         .occupied = step.value("occupied", 0.0),
                         .ready = step.value("ready", 0.0),
                         .there = step.value("there", 0.0),
                         .demand = step.value("demand", 0.0)});
  }
  return out;
}

// The recorded hour, as far as its steps show it.
Replayed AsItWas(std::span<const Observed> steps) {
  Replayed out;
  int64_t before = steps.empty() ? 0 : std::llround(steps.front().there);
  for (const Observed& step : steps) {
    const int64_t there = std::llround(step.there);
    out.replica_seconds += step.there * step.seconds;
    out.work += step.work * step.seconds;
    out.starts += static_cast<uint32_t>(std::max<int64_t>(there - before, 0));
    out.stops += static_cast<uint32_t>(std::max<int64_t>(before - there, 0));
    out.most = std::max(out.most, static_cast<uint32_t>(std::llround(std::max(step.ready, 0.0))));
    before = there;
  }
  return out;
}

// "scaling.window: 60s -> 5s", for each difference.
std::vector<std::string> Changes(const nlohmann::json& running, const nlohmann::json& changed) {
  const nlohmann::json before = running.flatten();
  const nlohmann::json after = changed.flatten();
  const auto text = [](const nlohmann::json& of, const std::string& key) -> std::string {
    const auto at = of.find(key);
    if (at == of.end()) return "(not given)";
    return at->is_string() ? at->get<std::string>() : at->dump();
  };
  std::vector<std::string> keys;
  for (const auto& [key, value] : before.items()) keys.push_back(key);
  for (const auto& [key, value] : after.items()) keys.push_back(key);
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  std::vector<std::string> out;
  for (const std::string& key : keys) {
    if (text(before, key) == text(after, key)) continue;
    std::string name = key.substr(1);
    std::ranges::replace(name, '/', '.');
    out.push_back(fmt::format("{}: {} -> {}", name, text(before, key), text(after, key)));
  }
  return out;
}

struct PolicyComparison {
  std::string model;
  std::string file;  // the new policy's
  const Recorded* recorded = nullptr;
  ScalingPolicy policy;  // the new one
  double devices = 0;    // of one of its replicas
  conf::Duration cold_start{};
  std::string cold_start_by{};
  std::vector<std::string> changes{};
  Replayed was{};
  Replayed running{};
  Replayed changed{};

  double seconds() const {
    double sum = 0;
    for (const Observed& step : recorded->steps) sum += step.seconds;
    return sum;
  }
  std::string Simulated() const {
    std::string text = fmt::format(
        "a replica starts within {} ({}); every replica finds devices; the recorded work arrives again, each "
        "replica does one second of work in a second, and waiting work is served in order",
        ShortDuration(cold_start), cold_start_by);
    if (devices != recorded->devices)
      text += "; a replica with other devices is taken to be as fast as those that were recorded";
    return text;
  }
};

ordered_json SummaryOf(const Replayed& run, bool served) {
  ordered_json out = {{"replica_hours", run.replica_seconds / 3600},
                      {"starts", run.starts},
                      {"stops", run.stops},
                      {"most_ready", run.most}};
  if (!served) return out;
  out["late_replica_seconds"] = run.late;
  out["refused_replica_seconds"] = run.refused;
  out["longest_wait_s"] = conf::ToSeconds(run.longest_wait);
  return out;
}

ordered_json ToJson(const PolicyComparison& diff) {
  ordered_json out = {
      {"model", diff.model},
      {"running_file", diff.recorded->file},
      {"file", diff.file},
      {"seconds", diff.seconds()},
      {"simulated", diff.Simulated()},
      {"cold_start_s", conf::ToSeconds(diff.cold_start)},
      {"cold_start_measured", diff.recorded->cold_start.has_value()},
      {"changes", diff.changes},
      {"not_compared", kNotCompared},
      {"devices_per_replica", {{"running", diff.recorded->devices}, {"changed", diff.devices}}},
      {"work_replica_seconds", diff.running.work},
      {"as_it_was", SummaryOf(diff.was, false)},
      {"running", SummaryOf(diff.running, true)},
      {"changed", SummaryOf(diff.changed, true)},
      {"steps", ordered_json::array()}};
  for (size_t i = 0; i < diff.recorded->steps.size(); ++i) {
    const Observed& was = diff.recorded->steps[i];
    out["steps"].push_back({{"at", conf::FormatTime(was.at)},
                            {"work", was.work},
                            {"as_it_was", was.there},
                            {"running", diff.running.steps[i].there},
                            {"changed", diff.changed.steps[i].there}});
  }
  return out;
}

std::string Percent(double part, double of) {
  return of > 0 ? fmt::format("{:.1f}%", 100 * part / of) : "-";
}

std::string Difference(double from, double to) {
  if (from <= 0) return "";
  return fmt::format("{:+.0f}%", 100 * (to / from - 1));
}

std::string Summary(const PolicyComparison& diff) {
  const Replayed& old_run = diff.running;
  const Replayed& new_run = diff.changed;
  Table table({{""}, {"AS IT WAS", true}, {"RUNNING POLICY", true}, {"NEW POLICY", true}, {"", true}});
  const auto hours = [](const Replayed& run) { return fmt::format("{:.3f}", run.replica_seconds / 3600); };
  const auto held = [](const Replayed& run, double devices) {
    return fmt::format("{:.3f}", run.replica_seconds / 3600 * devices);
  };
  const auto unserved = [](const Replayed& run) { return Percent(run.late + run.refused, run.work); };
  table.Add({"replica-hours", hours(diff.was), hours(old_run), hours(new_run),
             Difference(old_run.replica_seconds, new_run.replica_seconds)});
  if (const double before = diff.recorded->devices; before > 0 || diff.devices > 0) {
    table.Add({"device-hours", held(diff.was, before), held(old_run, before), held(new_run, diff.devices),
               Difference(old_run.replica_seconds * before, new_run.replica_seconds * diff.devices)});
  }
  for (const auto& [name, member] :
       {std::pair("starts", &Replayed::starts), std::pair("stops", &Replayed::stops),
        std::pair("most ready at once", &Replayed::most)}) {
    table.Add({name, std::to_string(diff.was.*member), std::to_string(old_run.*member),
               std::to_string(new_run.*member), ""});
  }
  table.Add({fmt::format("unserved within slo.ttft, {}", conf::InWords(diff.policy.ttft)), "-",
             unserved(old_run), unserved(new_run), "of the work"});
  table.Add({"refused after cold_start.hold", "-", Percent(old_run.refused, old_run.work),
             Percent(new_run.refused, new_run.work), "of the work"});
  table.Add(
      {"longest wait", "-", ShortDuration(old_run.longest_wait), ShortDuration(new_run.longest_wait), ""});
  return table.Render();
}

// The means of the steps of one row.
std::string OverTime(const PolicyComparison& diff) {
  const std::vector<Observed>& steps = diff.recorded->steps;
  const size_t each = (steps.size() + kRows - 1) / kRows;
  Table table(
      {{"UNTIL"}, {"WORK", true}, {"AS IT WAS", true}, {"RUNNING POLICY", true}, {"NEW POLICY", true}});
  for (size_t begin = 0; begin < steps.size(); begin += each) {
    const size_t end = std::min(begin + each, steps.size());
    double work = 0;
    double was = 0;
    double running = 0;
    double changed = 0;
    for (size_t i = begin; i < end; ++i) {
      work += steps[i].work;
      was += steps[i].there;
      running += diff.running.steps[i].there;
      changed += diff.changed.steps[i].there;
    }
    const auto mean = [&](double sum) {
      return fmt::format("{:.1f}", sum / static_cast<double>(end - begin));
    };
    table.Add({conf::FormatTime(steps[end - 1].at).substr(11, 8), mean(work), mean(was), mean(running),
               mean(changed)});
  }
  return table.Render();
}

std::string InWords(const PolicyComparison& diff) {
  std::string out = fmt::format("{}: the last {} under the running policy {} and under the new one {}.\n",
                                diff.model, ShortDuration(conf::Duration(std::llround(diff.seconds() * 1e9))),
                                diff.recorded->file, diff.file);
  out += fmt::format("Simulated: {}.\n\n", diff.Simulated());
  if (diff.changes.empty()) out += "The two policies scale equally: none of the compared keys differs.\n";
  for (const std::string& change : diff.changes) out += fmt::format("  {}\n", change);
  out += fmt::format("{}.\n", kNotCompared);
  out += fmt::format(
      "\n{}\nReplicas that are ready or starting, and the work for them (in replicas); times are UTC:\n\n{}",
      Summary(diff), OverTime(diff));
  return out;
}

}  // namespace

int DiffPolicies(const PolicyDiffOptions& options) {
  std::optional<conf::Duration> given;
  if (!options.cold_start.empty()) {
    given = conf::ParseDuration(options.cold_start);
    if (!given || *given <= conf::Duration::zero()) {
      return Fail(absl::InvalidArgumentError(conf::Abseil(
          fmt::format("--cold-start: \"{}\" is not a duration such as 90s", options.cold_start))));
    }
  }
  const conf::Sources sources = SystemSources();
  const absl::StatusOr<std::string> text = sources.file(options.file);
  if (!text.ok())
    return PrintProblems({conf::FileProblem(options.file, conf::Std(text.status().message()))},
                         options.admin.json);
  const auto loaded = config::ReadModelPolicy(*text, options.file, sources);
  if (!loaded.value) return PrintProblems(loaded.problems, options.admin.json);
  const std::string& model = loaded.value->model();
  const absl::StatusOr<ordered_json> answer =
      AskAdmin(options.admin, "GET", fmt::format("/admin/v1/scaling/{}/history", net::PercentEncode(model)));
  if (!answer.ok()) return Fail(answer.status());
  const absl::StatusOr<Recorded> recorded = ReadHistory(*answer);
  if (!recorded.ok()) return Fail(recorded.status());
  if (recorded->steps.empty()) {
    return Fail(absl::FailedPreconditionError(conf::Abseil(fmt::format(
        "the gateway has recorded nothing about {} yet, because it has just started; try again in a few "
        "seconds",
        model))));
  }
  const auto running = config::ReadScalingPolicy(recorded->policy.dump(), recorded->file);
  if (!running.value) return PrintProblems(running.problems, options.admin.json);

  PolicyComparison diff{
      .model = model, .file = options.file, .recorded = &*recorded, .policy = loaded.value->scaling};
  diff.cold_start = given ? *given : recorded->cold_start.value_or(kUnknownColdStart);
  diff.cold_start_by = given                  ? "given by --cold-start"
                       : recorded->cold_start ? "the measured 90th percentile"
                                              : "a guess: no start was measured";
  diff.devices = config::DevicesOf(*loaded.value);
  diff.changes = Changes(config::ToJson(*running.value), config::ToJson(diff.policy));
  if (const uint32_t members = loaded.value->placement.members; members != recorded->members)
    diff.changes.push_back(fmt::format("placement.members: {} -> {}", recorded->members, members));
  if (diff.devices != recorded->devices)
    diff.changes.push_back(fmt::format("devices of a replica: {} -> {}", recorded->devices, diff.devices));
  diff.was = AsItWas(recorded->steps);
  diff.running = Replay(*running.value, recorded->steps, diff.cold_start);
  diff.changed = Replay(diff.policy, recorded->steps, diff.cold_start);
  const absl::Status printed = Print(options.admin.json ? AsText(ToJson(diff)) + "\n" : InWords(diff));
  return printed.ok() ? kOk : Fail(printed);
}

}  // namespace gateway::cli
