#include "gateway/cli/simulate/old_spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace gateway::cli {
namespace {

// An option that chose what was simulated; its value is now the command's argument.
struct Mode {
  std::string_view option;
  std::string_view command;
  bool has_value = true;
};
constexpr Mode kModes[] = {{"--requests", "simulate requests"},
                           {"--traffic", "simulate traffic"},
                           {"--snapshot", "policy replay"},
                           {"--until-allocated", "simulate fill", false},
                           {"--trace", "simulate jobs"}};

std::string_view NameOf(std::string_view word) {
  return word.substr(0, word.find('='));
}

std::string Quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%#*~";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + '\'';
}

}  // namespace

std::string NewSpelling(const std::vector<std::string>& words) {
  const auto mode = std::ranges::find_if(kModes, [&](const Mode& one) {
    return std::ranges::any_of(words, [&](const std::string& word) { return NameOf(word) == one.option; });
  });
  if (mode == std::end(kModes)) return {};
  std::string file;
  std::string rest;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view name = NameOf(words[i]);
    const auto named = std::ranges::find(kModes, name, &Mode::option);
    if (named != std::end(kModes)) {
      const size_t sign = words[i].find('=');
      if (!named->has_value) continue;
      if (sign != std::string::npos) {
        file = words[i].substr(sign + 1);
      } else if (i + 1 < words.size()) {
        file = words[++i];
      }
    } else if (name == "--requests-format" || name == "--traffic-format") {
      rest += " --format" + words[i].substr(name.size());
    } else if (name != "--queue") {  // is the default
      rest += ' ' + Quoted(words[i]);
    }
  }
  return fmt::format("tidegate {} {}{}", mode->command, file.empty() ? "FILE" : Quoted(file), rest);
}

}  // namespace gateway::cli
