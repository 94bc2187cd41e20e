// PassedFields: which fields of a client's head are sent to an endpoint: those on the list of its engine, and those
// that the endpoint names (pass_headers). A field that the endpoint sets itself is never taken from the client.
//
// Immutable; any thread. A look-up allocates nothing: it compares a name with the one or two names of its length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/model.h"
#include "gateway/net/http/head.h"

namespace gateway {

class PassedFields {
 public:
  explicit PassedFields(const config::Endpoint& endpoint);

  // `connection`: the value of the client's Connection field. `traced`: the gateway writes its own trace.
  bool Passes(const net::http::Field& field, std::string_view connection, bool traced) const;
  // Whether the gateway writes the field, because the endpoint's configuration does not.
  bool writes_request_id() const { return (passes_ & kRequestId) != 0; }
  bool writes_trace() const { return (passes_ & kTrace) != 0; }

 private:
  // Bits of passes_.
  static constexpr uint8_t kAccept = 1, kAnthropicVersion = 2, kAnthropicBeta = 4, kOpenAiBeta = 8,
                           kTrace = 16, kRequestId = 32;
  static uint8_t BitOf(std::string_view name);

  uint8_t passes_ = 0;
  std::vector<std::string> more_;  // of pass_headers
};

}  // namespace gateway
