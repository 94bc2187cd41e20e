#include "gateway/shard/passed_fields.h"

#include <algorithm>

#include "conf/text.h"

namespace gateway {

uint8_t PassedFields::BitOf(std::string_view name) {
  const auto is = [name](std::string_view other) { return conf::EqualsIgnoreCase(name, other); };
  switch (name.size()) {
    case 6:
      return is("accept") ? kAccept : 0;
    case 10:
      return is("tracestate") ? kTrace : 0;
    case 11:
      return is("traceparent") ? kTrace : is("openai-beta") ? kOpenAiBeta : 0;
    case 12:
      return is("x-request-id") ? kRequestId : 0;
    case 14:
      return is("anthropic-beta") ? kAnthropicBeta : 0;
    case 17:
      return is("anthropic-version") ? kAnthropicVersion : 0;
    default:
      return 0;
  }
}

PassedFields::PassedFields(const config::Endpoint& endpoint) {
  // A provider learns no more of the client than its API needs. An engine that the operator runs may also take part in
  // the client's trace.
  passes_ = kAccept | kRequestId;
  if (config::IsEngine(endpoint.engine)) passes_ |= kTrace;
  if (endpoint.engine != config::Engine::kOpenai) passes_ |= kAnthropicVersion | kAnthropicBeta;
  if (endpoint.engine != config::Engine::kAnthropic) passes_ |= kOpenAiBeta;
  more_ = endpoint.pass_headers;
  const auto set_by_endpoint = [this](const std::string& name) {
    passes_ &= static_cast<uint8_t>(~BitOf(name));
    std::erase(more_, name);
  };
  for (const config::Header& header : endpoint.headers) set_by_endpoint(header.name);
  for (const config::SecretHeader& header : endpoint.secret_headers) set_by_endpoint(header.name);
}

bool PassedFields::Passes(const net::http::Field& field, std::string_view connection, bool traced) const {
  const uint8_t bit = BitOf(field.name);
  bool passes = (passes_ & bit & ~kRequestId & ~(traced ? kTrace : 0)) != 0;
  if (!passes && !more_.empty()) {
    passes = std::ranges::any_of(
        more_, [&](const std::string& name) { return conf::EqualsIgnoreCase(name, field.name); });
  }
  return passes && (connection.empty() || !net::http::HasToken(connection, field.name));
}

}  // namespace gateway
