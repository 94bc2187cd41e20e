// What the admin listener sends back, and how it refuses: with the gateway's error object and stable codes,
// and every problem of a request at once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"
#include "conf/json_fields.h"
#include "gateway/api/error.h"
#include "gateway/net/http/server.h"
#include "gateway/people/key_request.h"

namespace gateway::admin {

struct Answer {
  int status = 200;
  std::string body;
  std::string_view content_type = "application/json";
  std::vector<api::ErrorHeader> headers = {};
  std::string allow = {};                                        // of a 405
  std::vector<std::pair<std::string, std::string>> fields = {};  // of the head, beside the usual ones
  // Answers in place of the body, as long as the client reads; null: the body is the answer.
  std::function<net::Task<void>(net::http::Exchange&, net::http::Headers)> stream = {};
  std::string request_id = {};  // of the request that the call became; empty: the call's own
};

template <conf::HasFields T>
Answer Json(const T& body, int status = 200) {
  return {.status = status, .body = conf::ToJsonText(body) + "\n"};
}

Answer Refuse(const api::ApiError& error, std::string_view request_id);
Answer Refuse(api::Code code, std::string message, std::string_view request_id);

// The message tells all problems; `error.details` lists them as {"param", "message"}, and `error.param` is
// the first one's.
Answer Refuse(api::Code code, const std::vector<FieldProblem>& problems, std::string_view request_id);

// Removes the output of runs from the reasons in a JSON text: only operators may see it.
void HideOutput(std::string& json);

// Too many calls wait for the readers' thread.
Answer RefuseCrowded(std::string_view request_id);

// The status's own error code (api::WithCode); else NotFound is 404, FailedPrecondition 409, InvalidArgument
// 400, the rest 503 or 500.
Answer Refuse(const absl::Status& status, std::string_view request_id);

}  // namespace gateway::admin
