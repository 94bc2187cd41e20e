// route: which API a request is for, and whether it may be looked at at all.
#include <fmt/format.h>

#include <charconv>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"

namespace gateway::stages {
namespace {

using net::http::Field;
using net::http::FieldId;
using net::http::Head;
using net::http::Verb;

constexpr std::string_view kReserved = "x-tidegate-";
constexpr size_t kMaxClientRequestId = 128;

bool HasPrefix(std::string_view name, std::string_view prefix) {
  return name.size() >= prefix.size() && conf::EqualsIgnoreCase(name.substr(0, prefix.size()), prefix);
}

// The fields that are for the gateway itself: one pass over those that begin with x- or are traceparent.
Verdict ReadOwnFields(Exchange& x, const Head& head) {
  std::string_view traceparent;
  std::string_view tracestate;
  for (const Field& field : head.fields) {
    if (field.id != FieldId::unknown) continue;
    if (HasPrefix(field.name, kReserved)) {
      return x.Fail(
          api::Code::kReservedHeader,
          fmt::format("header {}: names that begin with x-tidegate- are the gateway's own", field.name));
    }
    if (conf::EqualsIgnoreCase(field.name, "x-request-id")) {
      x.client_request_id = field.value.substr(0, kMaxClientRequestId);
    } else if (conf::EqualsIgnoreCase(field.name, "x-priority")) {
      x.asked_priority = field.value;
    } else if (conf::EqualsIgnoreCase(field.name, "x-stainless-timeout")) {
      double seconds = 0;
      const auto [rest, error] =
          std::from_chars(field.value.data(), field.value.data() + field.value.size(), seconds);
      if (error == std::errc{} && seconds > 0 && seconds < 86400) {
        x.deadline = x.at.started + conf::Duration(static_cast<int64_t>(seconds * 1e9));
      }
    } else if (conf::EqualsIgnoreCase(field.name, "traceparent")) {
      traceparent = field.value;
    } else if (conf::EqualsIgnoreCase(field.name, "tracestate")) {
      tracestate = field.value;
    }
  }
  if (x.shard.shared.sampler) {
    x.caller = telemetry::ParseTraceContext(traceparent, tracestate);
    x.trace = telemetry::StartTrace(x.caller, *x.shard.shared.sampler);
  }
  return Verdict::kGoOn;
}

}  // namespace

Verdict Route(Exchange& x) {
  const Head& head = x.client.head();
  if (head.target.empty() || head.target.front() != '/') {
    return x.Fail(api::Code::kBadRequest, "the request target must be a path; this is not a forward proxy");
  }
  std::optional<router::Route> route = router::MatchPath(head.target);
  if (!route) {
    return x.Fail(api::Code::kNotFound, fmt::format("there is no endpoint {} {}", head.method_text,
                                                    head.target.substr(0, head.target.find('?'))));
  }
  x.spec = route->spec;
  x.path_model_id = std::move(route->model_id);
  // Models are listed in the form of whoever asks.
  if (x.spec->api == router::Api::kModels && !head.Find("anthropic-version").empty())
    x.anthropic_client = true;
  const bool get = x.spec->method == router::Method::kGet;
  if (head.method != (get ? Verb::get : Verb::post)) {
    return x.Fail(api::Code::kMethodNotAllowed,
                  fmt::format("{} {} is not a method of this endpoint; use {}", head.method_text,
                              x.spec->path, get ? "GET" : "POST"));
  }
  if (const Verdict verdict = ReadOwnFields(x, head); verdict != Verdict::kGoOn) return verdict;
  if (x.shard.shared.draining.load(std::memory_order_relaxed)) {
    x.reuse_client = false;
    return x.Fail(api::Code::kDraining, "this gateway is shutting down; another one will take the request");
  }
  return Verdict::kGoOn;
}

}  // namespace gateway::stages
