// Which members a request's body may have, for a tenant or a model: allowed, denied, forced whatever the caller
// says; whence media may come, and which kinds of tools may be asked for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conf {
class Object;
}

namespace gateway::config {

struct ForcedParameter {
  std::string name;
  std::string json;  // the value as JSON
};

struct Parameters {
  std::optional<std::vector<std::string>> allow{};  // absent: any that is not denied
  std::vector<std::string> deny{};
  std::vector<ForcedParameter> force{};
  std::optional<std::vector<std::string>> media_hosts{};  // of URLs in prompts; absent: any
  std::optional<std::vector<std::string>> tools{};        // types of tools; absent: any

  // Whether it says anything.
  bool empty() const { return !allow && deny.empty() && force.empty() && !media_hosts && !tools; }
  bool Allows(std::string_view name) const;
  bool AllowsMediaOf(std::string_view host) const;
  bool AllowsTool(std::string_view type) const;
};

void Bind(conf::Object& object, Parameters& out);

}  // namespace gateway::config
