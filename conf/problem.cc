#include "conf/problem.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/shown.h"

namespace conf {

std::string JoinPointer(std::string_view pointer, std::string_view token) {
  std::string out(pointer);
  out += '/';
  for (const char c : token) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string ToString(const Problem& problem) {
  std::string where = problem.file;
  if (!problem.pointer.empty()) where += ":" + problem.pointer;
  if (problem.line > 0) where += fmt::format(" (line {})", problem.line);
  return Visible(fmt::format("{}: {}", where, problem.message));
}

std::string ToJson(std::span<const Problem> problems) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Problem& problem : problems) {
    nlohmann::ordered_json one = {{"file", Visible(problem.file)}, {"pointer", Visible(problem.pointer)}};
    if (problem.line > 0) one["line"] = problem.line;
    if (!problem.value.empty()) one["value"] = Visible(problem.value);
    one["message"] = Visible(problem.message);
    out.push_back(std::move(one));
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace conf
