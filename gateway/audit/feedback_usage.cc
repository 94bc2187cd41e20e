#include "gateway/audit/feedback_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "conf/text.h"
#include "gateway/audit/usage_copy.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/index.h"
#include "router/health/feedback_rate.h"

namespace gateway {
namespace {

using ledger::FeedbackBy;
using ledger::FeedbackType;

// In the order of FeedbackBy.
constexpr std::array kFeedbackGroups = {
    &ShownFeedback::tenant,  &ShownFeedback::key,  &ShownFeedback::model, &ShownFeedback::version,
    &ShownFeedback::replica, &ShownFeedback::hour, &ShownFeedback::day};

std::vector<std::string_view> FeedbackByNames() {
  std::vector<std::string_view> names = {kByFeedback};
  for (size_t i = 0; i < kFeedbackGroups.size(); ++i) names.push_back(Name(static_cast<FeedbackBy>(i)));
  return names;
}

ShownFeedback ShowSum(const ledger::FeedbackQuery& query, const ledger::FeedbackSum& sum) {
  ShownFeedback shown;
  for (size_t i = 0; i < query.by.size(); ++i)
    shown.*kFeedbackGroups[static_cast<size_t>(query.by[i])] = sum.group[i];
  shown.name = sum.name;
  shown.type = Name(sum.type);
  shown.count = sum.count;
  if (sum.type == FeedbackType::kBoolean) {
    shown.positive = sum.positive;
    if (const auto rate = router::RateOf({.good = sum.positive, .bad = sum.count - sum.positive})) {
      shown.rate = rate->rate;
      shown.rate_low = rate->low;
      shown.rate_high = rate->high;
    }
  } else if (sum.type == FeedbackType::kNumber) {
    shown.mean = sum.sum / static_cast<double>(std::max<int64_t>(sum.count, 1));
    shown.min = sum.min;
    shown.max = sum.max;
  } else {
    shown.value = sum.text;
  }
  return shown;
}

std::vector<ledger::FeedbackSum> MergeSums(std::vector<ledger::FeedbackSum> own,
                                           const std::vector<ledger::FeedbackSum>& others) {
  if (others.empty()) return own;
  using Place = std::tuple<std::vector<std::string>, std::string, FeedbackType, std::string>;
  std::map<Place, ledger::FeedbackSum> all;
  const auto add = [&all](const ledger::FeedbackSum& sum) {
    const auto [at, added] = all.try_emplace({sum.group, sum.name, sum.type, sum.text}, sum);
    if (!added) at->second += sum;
  };
  for (const ledger::FeedbackSum& sum : own) add(sum);
  for (const ledger::FeedbackSum& sum : others) add(sum);
  std::vector<ledger::FeedbackSum> merged;
  merged.reserve(all.size());
  for (auto& [place, sum] : all) merged.push_back(std::move(sum));
  return merged;
}

}  // namespace

bool AsksForFeedback(const UsageRequest& request) {
  return std::ranges::find(request.by, kByFeedback) != request.by.end();
}

std::vector<FieldProblem> CheckFeedbackRequest(const UsageRequest& request, const Config& config,
                                               conf::TimePoint now, ledger::FeedbackQuery& query) {
  UsageRequest where = request;
  where.by.clear();
  ledger::UsageQuery window;
  std::vector<FieldProblem> problems = CheckUsageRequest(where, config, now, window);
  query.since_us = window.since_us;
  query.until_us = window.until_us;
  query.tenant = window.tenant;
  query.model = window.model;
  for (const std::string& word : request.by) {
    if (word == kByFeedback) continue;
    const std::optional<FeedbackBy> by = ledger::ParseFeedbackBy(word);
    if (!by) {
      std::string hint = conf::DidYouMean(word, FeedbackByNames());
      if (hint.empty()) hint = fmt::format(", expected one of {}", fmt::join(FeedbackByNames(), ", "));
      problems.push_back({"by", fmt::format("feedback has no group \"{}\"{}", word, hint)});
    } else if (std::ranges::find(query.by, *by) != query.by.end()) {
      problems.push_back({"by", fmt::format("\"{}\" is given twice", word)});
    } else {
      query.by.push_back(*by);
    }
  }
  if (query.by.empty()) query.by = {FeedbackBy::kModel, FeedbackBy::kVersion};
  return problems;
}

absl::StatusOr<AllFeedback> QueryFeedback(const std::string& ledger_dir, const ledger::FeedbackQuery& query,
                                          const std::optional<UsageOfOthers>& others) {
  AllFeedback all;
  const auto index = ledger::OpenIndexUpToDate(ledger_dir);
  if (!index.ok()) return index.status();
  absl::StatusOr<std::vector<ledger::FeedbackSum>> own = (*index)->feedback().Sums(query);
  if (!own.ok()) return own.status();
  all.sums = *std::move(own);
  if (!others) return all;
  const absl::StatusOr<std::unique_ptr<UsageCopy>> copy = OpenLoadedCopy(*others);
  if (!copy.ok()) return copy.status();
  absl::StatusOr<std::vector<UsageMark>> marks = (*copy)->Marks();
  if (!marks.ok()) return marks.status();
  all.others = *std::move(marks);
  std::erase_if(all.others, [&](const UsageMark& mark) { return mark.source == others->source; });
  const absl::StatusOr<std::vector<ledger::FeedbackSum>> told = (*copy)->Feedback(query);
  if (!told.ok()) return told.status();
  all.sums = MergeSums(std::move(all.sums), *told);
  return all;
}

std::vector<ShownFeedback> ShowFeedback(const ledger::FeedbackQuery& query,
                                        const std::vector<ledger::FeedbackSum>& sums) {
  std::vector<ShownFeedback> shown;
  shown.reserve(sums.size());
  for (const ledger::FeedbackSum& sum : sums) shown.push_back(ShowSum(query, sum));
  return shown;
}

std::string FeedbackCsv(const std::vector<ShownFeedback>& rows) {
  std::string out =
      "tenant,key,model,version,replica,hour,day,name,type,count,positive,rate,rate_low,rate_high,mean,min,"
      "max,"
      "value\r\n";
  const auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string(); };
  for (const ShownFeedback& row : rows) {
    for (const auto group : kFeedbackGroups) {
      ledger::AppendCsvField(&out, (row.*group).value_or(""));
      out += ',';
    }
    ledger::AppendCsvField(&out, row.name);
    out += fmt::format(",{},{},{},{},{},{},{},{},{},", row.type, row.count, number(row.positive),
                       number(row.rate), number(row.rate_low), number(row.rate_high), number(row.mean),
                       number(row.min), number(row.max));
    ledger::AppendCsvField(&out, row.value.value_or(""));
    out += "\r\n";
  }
  return out;
}

}  // namespace gateway
