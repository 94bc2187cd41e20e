#include "gateway/config/command_text.h"

#include <absl/strings/ascii.h>

#include <algorithm>

#include "conf/reader.h"

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

}  // namespace gateway::config
