// route: finds the API that the request calls, and reads the gateway's own header fields.
#include <fmt/format.h>

#include <charconv>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"
#include "router/facts/path_meant.h"

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

// Reads the fields that are for the gateway itself, in one pass.
StageResult ReadOwnFields(Exchange& x, const Head& head) {
  std::string_view traceparent;
  std::string_view tracestate;
  for (const Field& field : head.fields) {
    if (field.id != FieldId::unknown) continue;
    if (HasPrefix(field.name, kReserved)) {
      return x.Fail(
          api::Code::kReservedHeader,
          fmt::format(
              "header {}: names that begin with x-tidegate- are reserved for the gateway; leave it out",
              field.name));
    }
    if (conf::EqualsIgnoreCase(field.name, "x-request-id")) {
      x.identity.client_request_id = field.value.substr(0, kMaxClientRequestId);
    } else if (conf::EqualsIgnoreCase(field.name, "x-priority")) {
      x.identity.asked_priority = field.value;
    } else if (conf::EqualsIgnoreCase(field.name, "x-stainless-timeout")) {
      double seconds = 0;
      const auto [rest, error] =
          std::from_chars(field.value.data(), field.value.data() + field.value.size(), seconds);
      if (error == std::errc{} && seconds > 0 && seconds < 86400) {
        x.at.deadline = x.at.started + conf::Duration(static_cast<int64_t>(seconds * 1e9));
      }
    } else if (conf::EqualsIgnoreCase(field.name, "traceparent")) {
      traceparent = field.value;
    } else if (conf::EqualsIgnoreCase(field.name, "tracestate")) {
      tracestate = field.value;
    }
  }
  if (x.shard.shared.sampler) {
    x.identity.caller = telemetry::ParseTraceContext(traceparent, tracestate);
    x.identity.trace = telemetry::StartTrace(x.identity.caller, *x.shard.shared.sampler);
  }
  return StageResult::kContinue;
}

}  // namespace

StageResult Route(Exchange& x) {
  const Head& head = x.client.head();
  if (head.target.empty() || head.target.front() != '/') {
    return x.Fail(api::Code::kBadRequest, "the request target must be a path; this is not a forward proxy");
  }
  std::optional<router::Route> route = router::MatchPath(head.target);
  if (!route) {
    const std::string meant = router::PathMeant(head.target);
    return x.Fail(api::Code::kNotFound,
                  fmt::format("the endpoint {} {} does not exist{}", head.method_text,
                              head.target.substr(0, head.target.find('?')),
                              meant.empty() ? meant : fmt::format(", did you mean {}?", meant)));
  }
  x.identity.spec = route->spec;
  x.identity.path_rest = std::move(route->rest);
  // The list of models is shared by both protocols: this header tells which form the client expects.
  if (x.identity.spec->api == router::Api::kModels && !head.Find("anthropic-version").empty())
    x.identity.anthropic_lists = true;
  const bool get = x.identity.spec->method == router::Method::kGet;
  const bool any = x.identity.spec->method == router::Method::kAny;
  if (!any && head.method != (get ? Verb::get : Verb::post)) {
    return x.Fail(api::Code::kMethodNotAllowed, fmt::format("{} does not take the method {}; use {}",
                                                            head.target.substr(0, head.target.find('?')),
                                                            head.method_text, get ? "GET" : "POST"));
  }
  if (const StageResult verdict = ReadOwnFields(x, head); verdict != StageResult::kContinue) return verdict;
  if (x.shard.shared.draining.load(std::memory_order_relaxed)) {
    x.client.SetReusable(false);
    return x.Fail(api::Code::kDraining, "this gateway is shutting down; send the request again");
  }
  return StageResult::kContinue;
}

}  // namespace gateway::stages
