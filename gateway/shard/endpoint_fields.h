// The header fields that the configuration adds to every request to an endpoint, a caller's or the gateway's own: the
// key, in the form that the engine expects, and the endpoint's headers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gateway/config/model.h"

namespace gateway {

inline std::vector<std::pair<std::string, std::string>> FieldsOf(const config::Endpoint& endpoint) {
  std::vector<std::pair<std::string, std::string>> fields;
  if (!endpoint.api_key.empty()) {
    const std::string key(endpoint.api_key.Reveal());
    if (endpoint.engine == config::Engine::kAnthropic) {
      fields.emplace_back("x-api-key", key);
    } else {
      fields.emplace_back("authorization", "Bearer " + key);
    }
  }
  for (const config::Header& header : endpoint.headers) fields.emplace_back(header.name, header.value);
  for (const config::SecretHeader& header : endpoint.secret_headers)
    fields.emplace_back(header.name, header.value.Reveal());
  return fields;
}

}  // namespace gateway
