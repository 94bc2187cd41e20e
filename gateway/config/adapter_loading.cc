#include "gateway/config/adapter_loading.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/reader.h"
#include "conf/text.h"

namespace gateway::config {
namespace {

constexpr size_t kLongestSource = 512;

bool IsOfSource(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("/._-@=+").find(c) != std::string_view::npos;
}

// A source stands for itself and for what is below it, by whole parts of the path.
bool IsBelow(std::string_view source, std::string_view above) {
  return source.starts_with(above) && (source.size() == above.size() || source[above.size()] == '/');
}

struct ValidSource {
  std::string operator()(std::string_view source) const { return WhyNoSource(source); }
};

}  // namespace

std::string WhyNoSource(std::string_view source) {
  if (source.empty()) return "is empty; give a path on the engines' machines, such as /adapters/sql";
  if (source.size() > kLongestSource) return fmt::format("is longer than {} characters", kLongestSource);
  if (!std::ranges::all_of(source, IsOfSource))
    return "has characters other than letters, digits and / . _ - @ = +; give a path such as /adapters/sql";
  std::string_view rest = source.starts_with('/') ? source.substr(1) : source;
  while (true) {
    const size_t end = rest.find('/');
    const std::string_view part = rest.substr(0, end);
    if (part.empty() || part == "." || part == "..")
      return "has an empty part, \".\" or \"..\"; give the path without them, and without a \"/\" at its end";
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
}

std::string WhyNotFrom(const AdapterLoading& loading, std::string_view source) {
  if (std::string wrong = WhyNoSource(source); !wrong.empty()) return fmt::format("\"{}\" {}", source, wrong);
  const bool allowed =
      std::ranges::any_of(loading.sources, [&](const std::string& above) { return IsBelow(source, above); });
  if (allowed) return {};
  return fmt::format("\"{}\" is in none of the model's adapters.sources; give a path in {}", source,
                     fmt::join(loading.sources, ", "));
}

void Bind(conf::Object& o, AdapterLoading& loading) {
  o.Required("sources", loading.sources, conf::NotEmpty());
  o.Optional("slots", loading.slots, conf::Range{1U, 128U});
  o.Optional("timeout", loading.timeout, conf::Positive());
  for (const std::string& source : loading.sources) {
    if (const std::string wrong = ValidSource()(source); !wrong.empty() && o.reading())
      o.Error(fmt::format("\"{}\" {}", source, wrong), "sources");
  }
}

}  // namespace gateway::config
