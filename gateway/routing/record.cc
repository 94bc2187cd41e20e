#include "gateway/routing/record.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "conf/json_text.h"
#include "conf/words.h"

namespace gateway::routing {
namespace {

// Writes JSON as text, without a tree: a busy gateway writes hundreds of lines a second.
class JsonText {
 public:
  explicit JsonText(std::string& out) : out_(out) {}

  JsonText& Open(char bracket) {
    Comma();
    out_.push_back(bracket);
    return *this;
  }
  JsonText& Open(std::string_view name, char bracket) {
    Name(name);
    out_.push_back(bracket);
    return *this;
  }
  JsonText& Close(char bracket) {
    out_.push_back(bracket);
    return *this;
  }
  template <class T>
  JsonText& Add(std::string_view name, const T& value) {
    Name(name);
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      conf::AppendQuoted(out_, value);
    } else if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(value)) {
        fmt::format_to(std::back_inserter(out_), "{}", value);
      } else {
        out_.append("null");
      }
    } else {
      fmt::format_to(std::back_inserter(out_), "{}", value);
    }
    return *this;
  }

 private:
  void Comma() {
    if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != '\n') out_.push_back(',');
  }
  void Name(std::string_view name) {
    Comma();
    out_.append("\"").append(name).append("\":");
  }

  std::string& out_;
};

double Millis(conf::Duration d) {
  return static_cast<double>(d.count()) * 1e-6;
}

constexpr conf::Word<api::Finish> kFinishWords[] = {{"stop", api::Finish::kDone},
                                                    {"length", api::Finish::kLength}};

// The members of an outcome.
void Add(JsonText& out, const Outcome& outcome) {
  out.Add("status", outcome.status).Add("input", outcome.input).Add("cached", outcome.cached);
  out.Add("output", outcome.output).Add("total_ms", Millis(outcome.total));
  if (outcome.finish != api::Finish::kNone) out.Add("finish", conf::WordOf(kFinishWords, outcome.finish));
  if (outcome.first_token > conf::Duration::zero()) out.Add("first_token_ms", Millis(outcome.first_token));
}

void Add(JsonText& out, const router::CostWeights& weights) {
  out.Open("weights", '{').Add("running", weights.running).Add("pool", weights.pool);
  out.Add("decode", weights.decode).Add("pressure", weights.pressure);
  out.Add("usual_silence", weights.usual_silence).Add("other_zone", weights.other_zone);
  out.Add("adapter_load", weights.adapter_load).Close('}');
}

void Add(JsonText& out, const router::CostTerms& terms) {
  out.Open("terms", '{').Add("wait", terms.wait).Add("compute", terms.compute).Add("decode", terms.decode);
  out.Add("others", terms.others).Add("pressure", terms.pressure).Add("silence", terms.silence);
  out.Add("distance", terms.distance).Add("adapter", terms.adapter);
  out.Add("handover", terms.remote_prefill).Close('}');
}

void Add(JsonText& out, const router::ReplicaSignals& signals) {
  out.Open("signals", '{').Add("requests", signals.requests).Add("spare", signals.spare);
  out.Add("waiting", signals.waiting);
  out.Add("backlog", signals.backlog).Add("context", signals.context).Add("kv_use", signals.kv_use);
  out.Add("prefill_rate", signals.prefill_rate).Add("pace", signals.pace).Add("stalled", signals.stalled);
  out.Add("max_running", signals.max_running).Open("scraped", '{').Add("running", signals.scraped.running);
  out.Add("waiting", signals.scraped.waiting).Add("kv_use", signals.scraped.kv_use).Close('}').Close('}');
}

void Add(JsonText& out, const router::ScoredCandidate& seen, const Routes& by, bool of_adapter) {
  out.Open('{').Add("replica", by.names->endpoints[static_cast<size_t>(seen.replica)]);
  out.Add("cached", seen.cached).Add("local", seen.local).Add("vetoed", seen.vetoed);
  Add(out, seen.terms);
  Add(out, seen.signals);
  if (of_adapter) {
    out.Open("adapter", '{').Add("standing", router::NameOf(seen.adapter.state));
    out.Add("load", seen.adapter.load).Add("wait", seen.adapter.wait);
    out.Add("elapsed", seen.adapter.elapsed).Close('}');
  }
  out.Close('}');
}

