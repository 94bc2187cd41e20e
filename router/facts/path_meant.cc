#include "router/facts/path_meant.h"

#include "router/facts/api.h"

namespace router {

std::string PathMeant(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string_view rest = path;
  for (bool found = true; found;) {
    found = rest.starts_with("//");
    if (found) rest.remove_prefix(1);
    for (const std::string_view prefix : {"/v1", "/V1", "/api", "/openai", "/anthropic"}) {
      if (!rest.starts_with(prefix) || !rest.substr(prefix.size()).starts_with('/')) continue;
      rest.remove_prefix(prefix.size());
      found = true;
    }
  }
  for (const ApiSpec& spec : AllApis()) {
    if (rest == spec.path) return "/v1" + std::string(spec.path);
  }
  return {};
}

}  // namespace router
