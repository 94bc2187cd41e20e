#include "gateway/control/learned/model_memory.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"

namespace gateway::control {
namespace {

using nlohmann::json;
using scheduler::autoscale::DailyPeaks;
using scheduler::autoscale::Hindsight;

json WrittenLaw(const Hindsight::Memory& law) {
  json holds = json::array();
  for (const Hindsight::Memory::Hold& hold : law.holds) {
    json rules = json::array();
    for (const Hindsight::Memory::Rule& rule : hold.rules)
      rules.push_back({rule.replica_seconds, rule.late, rule.worst});
    holds.push_back({{"seconds", hold.seconds}, {"peak", hold.peak}, {"rules", std::move(rules)}});
  }
  return {{"up_at", law.up_at},     {"least", law.least},       {"times", law.times},
          {"seconds", law.seconds}, {"load", law.load_seconds}, {"holds", std::move(holds)}};
}

Hindsight::Memory ReadLaw(const json& in) {
  Hindsight::Memory law{.up_at = in.at("up_at").get<double>(),
                        .least = in.at("least").get<double>(),
                        .times = in.at("times").get<double>(),
                        .seconds = in.at("seconds").get<double>(),
                        .load_seconds = in.at("load").get<double>()};
  for (const json& from : in.at("holds")) {
    Hindsight::Memory::Hold& hold = law.holds.emplace_back();
    hold.seconds = from.at("seconds").get<double>();
    hold.peak = from.at("peak").get<double>();
    for (const json& rule : from.at("rules"))
      hold.rules.push_back({rule.at(0).get<double>(), rule.at(1).get<double>(), rule.at(2).get<double>()});
  }
  return law;
}

json WrittenTimes(const std::vector<ColdStarts::Start>& starts) {
  json out = json::array();
  for (const ColdStarts::Start& start : starts) out.push_back({start.kind, start.took.count()});
  return out;
}

std::vector<ColdStarts::Start> ReadTimes(const json& in) {
  std::vector<ColdStarts::Start> out;
  for (const json& start : in)
    out.push_back({start.at(0).get<std::string>(), conf::Duration(start.at(1).get<int64_t>())});
  return out;
}

json WrittenStarts(const std::vector<LearnedStarts::Start>& starts) {
  json out = json::array();
  for (const LearnedStarts::Start& start : starts) {
    json took = json::array();
    for (const conf::Duration phase : start.phases.took) took.push_back(phase.count());
    out.push_back({{"node", start.node},
                   {"kind", start.kind},
                   {"took_ns", std::move(took)},
                   {"transferred", start.phases.transferred},
                   {"neighbours", start.phases.neighbours}});
  }
  return out;
}

std::vector<LearnedStarts::Start> ReadStarts(const json& in) {
  std::vector<LearnedStarts::Start> out;
  for (const json& from : in) {
    LearnedStarts::Start& start = out.emplace_back();
    start.node = from.at("node").get<std::string>();
    start.kind = from.at("kind").get<std::string>();
    for (size_t i = 0; i < kStartPhases; ++i)
      start.phases.took[i] = conf::Duration(from.at("took_ns").at(i).get<int64_t>());
    start.phases.transferred = from.at("transferred").get<uint64_t>();
    start.phases.neighbours = from.at("neighbours").get<uint64_t>();
  }
  return out;
}

}  // namespace

std::string BodyOf(const ModelMemory& memory) {
  json out = {{"at_us", conf::ToUnixMicros(memory.at)},
              {"starts", WrittenStarts(memory.starts)},
              {"cold_starts_ns", WrittenTimes(memory.cold_starts)},
              {"wakes_ns", WrittenTimes(memory.wakes)},
              {"peaks", {{"first", memory.peaks.first}, {"most", memory.peaks.most}}}};
  if (memory.law) out["law"] = WrittenLaw(*memory.law);
  return conf::DumpJson(out);
}

absl::StatusOr<ModelMemory> ReadModelMemory(const std::string& model, const std::string& body) {
  ModelMemory memory;
  const json in = conf::ParseJson(body);
  try {
    memory.at = conf::FromUnixMicros(in.at("at_us").get<int64_t>());
    memory.starts = ReadStarts(in.at("starts"));
    memory.cold_starts = ReadTimes(in.at("cold_starts_ns"));
    memory.wakes = ReadTimes(in.at("wakes_ns"));
    memory.peaks = {.first = in.at("peaks").at("first").get<int64_t>(),
                    .most = in.at("peaks").at("most").get<std::vector<uint16_t>>()};
    if (in.contains("law")) memory.law = ReadLaw(in.at("law"));
  } catch (const std::exception& error) {
    return absl::DataLossError(
        conf::Abseil(fmt::format("what scaling has learned of {}: {}", model, error.what())));
  }
  return memory;
}

}  // namespace gateway::control
