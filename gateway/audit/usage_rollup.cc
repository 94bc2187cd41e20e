#include "gateway/audit/usage_rollup.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"

namespace gateway {
namespace {

using ledger::UsageCell;
using nlohmann::json;

constexpr size_t kKeyText = 1;
constexpr size_t kReplicaText = 3;
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
  return json{{"gateway", mark.gateway}, {"seq", mark.seq},           {"first_seq", mark.first_seq},
              {"from_us", mark.from_us}, {"as_of_us", mark.as_of_us}, {"closed", mark.closed}}
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
  } catch (const std::exception& error) {
    return NoUsage(fmt::format("the mark of usage {}", source), error.what());
  }
  return mark;
}

std::vector<std::string> UsageParts(std::vector<UsageCell> cells) {
  if (cells.size() > kMostUsageCells) Fold(cells, kReplicaText);
  if (cells.size() > kMostUsageCells) Fold(cells, kKeyText);
  std::vector<std::string> parts;
  std::map<std::string, size_t, std::less<>> texts;
  json rows = json::array();
  size_t bytes = 0;
  const auto end_part = [&] {
    if (rows.empty()) return;
    json names = json::array();
    for (size_t i = 0; i < texts.size(); ++i) names.emplace_back();
    for (const auto& [text, at] : texts) names[at] = text;
    parts.push_back(json{{"texts", std::move(names)}, {"rows", std::move(rows)}}.dump(
        -1, ' ', false, json::error_handler_t::replace));
    texts.clear();
    rows = json::array();
    bytes = 0;
  };
  for (const UsageCell& cell : cells) {
    json row = json::array();
    for (const std::string& text : cell.of) {
      const auto [at, added] = texts.emplace(text, texts.size());
      if (added) bytes += text.size() + 3;
      row.push_back(at->second);
    }
    for (int64_t UsageCell::* sum : kCellSums) row.push_back(cell.*sum);
    rows.push_back(std::move(row));
    bytes += kRowBytes;
    if (bytes >= kPartBytes) end_part();
  }
  end_part();
  return parts;
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

std::optional<UsagePlace> ParseUsageId(std::string_view id) {
  const size_t first = id.find('/');
  if (first == 0 || id.empty()) return std::nullopt;
  UsagePlace place{.source = std::string(id.substr(0, first))};
  if (first == std::string_view::npos) return place;
  const size_t second = id.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  place.hour = ParseWhole<int64_t>(id.substr(first + 1, second - first - 1));
  if (!place.hour || !ParseWhole<size_t>(id.substr(second + 1))) return std::nullopt;
  return place;
}

}  // namespace gateway
