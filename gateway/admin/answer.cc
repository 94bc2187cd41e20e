#include "gateway/admin/answer.h"

#include <nlohmann/json.hpp>

#include "conf/json_dump.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/api/coded_status.h"
#include "plugins/launchers/launcher.h"

namespace gateway::admin {

using nlohmann::ordered_json;

void HideOutput(std::string& json) {
  size_t at = 0;
  while ((at = json.find(plugins::launchers::kLastLines, at)) != std::string::npos) {
    size_t end = at;
    while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
    json.erase(at, end - at);
  }
}

Answer Refuse(const api::ApiError& error, std::string_view request_id) {
  return {.status = error.status,
          .body = api::RenderError(api::Protocol::kOpenAi, error, request_id),
          .headers = api::ErrorHeaders(error)};
}

Answer Refuse(api::Code code, std::string message, std::string_view request_id) {
  return Refuse(api::Make(code, std::move(message)), request_id);
}

Answer Refuse(api::Code code, const std::vector<FieldProblem>& problems, std::string_view request_id) {
  std::string message;
  ordered_json details = ordered_json::array();
  for (const FieldProblem& problem : problems) {
    message += message.empty() ? "" : "; ";
    const std::string field = conf::Visible(problem.field);
    const std::string what = conf::Visible(problem.message);
    if (!field.empty()) message.append(field).append(": ");
    message += what;
    details.push_back({{"param", field}, {"message", what}});
  }
  const api::ApiError error = api::Make(code, message, conf::Visible(problems.front().field));
  Answer answer = Refuse(error, request_id);
  ordered_json body = ordered_json::parse(answer.body);
  body["error"]["details"] = std::move(details);
  answer.body = conf::DumpJson(body);
  return answer;
}

Answer RefuseCrowded(std::string_view request_id) {
  return Refuse(api::Code::kOverloaded, "too many requests of this kind wait already", request_id);
}

Answer Refuse(const absl::Status& status, std::string_view request_id) {
  const auto code = [&] {
    if (const std::optional<api::Code> own = api::CodeOf(status)) return *own;
    switch (status.code()) {
      case absl::StatusCode::kInvalidArgument:
        return api::Code::kInvalidValue;
      case absl::StatusCode::kNotFound:
        return api::Code::kNotFound;
      case absl::StatusCode::kPermissionDenied:
        return api::Code::kPermissionDenied;
      case absl::StatusCode::kFailedPrecondition:
      case absl::StatusCode::kAlreadyExists:
        return api::Code::kConflict;
      case absl::StatusCode::kUnavailable:
      case absl::StatusCode::kResourceExhausted:
        return api::Code::kLedgerUnavailable;
      default:
        return api::Code::kInternalError;
    }
  }();
  return Refuse(code, std::string(conf::Std(status.message())), request_id);
}

}  // namespace gateway::admin
