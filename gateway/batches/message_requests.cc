#include "gateway/batches/message_requests.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "conf/json_text.h"
#include "gateway/batches/batch.h"
#include "gateway/batches/input_index.h"
#include "router/facts/json_index.h"

namespace gateway::batches {
namespace {

namespace json = simdjson::ondemand;

constexpr size_t kMaxName = 64;
constexpr size_t kAround = 4096;  // of a line beside its body
constexpr size_t kMaxRequest = kMaxLineBytes - kAround;

}  // namespace

bool MessageRequests::Nesting::EndsWith(char c) {
  if (in_string) {
    if (escaped) {
      escaped = false;
    } else if (c == '\\') {
      escaped = true;
    } else if (c == '"') {
      in_string = false;
      return depth == 0;
    }
    return false;
  }
  if (c == '"') in_string = true;
  if (c == '{' || c == '[') ++depth;
  if (c != '}' && c != ']') return false;
  return depth > 0 && --depth == 0;
}

bool MessageRequests::Fail(std::string error, std::string param) {
  error_ = std::move(error);
  param_ = std::move(param);
  return false;
}

bool MessageRequests::FailRequest(std::string_view why, std::string_view member) {
  return Fail(std::string(why), fmt::format("requests[{}]{}{}", count_, member.empty() ? "" : ".", member));
}

bool MessageRequests::Feed(std::string_view bytes, std::string& lines) {
  return std::ranges::all_of(bytes, [&](char c) { return Take(c, lines); });
}

bool MessageRequests::Finish() {
  return phase_ == Phase::kEnd || Fail("the body ends before its JSON does");
}

bool MessageRequests::Take(char c, std::string& lines) {
  const bool inside = phase_ == Phase::kInName || phase_ == Phase::kInRequest;
  if (!inside && router::JsonCursor::IsSpace(c)) return true;
  const auto next = [&](Phase phase, bool fits) {
    phase_ = phase;
    return fits || Fail("the body must be {\"requests\": […]}");
  };
  switch (phase_) {
    case Phase::kStart:
      return next(Phase::kName, c == '{');
    case Phase::kName:
      if (c == '}') return Fail("requests must be given", "requests");
      nesting_ = {.depth = 0, .in_string = true};
      return next(Phase::kInName, c == '"');
    case Phase::kInName:
      if (nesting_.EndsWith(c)) return EndName();
      if (name_.size() < kMaxName) name_ += c;
      return true;
    case Phase::kColon:
      return next(Phase::kArray, c == ':');
    case Phase::kArray:
      phase_ = Phase::kRequest;
      return c == '[' || Fail("requests must be an array", "requests");
    case Phase::kRequest:
      if (c == ']' && count_ == 0) return Fail("requests must have at least one request", "requests");
      if (c != '{') return FailRequest("each request must be an object");
      nesting_ = {.depth = 1};
      request_ = c;
      phase_ = Phase::kInRequest;
      return true;
    case Phase::kInRequest:
      if (request_.size() >= kMaxRequest)
        return FailRequest(fmt::format("the request is longer than {} bytes", kMaxRequest));
      request_ += c == '\n' || c == '\r' ? ' ' : c;
      if (!nesting_.EndsWith(c)) return true;
      phase_ = Phase::kAfterRequest;
      return EndRequest(lines);
    case Phase::kAfterRequest:
      return next(c == ',' ? Phase::kRequest : Phase::kAfterArray, c == ',' || c == ']');
    case Phase::kAfterArray:
      if (c == ',') return Fail("the body may have no other member than requests");
      return next(Phase::kEnd, c == '}');
    case Phase::kEnd:
      return next(Phase::kEnd, false);
  }
  return next(Phase::kEnd, false);
}

bool MessageRequests::EndName() {
  phase_ = Phase::kColon;
  return name_ == "requests" ||
         Fail(fmt::format("the body may have no other member than requests, but has {}", name_), name_);
}

bool MessageRequests::EndRequest(std::string& lines) {
  const simdjson::padded_string padded(request_);
  json::parser parser;
  json::document document;
  json::object members;
  const std::string_view no_json = "the request must be one JSON object";
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_object().get(members) != simdjson::SUCCESS)
    return FailRequest(no_json);
  std::string custom_id;
  std::string params;
  for (auto member : members) {
    std::string_view name;
    json::value value;
    if (member.unescaped_key().get(name) != simdjson::SUCCESS ||
        member.value().get(value) != simdjson::SUCCESS)
      return FailRequest(no_json);
    if (name == "custom_id") {
      std::string_view got;
      if (value.get_string().get(got) != simdjson::SUCCESS)
        return FailRequest("custom_id must be a string", "custom_id");
      custom_id = got;
    } else if (name == "params") {
      json::object body;
      std::string_view raw;
      if (value.get_object().get(body) != simdjson::SUCCESS)
        return FailRequest("params must be an object", "params");
      if (body.raw_json().get(raw) != simdjson::SUCCESS) return FailRequest(no_json);
      params = raw;
    }
  }
  if (custom_id.empty() || custom_id.size() > kMaxCustomId)
    return FailRequest(fmt::format("custom_id must have 1 to {} bytes", kMaxCustomId), "custom_id");
  if (params.empty()) return FailRequest("params must be given", "params");
  lines += "{\"custom_id\":";
  conf::AppendQuoted(lines, custom_id);
  lines += fmt::format(",\"method\":\"POST\",\"url\":\"{}\",\"body\":{}}}\n", kMessagesUrl, params);
  ++count_;
  return true;
}

}  // namespace gateway::batches
