#include "gateway/cli/arguments.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "conf/text.h"

namespace gateway::cli {
namespace {

std::string CheckCount(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 20 && std::ranges::all_of(text, absl::ascii_isdigit);
  if (digits && (text.size() == 1 || text.front() != '0')) return {};
  return fmt::format("\"{}\" must be a whole number of at least 0", text);
}

std::vector<std::string> KnownCommands(const CLI::App& app) {
  std::vector<std::string> names;
  const auto is_shown = [](const CLI::App* command) { return !command->get_group().empty(); };
  for (const CLI::App* const command : app.get_subcommands(is_shown)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> KnownOptions(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string SpellingHint(std::string_view word, const std::vector<std::string>& known) {
  return conf::DidYouMean(word, std::vector<std::string_view>(known.begin(), known.end()));
}

}  // namespace

void CheckCounts(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_type_name().starts_with("UINT")) option->check(CheckCount);
  }
  for (CLI::App* const command : app.get_subcommands(std::function<bool(CLI::App*)>())) CheckCounts(*command);
}

std::string DescribeUnknown(const CLI::App& app) {
  const CLI::App* called = &app;
  std::string path = app.get_name();
  while (!called->get_subcommands().empty()) {
    called = called->get_subcommands().back();
    path += ' ' + called->get_name();
  }
  const std::vector<std::string> commands = KnownCommands(*called);
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) {
    if (commands.empty()) return {};
    return fmt::format("{} needs a command: {}", path, fmt::join(commands, ", "));
  }
  const std::string_view first = std::string_view(unknown.front()).substr(0, unknown.front().find('='));
  if (first.starts_with('-'))
    return fmt::format("{} has no option {}{}", path, first, SpellingHint(first, KnownOptions(*called)));
  if (commands.empty()) return fmt::format("{} does not take the argument \"{}\"", path, first);
  return fmt::format("{} has no command \"{}\"{}", path, first, SpellingHint(first, commands));
}

}  // namespace gateway::cli
