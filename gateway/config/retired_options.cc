#include "gateway/config/retired_options.h"

#include <algorithm>
#include <string>

namespace gateway::config {
namespace {

constexpr RetiredOption kRetired[] = {
    {"ledger.sinks[].format", "0.1", "sinks write JSON lines; remove the option"},
};

// "/ledger/sinks/0/format" as "ledger.sinks[].format".
std::string OptionAt(std::string_view pointer) {
  std::string option;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::string_view token = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(token.size());
    const bool entry =
        !token.empty() && std::ranges::all_of(token, [](char c) { return c >= '0' && c <= '9'; });
    if (entry) {
      option += "[]";
    } else {
      if (!option.empty()) option += '.';
      option += token;
    }
  }
  return option;
}

}  // namespace

std::span<const RetiredOption> RetiredOptions() {
  return kRetired;
}

const RetiredOption* FindRetiredOption(std::string_view pointer) {
  const std::string option = OptionAt(pointer);
  const auto* const found = std::ranges::find(kRetired, option, &RetiredOption::option);
  return found == std::end(kRetired) ? nullptr : found;
}

}  // namespace gateway::config