void Add(JsonText& out, const router::PickTrace& pick, const Routes& by) {
  const router::RouteTable& routes = *by.table;
  const router::ModelSpec& spec = routes.model(pick.model).spec;
  out.Open('{').Add("time", conf::FormatTime(pick.at)).Add("model", spec.name);
  out.Add("policy", router::PolicyName(pick.policy));
  out.Add("prompt_tokens", pick.prompt_tokens).Add("output_tokens", pick.output_tokens);
  if (!spec.base.empty())
    out.Open("adapter", '{').Add("name", spec.adapter).Add("base", spec.base).Close('}');
  if (pick.part != router::Part::kWhole) {
    out.Add("part", pick.part == router::Part::kPrefill ? "prefill" : "decode");
    out.Add("handover_seconds", pick.remote_prefill_seconds);
  }
  if (pick.track != router::kStable) out.Add("track", routes.track_name(pick.track));
  if (pick.own_zone) out.Add("zone", by.names->zone);
  if (!pick.scored.empty()) {
    Add(out, spec.cost);
    out.Add("mean_requests", pick.mean_requests).Add("everybody", pick.everybody);
    // Written as text, because many JSON readers round numbers of this size.
    out.Add("draw", fmt::format("{:016x}", pick.draw)).Open("candidates", '[');
    for (const router::ScoredCandidate& seen : pick.scored) Add(out, seen, by, !spec.base.empty());
    out.Close(']');
  }
  if (pick.replica) {
    out.Add("replica", by.names->endpoints[static_cast<size_t>(*pick.replica)]);
    out.Add("score", pick.score).Add("cached", pick.cached);
  }
  out.Add("reason", pick.reason).Add("considered", pick.considered);
  if (pick.failed_open) out.Add("failed_open", true);
  out.Close('}');
}

void Add(JsonText& out, const RoutedRequest& routed) {
  out.Open('{').Add("kind", "route").Add("time", conf::FormatTime(routed.at)).Add("request", routed.request);
  out.Add("model", routed.routes.table->model(routed.model).spec.name).Add("session", routed.session);
  out.Open("picks", '[');
  for (const router::PickTrace& pick : routed.picks) Add(out, pick, routed.routes);
  out.Close(']').Open("outcome", '{');
  Add(out, routed.outcome);
  out.Add("reason", ledger::Name(routed.reason)).Close('}').Close('}');
}

void Add(JsonText& out, const ShadowedRequest& shadowed) {
  const router::RouteTable& routes = *shadowed.routes.table;
  out.Open('{').Add("kind", "shadow").Add("time", conf::FormatTime(shadowed.at));
  out.Add("request", shadowed.request).Add("model", routes.model(shadowed.model).spec.name);
  out.Add("to_model", routes.model(shadowed.to_model).spec.name).Add("replica", shadowed.replica);
  out.Open("answer", '{');
  Add(out, shadowed.answer);
  out.Close('}');
  if (!shadowed.error.empty()) {
    out.Add("error", shadowed.error).Close('}');
    return;
  }
  out.Open("copy", '{');
  Add(out, shadowed.copy);
  out.Close('}').Open("same", '{').Add("status", shadowed.answer.status == shadowed.copy.status);
  out.Add("finish", shadowed.answer.finish == shadowed.copy.finish);
  out.Add("output_tokens", shadowed.answer.output == shadowed.copy.output);
  if (shadowed.texts != Compared::kNotCompared) out.Add("text", shadowed.texts == Compared::kSame);
  out.Close('}').Close('}');
}

}  // namespace

void AppendLine(std::string& out, const Record& record) {
  JsonText text(out);
  std::visit([&text](const auto& one) { Add(text, one); }, record);
  out.push_back('\n');
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
