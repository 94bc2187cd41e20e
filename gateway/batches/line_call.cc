#include "gateway/batches/line_call.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "conf/json_parse.h"

namespace gateway::batches {
namespace {

// Refusals that another try at once would meet again, and that pass all the same: a budget begins anew or is
// raised, a paused model goes on.
constexpr std::array<std::string_view, 2> kPass = {"insufficient_quota", "model_paused"};

}  // namespace

std::string ErrorCodeOf(const std::string& body) {
  const nlohmann::json answer = conf::ParseJson(body);
  if (!answer.is_object()) return {};
  const auto error = answer.find("error");
  if (error == answer.end() || !error->is_object()) return {};
  const auto code = error->find("code");
  return code != error->end() && code->is_string() ? code->get<std::string>() : std::string();
}

LineVerdict Judge(const LineAnswer& answer) {
  switch (answer.status) {
    case 0:
      return answer.too_large ? LineVerdict::kEnded : LineVerdict::kWait;
    case 401:
      return LineVerdict::kStop;
    case 429:
    case 503:
    case 529: {  // Anthropic's: overloaded
      if (answer.should_retry.value_or(true)) return LineVerdict::kWait;
      const std::string code = ErrorCodeOf(answer.body);
      return std::ranges::find(kPass, code) != kPass.end() ? LineVerdict::kWait : LineVerdict::kEnded;
    }
    case 408:
    case 500:
    case 502:
    case 504:
      return answer.should_retry.value_or(true) ? LineVerdict::kRetry : LineVerdict::kEnded;
    default:
      return LineVerdict::kEnded;
  }
}

}  // namespace gateway::batches
