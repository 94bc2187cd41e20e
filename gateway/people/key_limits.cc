#include "gateway/people/key_limits.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "conf/reader.h"
#include "conf/shown.h"
#include "conf/text.h"

namespace gateway {
namespace {

namespace limits = router::limits;
using nlohmann::json;

constexpr double kMostUsd = 1e9;

struct RateMember {
  std::string_view name;
  limits::Dimension dimension;
};
constexpr std::array<RateMember, 5> kRates = {{{"requests_per_minute", limits::Dimension::kRequests},
                                               {"tokens_per_minute", limits::Dimension::kTokens},
                                               {"input_tokens_per_minute", limits::Dimension::kInputTokens},
                                               {"output_tokens_per_minute", limits::Dimension::kOutputTokens},
                                               {"concurrency", limits::Dimension::kConcurrency}}};

bool TooLarge(const json& value, double most) {
  return value.is_number() && value.get<double>() > most;
}

absl::StatusOr<int64_t> Whole(std::string_view name, const json& value) {
  if (TooLarge(value, static_cast<double>(limits::kMaxCapacity))) {
    return absl::InvalidArgumentError(fmt::format("limits.{}: {} is too large, expected at most {}", name,
                                                  value.dump(), limits::kMaxCapacity));
  }
  if (!value.is_number_integer() || value.get<int64_t>() <= 0) {
    return absl::InvalidArgumentError(fmt::format("limits.{}: {} is not a whole number from 1 to {}", name,
                                                  value.dump(), limits::kMaxCapacity));
  }
  return value.get<int64_t>();
}

absl::Status ReadBudget(const json& budget, std::vector<limits::LimitSpec>& out) {
  if (!budget.is_object())
    return absl::InvalidArgumentError("limits.budget: not an object such as {\"usd\": 5}");
  limits::Period period = limits::Period::kMonth;
  if (const auto it = budget.find("period"); it != budget.end()) {
    if (*it == "day") {
      period = limits::Period::kDay;
    } else if (*it == "week") {
      period = limits::Period::kWeek;
    } else if (*it != "month") {
      return absl::InvalidArgumentError(
          fmt::format("limits.budget.period: {} is not \"day\", \"week\" or \"month\"", it->dump()));
    }
  }
  bool any = false;
  for (const auto& [name, value] : budget.items()) {
    if (name == "usd") {
      if (TooLarge(value, kMostUsd)) {
        return absl::InvalidArgumentError(fmt::format(
            "limits.budget.usd: {} is too large, expected at most {:.0f}", value.dump(), kMostUsd));
      }
      const int64_t micro_usd = value.is_number() ? std::llround(value.get<double>() * 1e6) : 0;
      if (micro_usd < 1) {
        return absl::InvalidArgumentError(
            fmt::format("limits.budget.usd: {} is not an amount of at least 0.000001", value.dump()));
      }
      out.push_back({limits::Dimension::kBudget, micro_usd, period, ""});
      any = true;
    } else if (name == "tokens") {
      auto tokens = Whole("budget.tokens", value);
      if (!tokens.ok()) return tokens.status();
      out.push_back({limits::Dimension::kTokenBudget, *tokens, period, ""});
      any = true;
    } else if (name != "period") {
      return absl::InvalidArgumentError(
          fmt::format("limits.budget.{}: unknown key, expected one of usd, tokens, period", name));
    }
  }
  return any ? absl::OkStatus() : absl::InvalidArgumentError("limits.budget: give usd or tokens");
}

}  // namespace

absl::StatusOr<std::vector<limits::LimitSpec>> ParseKeyLimits(std::string_view text) {
  const json parsed = conf::ParseJson(text);
  if (!parsed.is_object()) return absl::InvalidArgumentError("limits: not a JSON object");
  std::vector<limits::LimitSpec> specs;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "budget") {
      if (absl::Status s = ReadBudget(value, specs); !s.ok()) return s;
      continue;
    }
    const auto* member =
        std::find_if(kRates.begin(), kRates.end(), [&](const RateMember& m) { return m.name == name; });
    if (member == kRates.end()) {
      std::array<std::string_view, kRates.size() + 1> known;
      for (size_t i = 0; i < kRates.size(); ++i) known[i] = kRates[i].name;
      known.back() = "budget";
      return absl::InvalidArgumentError(
          fmt::format("limits.{}: unknown limit{}", name, conf::DidYouMean(name, known)));
    }
    auto amount = Whole(name, value);
    if (!amount.ok()) return amount.status();
    specs.push_back({member->dimension, *amount, limits::Period::kDay, ""});
  }
  return specs;
}

std::string LimitsInWords(std::string_view text) {
  if (text.empty()) return "-";
  const auto specs = ParseKeyLimits(text);
  if (!specs.ok()) return std::string(text);
  std::string out;
  const auto add = [&out](std::string words) { out.append(out.empty() ? "" : ", ").append(words); };
  for (const limits::LimitSpec& spec : *specs) {
    const std::string_view period = spec.period == limits::Period::kDay    ? "day"
                                    : spec.period == limits::Period::kWeek ? "week"
                                                                           : "month";
    switch (spec.dimension) {
      case limits::Dimension::kRequests:
        add(fmt::format("{}/min", conf::Counted(static_cast<uint64_t>(spec.capacity), "request")));
        break;
      case limits::Dimension::kTokens:
        add(fmt::format("{}/min", conf::Counted(static_cast<uint64_t>(spec.capacity), "token")));
        break;
      case limits::Dimension::kInputTokens:
        add(fmt::format("{}/min", conf::Counted(static_cast<uint64_t>(spec.capacity), "input token")));
        break;
      case limits::Dimension::kOutputTokens:
        add(fmt::format("{}/min", conf::Counted(static_cast<uint64_t>(spec.capacity), "output token")));
        break;
      case limits::Dimension::kConcurrency:
        add(fmt::format("{} at once", spec.capacity));
        break;
      case limits::Dimension::kBudget:
        add(fmt::format("{} USD/{}", conf::FormatMicroUsd(spec.capacity), period));
        break;
      case limits::Dimension::kTokenBudget:
        add(fmt::format("{}/{}", conf::Counted(static_cast<uint64_t>(spec.capacity), "token"), period));
        break;
      default:
        break;
    }
  }
  return out;
}

}  // namespace gateway
