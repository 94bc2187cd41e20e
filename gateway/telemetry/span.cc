#include "gateway/telemetry/span.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "conf/hex.h"
#include "conf/json_dump.h"

namespace gateway::telemetry {
namespace {

using nlohmann::json;

constexpr int kStatusError = 2;

// OTLP's JSON writes 64-bit integers as strings.
std::string Nanos(conf::TimePoint t) {
  return fmt::format("{}", conf::ToUnixNanos(t));
}

class Attributes {
 public:
  void Add(const char* key, const std::string& value) {
    if (!value.empty()) Push(key, {{"stringValue", value}});
  }
  void Add(const char* key, const std::optional<int64_t>& value) {
    if (value) Push(key, {{"intValue", fmt::format("{}", *value)}});
  }
  void Add(const char* key, const std::optional<conf::Duration>& value) {
    if (value) Push(key, {{"doubleValue", conf::ToSeconds(*value)}});
  }
  void Add(const char* key, const std::vector<std::string>& values) {
    if (values.empty()) return;
    json list = json::array();
    for (const std::string& value : values) list.push_back({{"stringValue", value}});
    Push(key, {{"arrayValue", {{"values", std::move(list)}}}});
  }
  json Take() { return std::move(list_); }

 private:
  void Push(const char* key, json value) { list_.push_back({{"key", key}, {"value", std::move(value)}}); }
  json list_ = json::array();
};

json Render(const Span& span) {
  Attributes attributes;
  attributes.Add("gen_ai.operation.name", span.operation);
  attributes.Add("gen_ai.request.model", span.request_model);
  attributes.Add("gen_ai.response.model", span.response_model);
  attributes.Add("gen_ai.usage.input_tokens", span.input_tokens);
  attributes.Add("gen_ai.usage.output_tokens", span.output_tokens);
  attributes.Add("gen_ai.response.finish_reasons", span.finish_reasons);
  attributes.Add("server.address", span.server_address);
  attributes.Add("server.port", span.server_port);
  attributes.Add("http.response.status_code", span.status_code);
  attributes.Add("error.type", span.error_type);
  attributes.Add("tidegate.tenant", span.tenant);
  attributes.Add("tidegate.replica", span.replica);
  attributes.Add("tidegate.request_id", span.request_id);
  attributes.Add("tidegate.queue.duration", span.queued);
  attributes.Add("tidegate.time_to_first_token", span.time_to_first_token);
  attributes.Add("tidegate.attempts", span.attempts);

  json rendered = {
      {"traceId", conf::Hex(span.context.trace_id)},
      {"spanId", conf::Hex(span.context.span_id)},
      {"name", span.request_model.empty() ? span.operation : span.operation + " " + span.request_model},
      {"kind", static_cast<int>(span.kind)},
      {"startTimeUnixNano", Nanos(span.start)},
      {"endTimeUnixNano", Nanos(span.end)},
      {"attributes", attributes.Take()}};
  if (span.parent) rendered["parentSpanId"] = conf::Hex(*span.parent);
  if (!span.context.state.empty()) rendered["traceState"] = span.context.state;
  if (!span.error_type.empty()) rendered["status"] = {{"code", kStatusError}};
  return rendered;
}

}  // namespace

size_t Span::bytes() const {
  size_t total = sizeof(Span);
  for (const std::string* text : {&context.state, &operation, &request_model, &response_model,
                                  &server_address, &error_type, &tenant, &replica, &request_id}) {
    total += text->capacity();
  }
  for (const std::string& reason : finish_reasons) total += sizeof(std::string) + reason.capacity();
  return total;
}

std::string RenderOtlp(std::span<const Span> spans, const std::string& service_name,
                       const std::string& service_instance) {
  json list = json::array();
  for (const Span& span : spans) list.push_back(Render(span));
  Attributes resource;
  resource.Add("service.name", service_name);
  resource.Add("service.version", std::string(TIDEGATE_VERSION));
  resource.Add("service.instance.id", service_instance);
  const json scope = {{"name", "tidegate"}, {"version", TIDEGATE_VERSION}};
  const json body = {
      {"resourceSpans",
       json::array({{{"resource", {{"attributes", resource.Take()}}},
                     {"scopeSpans", json::array({{{"scope", scope}, {"spans", std::move(list)}}})}}})}};
  return conf::DumpJson(body);
}

}  // namespace gateway::telemetry
