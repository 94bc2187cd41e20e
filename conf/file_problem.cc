#include "conf/file_problem.h"

#include <fmt/format.h>

namespace conf {

Problem FileProblem(std::string_view path, std::string_view why) {
  Problem out;
  out.file = path.empty() ? "\"\"" : path;
  out.message = why;
  for (const std::string& named : {fmt::format(" {}:", path), fmt::format(" \"{}\":", path)}) {
    const size_t at = out.message.find(named);
    if (at == std::string::npos) continue;
    out.message.replace(at, named.size(), " it:");
    break;
  }
  return out;
}

}  // namespace conf
