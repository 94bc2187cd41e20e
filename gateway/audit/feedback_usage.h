// Feedback of applications as people ask for it and are shown it: for `tidegate usage --by feedback` and the
// admin API.
//
// Pure, but for QueryFeedback, which reads the ledger's index and what other gateways have told, and blocks; any
// thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"
#include "conf/time.h"
#include "gateway/api/field_problem.h"
#include "gateway/audit/all_usage.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/config/config.h"
#include "gateway/ledger/feedback_table.h"

namespace gateway {

struct ShownFeedback {
  static constexpr std::string_view kSchema = "FeedbackRow";

  // What it is grouped by; the others are absent.
  std::optional<std::string> tenant, key, model, version, replica, hour, day;
  std::string name;
  std::string type;   // boolean, number, text
  int64_t count = 0;  // of requests, each key's latest
  // Of booleans: how many are true, their share, and the interval in which the true share lies with 95 %.
  std::optional<int64_t> positive;
  std::optional<double> rate, rate_low, rate_high;
  std::optional<double> mean, min, max;  // of numbers
  std::optional<std::string> value;      // of texts: this one
};

template <class O>
constexpr void Bind(O& o, ShownFeedback& of) {
  o.Optional("tenant", of.tenant);
  o.Optional("key", of.key);
  o.Optional("model", of.model);
  o.Optional("version", of.version);
  o.Optional("replica", of.replica);
  o.Optional("hour", of.hour);
  o.Optional("day", of.day);
  o.Required("name", of.name);
  o.Required("type", of.type);
  o.Required("count", of.count);
  o.Optional("positive", of.positive);
  o.Optional("rate", of.rate);
  o.Optional("rate_low", of.rate_low);
  o.Optional("rate_high", of.rate_high);
  o.Optional("mean", of.mean);
  o.Optional("min", of.min);
  o.Optional("max", of.max);
  o.Optional("value", of.value);
}

// The word in UsageRequest::by that asks for feedback.
inline constexpr std::string_view kByFeedback = "feedback";
bool AsksForFeedback(const UsageRequest& request);

// Without other groups than kByFeedback: by model and version.
std::vector<FieldProblem> CheckFeedbackRequest(const UsageRequest& request, const Config& config,
                                               conf::TimePoint now, ledger::FeedbackQuery& query);

struct AllFeedback {
  std::vector<ledger::FeedbackSum> sums;  // ordered by group, name, type and text
  std::vector<UsageMark> others;          // by source; the sums of each are as of its mark
};
// Of this gateway's ledger, to its end, and with `others` what they have told, as QueryAllUsage has it: each hour that
// the window touches counts. Unavailable: the reports of the others were never read.
absl::StatusOr<AllFeedback> QueryFeedback(const std::string& ledger_dir, const ledger::FeedbackQuery& query,
                                          const std::optional<UsageOfOthers>& others);

std::vector<ShownFeedback> ShowFeedback(const ledger::FeedbackQuery& query,
                                        const std::vector<ledger::FeedbackSum>& sums);
// As RFC 4180, names first.
std::string FeedbackCsv(const std::vector<ShownFeedback>& rows);

}  // namespace gateway
