#include "gateway/control/cordon.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/text.h"

namespace gateway::control {

using nlohmann::json;

std::string IdOf(const Cordon& cordon) {
  return cordon.device ? fmt::format("{}/{}", cordon.node, *cordon.device) : cordon.node;
}

std::optional<Cordon> CordonOfId(std::string_view id) {
  const size_t slash = id.rfind('/');
  Cordon cordon;
  cordon.node = id.substr(0, slash);
  if (cordon.node.empty()) return std::nullopt;
  if (slash == std::string_view::npos) return cordon;
  cordon.device = conf::ReadNumber<uint8_t>(id.substr(slash + 1));
  if (!cordon.device || *cordon.device >= 32) return std::nullopt;
  return cordon;
}

std::string PlaceOf(const Cordon& cordon) {
  return cordon.device ? fmt::format("device {} of {}", *cordon.device, cordon.node) : cordon.node;
}

std::string WhyOf(const Cordon& cordon) {
  return fmt::format("{} by {}{}{}", cordon.drains ? "drained" : "cordoned",
                     cordon.by.empty() ? "an operator" : cordon.by, cordon.reason.empty() ? "" : ": ",
                     cordon.reason);
}

std::string BodyOf(const Cordon& cordon) {
  return json{{"reason", cordon.reason},
              {"by", cordon.by},
              {"since_us", conf::ToUnixMicros(cordon.since)},
              {"drains", cordon.drains}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<Cordon> ReadCordon(const std::string& id, const std::string& body) {
  std::optional<Cordon> cordon = CordonOfId(id);
  const json in = json::parse(body, nullptr, false);
  try {
    if (!cordon) throw std::invalid_argument("its name is neither NODE nor NODE/DEVICE");
    cordon->reason = in.at("reason").get<std::string>();
    cordon->by = in.at("by").get<std::string>();
    cordon->drains = in.value("drains", false);
    cordon->since = conf::FromUnixMicros(in.at("since_us").get<int64_t>());
  } catch (const std::exception& error) {
    return absl::DataLossError(conf::Abseil(fmt::format("cordon {}: {}", id, error.what())));
  }
  return *std::move(cordon);
}

}  // namespace gateway::control
