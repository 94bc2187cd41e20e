#include "gateway/config/command_text.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/placeholders.h"
#include "conf/reader.h"
#include "plugins/launchers/placeholders.h"

namespace gateway::config {
namespace {

struct CommandText {
  std::string text;
};

void Read(const conf::Value& value, CommandText& out) {
  const auto refused = [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\n' && c != '\t';
  };
  if (value.kind() != conf::Kind::kScalar) {
    value.ErrorExpected("a text");
  } else if (std::ranges::any_of(value.text(), refused)) {
    value.Error("must not contain control characters other than line breaks and tabs");
  } else {
    out.text = value.text();
  }
}

}  // namespace

void Read(const conf::Value& value, CommandWords& command) {
  std::vector<CommandText> words;
  conf::Read(value, words);
  command.words->clear();
  command.words->reserve(words.size());
  for (CommandText& word : words) command.words->push_back(std::move(word.text));
}

void Write(conf::Writer& writer, const CommandWords& command) {
  conf::Write(writer, *command.words);
}

void Read(const conf::Value& value, VariableValues& variables) {
  std::map<std::string, CommandText> values;
  conf::Read(value, values);
  variables.values->clear();
  for (auto& [name, one] : values) variables.values->emplace(name, std::move(one.text));
}

void Write(conf::Writer& writer, const VariableValues& variables) {
  conf::Write(writer, *variables.values);
}

std::string UnevenBraces(std::string_view text) {
  const std::string_view uneven = conf::UnevenPlaceholder(text, [](std::string_view name) {
    return plugins::launchers::IsPlaceholder(name) || name.starts_with("sweep.") || name.starts_with("data.");
  });
  if (uneven.empty()) return {};
  const std::string_view name =
      uneven.substr(uneven.find_first_not_of('{'), uneven.find('}') - uneven.find_first_not_of('{'));
  return fmt::format(
      "names {}, which is ambiguous: write {{{}}} for the value, or {{{{{}}}}} for the text {{{}}}", uneven,
      name, name, name);
}

}  // namespace gateway::config
