// Section `datasets`: what is removed from the texts of exported data sets, besides the built-in rules.
#pragma once

#include <string>
#include <vector>

namespace conf {
class Object;
}

namespace gateway::config {

struct RedactionRule {
  std::string name;     // what stands in the text's place, in brackets
  std::string pattern;  // a Perl regular expression
};

struct Datasets {
  std::vector<RedactionRule> redact;
};

void Bind(conf::Object& object, RedactionRule& out);
void Bind(conf::Object& object, Datasets& out);

}  // namespace gateway::config
