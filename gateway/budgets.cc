#include "gateway/budgets.h"

#include <map>
#include <vector>

#include "gateway/ledger/index.h"
#include "router/limits/calendar.h"

namespace gateway {
namespace {

namespace limits = router::limits;

bool Covers(const std::string& scope, const std::string& tenant, const std::string& key) {
  const std::string path = tenant + "/" + key;
  return path == scope || tenant == scope || path.starts_with(scope + "/");
}

}  // namespace

absl::Status RestoreBudgets(limits::LimitTree& tree, const std::string& ledger_dir, conf::TimePoint now) {
  std::map<conf::TimePoint, std::vector<ledger::UsageRow>> since;
  for (const limits::LimitRef& limit : tree.Limits()) {
    const limits::LimitSpec& spec = limit.spec();
    if (limits::ShapeOf(spec.dimension) != limits::Shape::kPeriod) continue;
    const conf::TimePoint begin = limits::BoundsOf(spec.period, now).start;
    auto rows = since.find(begin);
    if (rows == since.end()) {
      using By = ledger::UsageBy;
      auto found = ledger::QueryUsage(
          ledger_dir, {.by = {By::kTenant, By::kKey, By::kModel}, .since_us = conf::ToUnixMicros(begin)});
      if (!found.ok()) return found.status();
      rows = since.emplace(begin, *std::move(found)).first;
    }
    int64_t spent = 0;
    for (const ledger::UsageRow& row : rows->second) {
      if (!Covers(limit.scope(), row.group[0], row.group[1])) continue;
      if (!spec.model.empty() && spec.model != row.group[2]) continue;
      spent += spec.dimension == limits::Dimension::kBudget ? row.cost_micro_usd : row.input + row.output;
    }
    tree.Restore(limit.scope(), spec, begin, spent, now);
  }
  return absl::OkStatus();
}

}  // namespace gateway
