#include "gateway/routing/parse.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "conf/text.h"
#include "router/policies/cost.h"

namespace gateway::routing {
namespace {

using Json = nlohmann::ordered_json;

// Null stands for an infinite score, which JSON cannot express.
double Number(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

router::CostTerms TermsOf(const Json& json) {
  return {.wait = Number(json, "wait"),
          .compute = Number(json, "compute"),
          .decode = Number(json, "decode"),
          .others = Number(json, "others"),
          .pressure = Number(json, "pressure"),
          .silence = Number(json, "silence"),
          .distance = Number(json, "distance"),
          .adapter = json.contains("adapter") ? Number(json, "adapter") : 0,
          .remote_prefill = json.contains("handover") ? Number(json, "handover") : 0};
}

router::ReplicaSignals SignalsOf(const Json& json) {
  const Json& scraped = json.at("scraped");
  return {.requests = Number(json, "requests"),
          .spare = json.contains("spare") ? Number(json, "spare") : 0,
          .waiting = Number(json, "waiting"),
          .backlog = Number(json, "backlog"),
          .context = Number(json, "context"),
          .kv_use = Number(json, "kv_use"),
          .prefill_rate = Number(json, "prefill_rate"),
          .pace = Number(json, "pace"),
          .stalled = Number(json, "stalled"),
          .max_running = Number(json, "max_running"),
          .scraped = {.running = Number(scraped, "running"),
                      .waiting = Number(scraped, "waiting"),
                      .kv_use = Number(scraped, "kv_use")}};
}

router::CostWeights WeightsOf(const Json& json) {
  return {.running = Number(json, "running"),
          .pool = Number(json, "pool"),
          .decode = Number(json, "decode"),
          .pressure = Number(json, "pressure"),
          .usual_silence = Number(json, "usual_silence"),
          .other_zone = Number(json, "other_zone"),
          .adapter_load = json.contains("adapter_load") ? Number(json, "adapter_load") : 0};
}

// The member is missing if the request was not for an adapter.
router::AdapterAvailability AdapterOf(const Json& candidate) {
  if (!candidate.contains("adapter")) return {};
  const Json& json = candidate.at("adapter");
  const auto state = router::AdapterStateNamed(json.at("standing").get<std::string>());
  return {.state = state.value_or(router::AdapterAvailability::State::kLoaded),
          .load = Number(json, "load"),
          .wait = json.contains("wait") ? Number(json, "wait") : 0,
          .elapsed = Number(json, "elapsed")};
}

LoggedPick PickOf(const Json& json) {
  LoggedPick pick;
  router::PickTrace& trace = pick.trace;
  pick.model = json.at("model").get<std::string>();
  pick.policy = json.at("policy").get<std::string>();
  pick.part = json.value("part", "");
  trace.remote_prefill_seconds = json.value("handover_seconds", 0.0);
  pick.track = json.value("track", "");
  pick.zone = json.value("zone", "");
  pick.replica = json.value("replica", "");
  pick.reason = json.at("reason").get<std::string>();
  trace.policy = router::PolicyByName(pick.policy).value_or(router::PolicyKind::kLeastLoad);
  trace.prompt_tokens = json.at("prompt_tokens").get<int64_t>();
  trace.output_tokens = json.at("output_tokens").get<int64_t>();
  trace.considered = json.at("considered").get<uint32_t>();
  trace.failed_open = json.value("failed_open", false);
  if (!pick.replica.empty()) {
    trace.score = Number(json, "score");
    trace.cached = json.at("cached").get<int64_t>();
  }
  if (!json.contains("candidates")) return pick;
  pick.weights = WeightsOf(json.at("weights"));
  trace.mean_requests = Number(json, "mean_requests");
  trace.everybody = json.at("everybody").get<bool>();
  const std::string draw = json.at("draw").get<std::string>();
  std::from_chars(draw.data(), draw.data() + draw.size(), trace.draw, 16);
  for (const Json& candidate : json.at("candidates")) {
    const auto id = static_cast<router::ReplicaId>(pick.names.size());
    pick.names.push_back(candidate.at("replica").get<std::string>());
    trace.scored.push_back({.replica = id,
                            .signals = SignalsOf(candidate.at("signals")),
                            .cached = candidate.at("cached").get<int64_t>(),
                            .local = candidate.at("local").get<bool>(),
                            .adapter = AdapterOf(candidate),
                            .vetoed = candidate.at("vetoed").get<bool>(),
                            .terms = TermsOf(candidate.at("terms"))});
  }
  return pick;
}

}  // namespace

absl::StatusOr<std::optional<LoggedRequest>> ParseRoute(std::string_view line) {
  try {
    LoggedRequest logged;
    logged.line = Json::parse(line);
    if (logged.line.at("kind") != "route") return std::nullopt;
    logged.request = logged.line.at("request").get<std::string>();
    logged.time = logged.line.at("time").get<std::string>();
    logged.model = logged.line.at("model").get<std::string>();
    for (const Json& pick : logged.line.at("picks")) logged.picks.push_back(PickOf(pick));
    return logged;
  } catch (const Json::exception& error) {
    return absl::DataLossError(fmt::format("this is not a line of a routing log: {}", error.what()));
  }
}

Replay ReplayOf(const LoggedPick& pick) {
  Replay replay;
  if (pick.replica.empty()) return replay;
  const std::optional<router::Choice> choice = router::ChooseAgain(pick.trace, pick.weights);
  if (!choice) return replay;
  replay.replica = pick.names[choice->place];
  replay.score = choice->score;
  bool same = replay.replica == pick.replica && choice->score == pick.trace.score;
  // The terms of every candidate must agree, not only those of the chosen one.
  scheduler::Rng any(0);
  router::CostChoice law(pick.trace.prompt_tokens, pick.trace.output_tokens, pick.trace.mean_requests,
                         pick.weights, any, pick.trace.remote_prefill_seconds);
  for (const router::ScoredCandidate& seen : pick.trace.scored) {
    const auto offered = law.Offer(0, seen.signals, seen.cached, seen.local, seen.adapter);
    same = same && offered.terms == seen.terms && offered.vetoed == seen.vetoed;
  }
  replay.result = same ? Replay::Result::kAgrees : Replay::Result::kDiffers;
  return replay;
}

}  // namespace gateway::routing
