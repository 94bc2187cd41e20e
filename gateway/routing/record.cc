#include "gateway/routing/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/words.h"

namespace gateway::routing {
namespace {

using Json = nlohmann::ordered_json;

double Millis(conf::Duration d) {
  return static_cast<double>(d.count()) * 1e-6;
}

constexpr conf::Word<api::Finish> kFinishWords[] = {{"stop", api::Finish::kDone},
                                                    {"length", api::Finish::kLength}};

Json ToJson(const Outcome& outcome) {
  Json out = {{"status", outcome.status},
              {"input", outcome.input},
              {"cached", outcome.cached},
              {"output", outcome.output},
              {"total_ms", Millis(outcome.total)}};
  if (outcome.finish != api::Finish::kNone) out["finish"] = conf::WordOf(kFinishWords, outcome.finish);
  if (outcome.first_token > conf::Duration::zero()) out["first_token_ms"] = Millis(outcome.first_token);
  return out;
}

Json ToJson(const router::CostWeights& weights) {
  return {{"running", weights.running},
          {"pool", weights.pool},
          {"decode", weights.decode},
          {"pressure", weights.pressure},
          {"usual_silence", weights.usual_silence},
          {"other_zone", weights.other_zone},
          {"adapter_load", weights.adapter_load}};
}

Json ToJson(const router::CostTerms& terms) {
  return {{"wait", terms.wait},         {"compute", terms.compute},   {"decode", terms.decode},
          {"others", terms.others},     {"pressure", terms.pressure}, {"silence", terms.silence},
          {"distance", terms.distance}, {"adapter", terms.adapter},   {"handover", terms.remote_prefill}};
}

Json ToJson(const router::ReplicaSignals& signals) {
  return {{"requests", signals.requests},
          {"spare", signals.spare},
          {"waiting", signals.waiting},
          {"backlog", signals.backlog},
          {"context", signals.context},
          {"kv_use", signals.kv_use},
          {"prefill_rate", signals.prefill_rate},
          {"pace", signals.pace},
          {"stalled", signals.stalled},
          {"max_running", signals.max_running},
          {"scraped",
           {{"running", signals.scraped.running},
            {"waiting", signals.scraped.waiting},
            {"kv_use", signals.scraped.kv_use}}}};
}

Json ToJson(const router::PickTrace& pick, const Routes& by) {
  const router::RouteTable& routes = *by.table;
  const router::ModelSpec& spec = routes.model(pick.model).spec;
  Json out = {{"time", conf::FormatTime(pick.at)},
              {"model", spec.name},
              {"policy", router::PolicyName(pick.policy)},
              {"prompt_tokens", pick.prompt_tokens},
              {"output_tokens", pick.output_tokens}};
  if (!spec.base.empty()) out["adapter"] = {{"name", spec.adapter}, {"base", spec.base}};
  if (pick.part != router::Part::kWhole) {
    out["part"] = pick.part == router::Part::kPrefill ? "prefill" : "decode";
    out["handover_seconds"] = pick.remote_prefill_seconds;
  }
  if (pick.track != router::kStable) out["track"] = routes.track_name(pick.track);
  if (pick.own_zone) out["zone"] = by.names->zone;
  if (!pick.scored.empty()) {
    out["weights"] = ToJson(spec.cost);
    out["mean_requests"] = pick.mean_requests;
    out["everybody"] = pick.everybody;
    // Written as text, because many JSON readers round numbers of this size.
    out["draw"] = fmt::format("{:016x}", pick.draw);
    Json& candidates = out["candidates"] = Json::array();
    for (const router::ScoredCandidate& seen : pick.scored) {
      Json& candidate =
          candidates.emplace_back(Json{{"replica", by.names->endpoints[static_cast<size_t>(seen.replica)]},
                                       {"cached", seen.cached},
                                       {"local", seen.local},
                                       {"vetoed", seen.vetoed},
                                       {"terms", ToJson(seen.terms)},
                                       {"signals", ToJson(seen.signals)}});
      if (!spec.base.empty()) {
        candidate["adapter"] = {{"standing", router::NameOf(seen.adapter.state)},
                                {"load", seen.adapter.load},
                                {"wait", seen.adapter.wait},
                                {"elapsed", seen.adapter.elapsed}};
      }
    }
  }
  if (pick.replica) {
    out["replica"] = by.names->endpoints[static_cast<size_t>(*pick.replica)];
    out["score"] = pick.score;
    out["cached"] = pick.cached;
  }
  out["reason"] = pick.reason;
  out["considered"] = pick.considered;
  if (pick.failed_open) out["failed_open"] = true;
  return out;
}

Json ToJson(const RoutedRequest& routed) {
  Json out = {{"kind", "route"},
              {"time", conf::FormatTime(routed.at)},
              {"request", routed.request},
              {"model", routed.routes.table->model(routed.model).spec.name},
              {"session", routed.session}};
  Json& picks = out["picks"] = Json::array();
  for (const router::PickTrace& pick : routed.picks) picks.push_back(ToJson(pick, routed.routes));
  out["outcome"] = ToJson(routed.outcome);
  out["outcome"]["reason"] = ledger::Name(routed.reason);
  return out;
}

Json ToJson(const ShadowedRequest& shadowed) {
  const router::RouteTable& routes = *shadowed.routes.table;
  Json out = {{"kind", "shadow"},
              {"time", conf::FormatTime(shadowed.at)},
              {"request", shadowed.request},
              {"model", routes.model(shadowed.model).spec.name},
              {"to_model", routes.model(shadowed.to_model).spec.name},
              {"replica", shadowed.replica},
              {"answer", ToJson(shadowed.answer)}};
  if (!shadowed.error.empty()) {
    out["error"] = shadowed.error;
    return out;
  }
  out["copy"] = ToJson(shadowed.copy);
  out["same"] = {{"status", shadowed.answer.status == shadowed.copy.status},
                 {"finish", shadowed.answer.finish == shadowed.copy.finish},
                 {"output_tokens", shadowed.answer.output == shadowed.copy.output}};
  if (shadowed.texts != Compared::kNotCompared) out["same"]["text"] = shadowed.texts == Compared::kSame;
  return out;
}

}  // namespace

nlohmann::ordered_json ToJson(const Record& record) {
  return std::visit([](const auto& one) { return ToJson(one); }, record);
}

size_t BytesOf(const Record& record) {
  size_t bytes = sizeof record;
  if (const auto* routed = std::get_if<RoutedRequest>(&record)) {
    for (const router::PickTrace& pick : routed->picks)
      bytes += sizeof pick + pick.scored.capacity() * sizeof(router::ScoredCandidate);
  }
  return bytes;
}

}  // namespace gateway::routing
