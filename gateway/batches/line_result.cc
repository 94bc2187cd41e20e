#include "gateway/batches/line_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "conf/json_text.h"
#include "gateway/api/error.h"

namespace gateway::batches {
namespace {

// As it was, or as a text where it is no JSON. In JSON, an end of a line is white space.
std::string OnOneLine(std::string body) {
  if (!nlohmann::json::accept(body)) return conf::Quoted(body);
  std::ranges::replace_if(body, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return body;
}

std::string Millis(int64_t us) {
  return us < 0 ? "null" : fmt::format("{}", us / 1000);
}

// What another than an engine of messages says has another form.
std::string AsError(const LineResult& result) {
  api::ApiError error;
  error.code = result.code;
  error.message = result.message;
  if (result.status == 0) return api::RenderError(api::Protocol::kAnthropic, error, {});
  const nlohmann::json body = conf::ParseJson(result.body);
  if (body.is_object() && body.value("type", nlohmann::json()) == "error") return OnOneLine(result.body);
  error.status = result.status;
  error.message = fmt::format("the answer has status {} and another form", result.status);
  return api::RenderError(api::Protocol::kAnthropic, error, result.request_id);
}

}  // namespace

std::string RenderResult(const LineResult& result, std::string_view id) {
  std::string out = fmt::format("{{\"id\":\"{}\",\"custom_id\":", id);
  conf::AppendQuoted(out, result.custom_id);
  if (result.status == 0) {
    out += ",\"response\":null,\"error\":{\"code\":";
    conf::AppendQuoted(out, result.code);
    out += ",\"message\":";
    conf::AppendQuoted(out, result.message);
    return out += "}}\n";
  }
  out += fmt::format(",\"response\":{{\"status_code\":{},\"request_id\":", result.status);
  conf::AppendQuoted(out, result.request_id);
  out += ",\"body\":";
  out += OnOneLine(result.body);
  if (result.use) {
    out += fmt::format(",\"tidegate\":{{\"latency_ms\":{},\"queue_ms\":{},\"cost_usd\":{}.{:06}}}",
                       Millis(result.use->total_us), Millis(result.use->queue_us),
                       result.use->cost_micro_usd / 1'000'000, result.use->cost_micro_usd % 1'000'000);
  }
  return out += "},\"error\":null}\n";
}

std::string RenderMessageResult(const LineResult& result) {
  std::string out = "{\"custom_id\":";
  conf::AppendQuoted(out, result.custom_id);
  if (result.completed()) {
    out += fmt::format(",\"result\":{{\"type\":\"succeeded\",\"message\":{}", OnOneLine(result.body));
  } else if (result.unsent()) {
    out += fmt::format(",\"result\":{{\"type\":\"{}\"", result.code == kCodeExpired ? "expired" : "canceled");
  } else {
    out += fmt::format(",\"result\":{{\"type\":\"errored\",\"error\":{}", AsError(result));
  }
  return out += "}}\n";
}

}  // namespace gateway::batches
