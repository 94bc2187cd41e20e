#include "gateway/audit/usage_rollup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "conf/text.h"

namespace gateway {
namespace {

using ledger::UsageCell;
using nlohmann::json;

constexpr size_t kKeyText = 1;
constexpr size_t kReplicaText = 3;
// Likewise of FeedbackCell::of.
constexpr size_t kFeedbackKey = 1;
constexpr size_t kFeedbackReplica = 4;
constexpr size_t kFeedbackNameText = 5;
constexpr size_t kFeedbackText = 6;
constexpr size_t kRowBytes = 64;  // about, without its texts

// Of the texts and sums that every version has told.
constexpr size_t kFirstSums = ledger::kUsageTexts + 7;
constexpr std::array kCellSums = {&UsageCell::requests,  &UsageCell::errors,    &UsageCell::input,
                                  &UsageCell::cached,    &UsageCell::output,    &UsageCell::cost_micro_usd,
                                  &UsageCell::device_us, &UsageCell::energy_mj, &UsageCell::energy_micro_usd,
                                  &UsageCell::co2_mg};

void Fold(std::vector<UsageCell>& cells, size_t text) {
  std::map<std::array<std::string, ledger::kUsageTexts>, UsageCell> folded;
  for (UsageCell& cell : cells) {
    if (!cell.of[text].empty()) cell.of[text] = kOtherUsage;
    UsageCell& into = folded[cell.of];
    into.of = cell.of;
    for (int64_t UsageCell::* sum : kCellSums) into.*sum += cell.*sum;
  }
  cells.clear();
  for (auto& [of, cell] : folded) cells.push_back(std::move(cell));
}

// JSON has no infinity.
double Finite(double sum) {
  return std::clamp(sum, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
}

// By what FeedbackCell::of has at that place; a text that is empty stays so.
void FoldFeedback(std::vector<ledger::FeedbackCell>& cells, size_t text) {
  if (cells.size() <= kMostUsageCells) return;
  std::map<std::pair<std::array<std::string, ledger::kFeedbackTexts>, ledger::FeedbackType>,
           ledger::FeedbackCell>
      folded;
  for (ledger::FeedbackCell& cell : cells) {
    if (!cell.of[text].empty()) cell.of[text] = kOtherUsage;
    const auto [at, added] = folded.try_emplace({cell.of, cell.type}, cell);
    if (added) continue;
    ledger::FeedbackCell& into = at->second;
    into.count += cell.count;
    into.positive += cell.positive;
    into.sum += cell.sum;
    into.min = std::min(into.min, cell.min);
    into.max = std::max(into.max, cell.max);
  }
  cells.clear();
  for (auto& [of, cell] : folded) cells.push_back(std::move(cell));
}

// Rows in parts: each is an array of the numbers of its texts, then of its figures.
class PartWriter {
 public:
  void Add(std::span<const std::string> texts, const json& figures) {
    json row = json::array();
    for (const std::string& text : texts) {
      const auto [at, added] = texts_.emplace(text, texts_.size());
      if (added) bytes_ += text.size() + 3;
      row.push_back(at->second);
    }
    for (const json& figure : figures) row.push_back(figure);
    rows_.push_back(std::move(row));
    bytes_ += kRowBytes;
    if (bytes_ >= kPartBytes) End();
  }
  std::vector<std::string> Take() {
    End();
    return std::move(parts_);
  }

 private:
  void End() {
    if (rows_.empty()) return;
    json names = json::array();
    for (size_t i = 0; i < texts_.size(); ++i) names.emplace_back();
    for (const auto& [text, at] : texts_) names[at] = text;
    parts_.push_back(json{{"texts", std::move(names)}, {"rows", std::move(rows_)}}.dump(
        -1, ' ', false, json::error_handler_t::replace));
    texts_.clear();
    rows_ = json::array();
    bytes_ = 0;
  }

  std::vector<std::string> parts_;
  std::map<std::string, size_t, std::less<>> texts_;
  json rows_ = json::array();
  size_t bytes_ = 0;
};

template <class Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

absl::Status NoUsage(std::string_view what, const char* why) {
  return absl::DataLossError(conf::Abseil(fmt::format("{} cannot be read: {}", what, why)));
}

}  // namespace

std::string BodyOf(const UsageMark& mark) {
  return json{{"gateway", mark.gateway},  {"seq", mark.seq},           {"first_seq", mark.first_seq},
              {"from_us", mark.from_us},  {"as_of_us", mark.as_of_us}, {"closed", mark.closed},
              {"feedback", mark.feedback}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<UsageMark> ReadUsageMark(std::string_view source, std::string_view body) {
  UsageMark mark;
  mark.source = source;
  try {
    const json in = json::parse(body);
    mark.gateway = in.at("gateway").get<std::string>();
    mark.seq = in.at("seq").get<uint64_t>();
    mark.first_seq = in.at("first_seq").get<uint64_t>();
    mark.from_us = in.at("from_us").get<int64_t>();
    mark.as_of_us = in.at("as_of_us").get<int64_t>();
    mark.closed = in.at("closed").get<bool>();
    mark.feedback = in.value("feedback", false);
  } catch (const std::exception& error) {
    return NoUsage(fmt::format("the mark of usage {}", source), error.what());
  }
  return mark;
}

std::vector<std::string> UsageParts(std::vector<UsageCell> cells) {
  if (cells.size() > kMostUsageCells) Fold(cells, kReplicaText);
  if (cells.size() > kMostUsageCells) Fold(cells, kKeyText);
  PartWriter parts;
  for (const UsageCell& cell : cells) {
    json figures = json::array();
    for (int64_t UsageCell::* sum : kCellSums) figures.push_back(cell.*sum);
    parts.Add(cell.of, figures);
  }
  return parts.Take();
}

std::vector<std::string> FeedbackParts(std::vector<ledger::FeedbackCell> cells) {
  for (const size_t text : {kFeedbackReplica, kFeedbackKey, kFeedbackText, kFeedbackNameText})
    FoldFeedback(cells, text);
  PartWriter parts;
  for (const ledger::FeedbackCell& cell : cells) {
    parts.Add(cell.of, json::array({static_cast<int>(cell.type), cell.count, cell.positive, Finite(cell.sum),
                                    cell.min, cell.max}));
  }
  return parts.Take();
}

absl::StatusOr<std::vector<ledger::FeedbackCell>> ReadFeedbackPart(std::string_view body) {
  std::vector<ledger::FeedbackCell> cells;
  try {
    const json in = json::parse(body);
    const json& texts = in.at("texts");
    for (const json& row : in.at("rows")) {
      ledger::FeedbackCell& cell = cells.emplace_back();
      size_t column = 0;
      for (std::string& text : cell.of)
        text = texts.at(row.at(column++).get<size_t>()).get_ref<const std::string&>();
      const int type = row.at(column++).get<int>();
      if (type < 0 || type > static_cast<int>(ledger::FeedbackType::kText))
        return NoUsage("a part of feedback", "a value is of no known type");
      cell.type = static_cast<ledger::FeedbackType>(type);
      cell.count = row.at(column++).get<int64_t>();
      cell.positive = row.at(column++).get<int64_t>();
      cell.sum = row.at(column++).get<double>();
      cell.min = row.at(column++).get<double>();
      cell.max = row.at(column).get<double>();
    }
  } catch (const std::exception& error) {
    return NoUsage("a part of feedback", error.what());
  }
  return cells;
}

absl::StatusOr<std::vector<UsageCell>> ReadUsagePart(std::string_view body) {
  std::vector<UsageCell> cells;
  try {
    const json in = json::parse(body);
    const json& texts = in.at("texts");
    for (const json& row : in.at("rows")) {
      UsageCell& cell = cells.emplace_back();
      size_t column = 0;
      for (std::string& text : cell.of)
        text = texts.at(row.at(column++).get<size_t>()).get_ref<const std::string&>();
      for (int64_t UsageCell::* sum : kCellSums) {
        // A gateway of an older version tells fewer sums.
        if (column >= kFirstSums && column == row.size()) break;
        cell.*sum = row.at(column++).get<int64_t>();
      }
    }
  } catch (const std::exception& error) {
    return NoUsage("a part of usage", error.what());
  }
  return cells;
}

std::string UsagePartId(std::string_view source, int64_t hour, size_t part) {
  return fmt::format("{}/{}/{}", source, hour, part);
}

std::string FeedbackPartId(std::string_view source, int64_t hour, size_t part) {
  return fmt::format("{}/{}/f{}", source, hour, part);
}

std::optional<UsagePlace> ParseUsageId(std::string_view id) {
  const size_t first = id.find('/');
  if (first == 0 || id.empty()) return std::nullopt;
  UsagePlace place{.source = std::string(id.substr(0, first))};
  if (first == std::string_view::npos) return place;
  const size_t second = id.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  place.hour = ParseWhole<int64_t>(id.substr(first + 1, second - first - 1));
  std::string_view part = id.substr(second + 1);
  place.feedback = part.starts_with('f');
  if (place.feedback) part.remove_prefix(1);
  if (!place.hour || !ParseWhole<size_t>(part)) return std::nullopt;
  return place;
}

}  // namespace gateway
