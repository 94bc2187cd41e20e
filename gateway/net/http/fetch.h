// Fetch: one complete request and answer on a connection of its own: for probes, webhooks, key sets, traces.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "gateway/net/url.h"

namespace gateway::net::http {

struct FetchRequest {
  std::string method = "GET";
  Url url;
  std::string socket{};  // path of a Unix socket; empty: host and port of the URL
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  conf::Duration timeout = std::chrono::seconds(10);  // of the whole exchange
  size_t max_response_bytes = 1u << 20;
  std::shared_ptr<const TlsContext> tls;  // for https; the system's roots when absent
  std::string server_name;                // for SNI and verification; the URL's host when empty
};

struct FetchResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names as sent
  std::string body;
};

// Errors: kUnavailable (not reached), kDeadlineExceeded, kDataLoss (cut or not HTTP), kResourceExhausted
// (answer larger than allowed), kCancelled (by the group).
Task<absl::StatusOr<FetchResponse>> Fetch(Loop& loop, FetchRequest request, AbortGroup* group = nullptr);

}  // namespace gateway::net::http
