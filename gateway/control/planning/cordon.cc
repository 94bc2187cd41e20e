#include "gateway/control/planning/cordon.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "conf/json_tree.h"
#include "conf/text.h"

namespace gateway::control {

using nlohmann::json;

template <class O>
static constexpr void Bind(O& o, Cordon& cordon) {
  o.NotWritten(cordon.node);  // its id says where it is
  o.NotWritten(cordon.device);
  o.Required("reason", cordon.reason);
  o.Required("by", cordon.by);
  o.Required("since_us", cordon.since);
  o.Optional("drains", cordon.drains);
}

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
  return conf::ToTree(cordon).dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<Cordon> ReadCordon(const std::string& id, const std::string& body) {
  std::optional<Cordon> cordon = CordonOfId(id);
  const json in = conf::ParseJson(body);
  try {
    if (!cordon) throw std::invalid_argument("its name is neither NODE nor NODE/DEVICE");
    conf::FromTree(in, *cordon);
  } catch (const std::exception& error) {
    return absl::DataLossError(conf::Abseil(fmt::format("cordon {}: {}", id, error.what())));
  }
  return *std::move(cordon);
}

}  // namespace gateway::control
