// Texts that a program gets as they are written: the words of a command, and the values of its variables. Unlike
// other texts of a configuration they may have several lines and tabs, as a script for `sh -c` has.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace conf {
class Value;
class Writer;
}  // namespace conf

namespace gateway::config {

struct CommandWords {
  std::vector<std::string>* words;
  bool empty() const { return words->empty(); }
};
void Read(const conf::Value& value, CommandWords& command);
void Write(conf::Writer& writer, const CommandWords& command);

struct VariableValues {
  std::map<std::string, std::string>* values;
};
void Read(const conf::Value& value, VariableValues& variables);
void Write(conf::Writer& writer, const VariableValues& variables);

// What is wrong with the braces of a placeholder in a command; empty: nothing.
std::string UnevenBraces(std::string_view text);

}  // namespace gateway::config
