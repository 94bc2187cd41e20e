#include "gateway/limits/budgets.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "gateway/ledger/index.h"
#include "gateway/limits/limit_key.h"
#include "router/limits/calendar.h"

namespace gateway {
namespace {

namespace limits = router::limits;

// A path, and the use that is charged to it.
using Charge = std::pair<std::string, ledger::SpendRow>;

absl::StatusOr<std::vector<Charge>> ChargedSince(conf::TimePoint begin, const std::string& ledger_dir,
                                                 const plugins::auth::KeyTable& keys) {
  absl::StatusOr<std::vector<ledger::SpendRow>> rows = ledger::SpentSince(ledger_dir, begin);
  if (!rows.ok()) return rows.status();
  std::vector<Charge> charges;
  for (ledger::SpendRow& row : *rows) {
    std::string path = fmt::format("{}/{}", row.tenant, LimitKeyOf(keys, row.key));
    charges.emplace_back(std::move(path), std::move(row));
  }
  return charges;
}

bool Covers(std::string_view scope, std::string_view path) {
  return path == scope || (path.starts_with(scope) && path[scope.size()] == '/');
}

int64_t Spent(const limits::LimitRef& budget, const std::vector<Charge>& charges) {
  const limits::LimitSpec& spec = budget.spec();
  int64_t spent = 0;
  for (const auto& [path, row] : charges) {
    if (!Covers(budget.scope(), path) || (!spec.model.empty() && spec.model != row.model)) continue;
    switch (spec.dimension) {
      case limits::Dimension::kBudget:
        spent += row.cost_micro_usd;
        break;
      case limits::Dimension::kDeviceBudget:
        if (spec.device.empty() || spec.device == row.device) spent += row.device_us;
        break;
      default:
        spent += row.input + row.output;
    }
  }
  return spec.dimension == limits::Dimension::kDeviceBudget ? spent / 1000 : spent;
}

}  // namespace

std::vector<limits::LimitRef> BudgetsBeside(const limits::LimitTree& tree,
                                            const std::set<std::string>& known) {
  std::vector<limits::LimitRef> budgets = tree.Limits();
  std::erase_if(budgets, [&](const limits::LimitRef& limit) {
    return limits::ShapeOf(limit.spec().dimension) != limits::Shape::kPeriod || known.contains(limit.Id());
  });
  return budgets;
}

std::set<std::string> BudgetIds(const limits::LimitTree& tree) {
  std::set<std::string> ids;
  for (const limits::LimitRef& budget : BudgetsBeside(tree, {})) ids.insert(budget.Id());
  return ids;
}

absl::Status RestoreBudgets(std::span<const limits::LimitRef> budgets, ledger::Ledger& ledger,
                            const std::string& ledger_dir, const plugins::auth::KeyTable& keys,
                            conf::TimePoint now) {
  std::vector<int64_t> settled;
  for (const limits::LimitRef& budget : budgets) settled.push_back(budget.Settled(now));
  if (absl::Status flushed = ledger.Flush(); !flushed.ok()) return flushed;
  std::map<conf::TimePoint, std::vector<Charge>> charges;
  for (const limits::LimitRef& budget : budgets) {
    const conf::TimePoint begin = limits::BoundsOf(budget.spec().period, now).start;
    if (charges.contains(begin)) continue;
    absl::StatusOr<std::vector<Charge>> charged = ChargedSince(begin, ledger_dir, keys);
    if (!charged.ok()) return charged.status();
    charges[begin] = *std::move(charged);
  }
  for (size_t i = 0; i < budgets.size(); ++i) {
    const conf::TimePoint begin = limits::BoundsOf(budgets[i].spec().period, now).start;
    budgets[i].Restore(begin, Spent(budgets[i], charges[begin]), settled[i], now);
  }
  return absl::OkStatus();
}

}  // namespace gateway
