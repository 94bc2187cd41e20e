// Problem: an error in a document and its place: the one form in which configuration errors are shown.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conf {

struct Problem {
  std::string file;
  std::string pointer;  // RFC 6901: "/models/2/routing/policy"; empty for the document itself
  int line = 0;         // from 1; 0 when there is none, as for a file that cannot be read
  std::string value;    // what was found, cut to a readable length; empty for secrets and for whole sections
  std::string message;  // what is wrong with it and what would be right

  friend bool operator==(const Problem&, const Problem&) = default;
};

// Appends an RFC 6901 token, escaped.
std::string JoinPointer(std::string_view pointer, std::string_view token);

// `tidegate.yaml:/models/2/routing/policy (line 31): unknown policy "prefx", did you mean "prefix"?`
std::string ToString(const Problem& problem);

// An array of objects with the fields of Problem, absent ones left out, for programs.
std::string ToJson(std::span<const Problem> problems);

}  // namespace conf
