#include "plugins/devices/rocm_smi.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/command.h"

namespace plugins::devices {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kCard = "card";
constexpr int64_t kMibBytes = int64_t{1} << 20;
// A processor's integrated graphics has less, and no engine uses it.
constexpr int64_t kLeastMib = 4096;

// The text of a key, in any case; empty when it has none, or one that says "unknown".
std::string Text(const Json& card, std::string_view key) {
  for (const auto& [name, value] : card.items()) {
    if (!conf::EqualsIgnoreCase(name, key) || !value.is_string()) continue;
    std::string text = value.get<std::string>();
    return text == "N/A" ? std::string() : text;
  }
  return {};
}

// The first of these names that is a product's: older releases give a number for some.
std::string Product(const Json& card) {
  for (const char* key : {"Card Series", "Device Name", "Card Model"}) {
    if (std::string text = Text(card, key); !text.empty() && !text.starts_with("0x")) return text;
  }
  return {};
}

}  // namespace

Found ParseRocmSmi(std::string_view text) {
  const size_t begin = text.find('{');
  const Json all = conf::ParseJson(begin == std::string_view::npos ? std::string_view() : text.substr(begin));
  if (!all.is_object()) return {.problems = {"it printed no JSON object"}};
  std::map<uint32_t, const Json*> cards;
  for (const auto& [name, value] : all.items()) {
    if (!std::string_view(name).starts_with(kCard) || !value.is_object()) continue;
    if (const auto index = conf::ReadNumber<uint32_t>(std::string_view(name).substr(kCard.size())))
      cards[*index] = &value;
  }
  Found found;
  for (const auto& [index, card] : cards) {
    Device device{.vendor = Vendor::kAmd, .product = Product(*card)};
    device.kind = KindOf(Vendor::kAmd, device.product);
    device.uuid = Text(*card, "Unique ID");
    device.visible = std::to_string(index);
    if (const auto bytes = conf::ReadNumber<int64_t>(Text(*card, "VRAM Total Memory (B)"))) {
      device.memory_mib = *bytes / kMibBytes;
    } else {
      found.problems.push_back(fmt::format("card{} has no \"VRAM Total Memory (B)\"", index));
    }
    if (device.memory_mib > 0 && device.memory_mib < kLeastMib) continue;
    if (device.product.empty()) found.problems.push_back(fmt::format("card{} has no name", index));
    found.devices.push_back(std::move(device));
  }
  return found;
}

Found ProbeRocmSmi(const std::string& command, conf::Duration patience) {
  const absl::StatusOr<gateway::net::CommandOutput> output = gateway::net::RunCommand(
      {command, "--showproductname", "--showuniqueid", "--showmeminfo", "vram", "--json"}, patience);
  if (absl::IsNotFound(output.status())) return {};
  if (!output.ok()) return {.problems = {std::string(output.status().message())}};
  if (output->exit_code != 0)
    return {.problems = {fmt::format("{} ended with exit code {}", command, output->exit_code)}};
  return ParseRocmSmi(output->text);
}

}  // namespace plugins::devices
