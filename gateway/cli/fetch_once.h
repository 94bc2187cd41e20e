// One HTTP exchange of a command, which waits for it.
#pragma once

#include <absl/status/statusor.h>

#include "gateway/net/http/fetch.h"

namespace gateway::cli {

absl::StatusOr<net::http::FetchResponse> FetchOnce(net::http::FetchRequest request);

}  // namespace gateway::cli
