#include "gateway/config/datasets.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/reader.h"
#include "plugins/redaction/redaction.h"

namespace gateway::config {

void Bind(conf::Object& o, RedactionRule& rule) {
  o.Required("name", rule.name);
  o.Required("pattern", rule.pattern);
  if (!o.reading() || rule.name.empty() || rule.pattern.empty()) return;
  if (const std::string why = plugins::Redaction::WhyWrong({rule.name, rule.pattern}); !why.empty())
    o.Error(why);
}

void Bind(conf::Object& o, Datasets& datasets) {
  o.Optional("redact", datasets.redact);
  if (datasets.redact.size() > plugins::Redaction::kMaxPatterns)
    o.Error(fmt::format("must have at most {} rules", plugins::Redaction::kMaxPatterns), "redact");
  for (size_t i = 1; i < datasets.redact.size(); ++i) {
    const auto end = datasets.redact.begin() + static_cast<ptrdiff_t>(i);
    if (std::ranges::find(datasets.redact.begin(), end, datasets.redact[i].name, &RedactionRule::name) != end)
      o.Error(fmt::format("has two rules named {}", datasets.redact[i].name), "redact");
  }
}

}  // namespace gateway::config
