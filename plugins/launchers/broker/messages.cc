#include "plugins/launchers/broker/messages.h"

#include "conf/text.h"

namespace plugins::launchers {

using nlohmann::json;

json ErrorAnswer(const absl::Status& status) {
  return {{"error", conf::Std(status.message())}, {"code", status.raw_code()}};
}

absl::Status StatusOf(const json& answer) {
  const auto error = answer.find("error");
  if (error == answer.end()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(answer.value("code", static_cast<int>(absl::StatusCode::kUnknown))),
          error->is_string() ? error->get<std::string>() : error->dump()};
}

}  // namespace plugins::launchers
