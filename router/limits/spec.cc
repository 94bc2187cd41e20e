#include "router/limits/spec.h"

#include <fmt/format.h>

#include <array>

#include "conf/text.h"

namespace router::limits {
namespace {

struct DimensionInfo {
  Shape shape;
  std::string_view name;  // for budgets, the stem before `_per_day`
};

constexpr std::array<DimensionInfo, kDimensions> kInfo = {{
    {Shape::kWindow, "requests_per_minute"},
    {Shape::kWindow, "tokens_per_minute"},
    {Shape::kWindow, "input_tokens_per_minute"},
    {Shape::kWindow, "output_tokens_per_minute"},
    {Shape::kGauge, "concurrency"},
    {Shape::kPeriod, ""},
    {Shape::kPeriod, ""},
    {Shape::kPeriod, ""},
}};
constexpr std::array<std::string_view, kPeriods> kBudgetNames = {"budget_per_day", "budget_per_week",
                                                                 "budget_per_month"};
constexpr std::array<std::string_view, kPeriods> kTokenBudgetNames = {
    "token_budget_per_day", "token_budget_per_week", "token_budget_per_month"};
constexpr std::array<std::string_view, kPeriods> kDeviceBudgetNames = {
    "device_budget_per_day", "device_budget_per_week", "device_budget_per_month"};

absl::Status Invalid(const std::string& message) {
  return absl::InvalidArgumentError(conf::Abseil(message));
}

}  // namespace

Shape ShapeOf(Dimension dimension) {
  return kInfo[static_cast<size_t>(dimension)].shape;
}

std::string_view LimitName(Dimension dimension, Period period) {
  if (dimension == Dimension::kBudget) return kBudgetNames[static_cast<size_t>(period)];
  if (dimension == Dimension::kTokenBudget) return kTokenBudgetNames[static_cast<size_t>(period)];
  if (dimension == Dimension::kDeviceBudget) return kDeviceBudgetNames[static_cast<size_t>(period)];
  return kInfo[static_cast<size_t>(dimension)].name;
}

bool LimitSpec::SameLimit(const LimitSpec& other) const {
  return dimension == other.dimension && model == other.model && device == other.device &&
         (ShapeOf(dimension) != Shape::kPeriod || period == other.period);
}

absl::Status Validate(const NodeSpec& node) {
  if (node.path.empty() || node.path.front() == '/' || node.path.back() == '/' ||
      node.path.find("//") != std::string::npos) {
    return Invalid(
        fmt::format("limits of \"{}\": the path must be names joined by single slashes", node.path));
  }
  for (size_t i = 0; i < node.limits.size(); ++i) {
    const LimitSpec& spec = node.limits[i];
    const std::string_view name = LimitName(spec.dimension, spec.period);
    if (spec.capacity < 0 || spec.capacity > kMaxCapacity) {
      return Invalid(fmt::format("limits of \"{}\": {} is {}; it must be from 0 to {}", node.path, name,
                                 spec.capacity, kMaxCapacity));
    }
    for (size_t j = 0; j < i; ++j) {
      if (spec.SameLimit(node.limits[j])) {
        return Invalid(fmt::format("limits of \"{}\": {} for {} is given twice", node.path, name,
                                   spec.model.empty() ? "any model" : spec.model));
      }
    }
  }
  return absl::OkStatus();
}

std::string_view ParentPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

}  // namespace router::limits
