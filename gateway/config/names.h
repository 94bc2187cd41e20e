// Names that one part of a configuration defines and others refer to.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "conf/text.h"
#include "gateway/config/model.h"
#include "gateway/config/tenant.h"

namespace gateway::config {

// Sorted, without empty ones. `complete` is false when one could not be read: then an unknown name is not
// reported.
class Names {
 public:
  template <class Range, class Project>
  Names(const Range& range, Project project) {
    for (const auto& item : range) {
      const std::string& name = project(item);
      if (name.empty()) {
        complete_ = false;
      } else {
        names_.insert(name);
      }
    }
  }

  bool Has(std::string_view name) const { return names_.contains(name); }
  bool empty() const { return names_.empty(); }
  bool complete() const { return complete_; }
  bool Matches(std::string_view pattern) const {
    return std::any_of(names_.begin(), names_.end(),
                       [pattern](const auto& name) { return GlobMatches(pattern, name); });
  }
  // `, did you mean "x"?` or `, expected one of a, b`.
  std::string Hint(std::string_view word) const {
    const std::vector<std::string_view> all(names_.begin(), names_.end());
    if (std::string hint = conf::DidYouMean(word, all); !hint.empty()) return hint;
    constexpr size_t kShown = 10;
    std::string list;
    for (size_t i = 0; i < std::min(all.size(), kShown); ++i)
      list += (i == 0 ? "" : ", ") + std::string(all[i]);
    return ", expected one of " + list + (all.size() > kShown ? ", ..." : "");
  }

 private:
  std::set<std::string, std::less<>> names_;
  bool complete_ = true;
};

inline Names TenantNames(const std::vector<Tenant>& tenants) {
  return {tenants, [](const Tenant& t) -> const std::string& { return t.name; }};
}
inline Names ModelNames(const std::vector<Model>& models) {
  return {models, [](const Model& m) -> const std::string& { return m.name; }};
}

// The priorities of tenants and keys: the usual ones, and the bands of all queues.
inline Names PriorityNames(const std::vector<Model>& models) {
  std::vector<Band> bands = Queue().bands;
  for (const Model& model : models) {
    bands.insert(bands.end(), model.queue.bands.begin(), model.queue.bands.end());
  }
  return {bands, [](const Band& b) -> const std::string& { return b.name; }};
}

}  // namespace gateway::config
