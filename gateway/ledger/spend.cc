#include "gateway/ledger/spend.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "conf/time.h"
#include "gateway/ledger/segment.h"
#include "router/limits/calendar.h"

namespace gateway::ledger {
namespace {

constexpr int64_t kDayUs = int64_t{24} * 3600 * 1'000'000;
constexpr std::string_view kBearer = "jwt:";

int64_t StartOf(router::limits::Period period, int64_t day) {
  return conf::ToUnixMicros(router::limits::BoundsOf(period, conf::FromUnixMicros(day * kDayUs)).start) /
         kDayUs;
}

auto Order(const SpendRow& row) {
  return std::tie(row.day, row.tenant, row.key, row.model, row.device);
}

}  // namespace

RetentionPart ReadRetention(std::string_view body) {
  return {FindUint(body, "to_seq").value_or(0), FindUint(body, "number").value_or(1),
          FindUint(body, "of").value_or(1)};
}

int64_t DayOf(int64_t time_us) {
  return time_us / kDayUs;
}

int64_t SpendDay(const CloseFacts& close, int64_t close_time_us) {
  return DayOf(close.open_time_us > 0 ? close.open_time_us : close_time_us);
}

std::string_view SpendKey(std::string_view key) {
  return key.starts_with(kBearer) ? std::string_view() : key;
}

// Days before today can be merged, unless a week or a month begins between them.
std::optional<int64_t> FoldDay(int64_t day, int64_t today) {
  if (day >= today) return day;
  const int64_t week = StartOf(router::limits::Period::kWeek, today);
  const int64_t month = StartOf(router::limits::Period::kMonth, today);
  for (const int64_t start : {std::max(week, month), std::min(week, month)}) {
    if (day >= start) return start;
  }
  return std::nullopt;
}

void Spend::Add(const SpendRow& row) {
  if (row.input == 0 && row.output == 0 && row.cost_micro_usd == 0 && row.device_us == 0) return;
  name_.clear();
  fmt::format_to(std::back_inserter(name_), "{}", row.day);
  for (const std::string& text :
       {std::cref(row.tenant), std::cref(row.key), std::cref(row.model), std::cref(row.device)})
    name_.append(1, '\0').append(text);
  const auto [at, added] = rows_.try_emplace(name_, row);
  if (added) return;
  at->second.input += row.input;
  at->second.output += row.output;
  at->second.cost_micro_usd += row.cost_micro_usd;
  at->second.device_us += row.device_us;
}

void Spend::Add(const CloseFacts& close, int64_t close_time_us) {
  Add({.day = SpendDay(close, close_time_us),
       .tenant = std::string(close.tenant),
       .key = std::string(SpendKey(close.key)),
       .model = std::string(close.model),
       .input = close.input,
       .output = close.output,
       .cost_micro_usd = close.cost_micro_usd});
}

void Spend::AddDevices(const Record& record) {
  Add({.day = DayOf(record.time_us),
       .tenant = record.tenant,
       .key = {},
       .model = record.model,
       .device = record.device,
       .device_us = record.device_us});
}

std::vector<SpendRow> Spend::Carried(int64_t today) const {
  Spend folded;
  for (const auto& [name, row] : rows_) {
    const std::optional<int64_t> day = FoldDay(row.day, today);
    if (!day) continue;
    SpendRow moved = row;
    moved.day = *day;
    folded.Add(moved);
  }
  std::vector<SpendRow> rows;
  for (const auto& [name, row] : folded.rows_) rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](const SpendRow& a, const SpendRow& b) { return Order(a) < Order(b); });
  return rows;
}

absl::StatusOr<Spend> SpendOf(const std::string& segment_path) {
  absl::StatusOr<LineReader> reader = LineReader::Open(segment_path);
  if (!reader.ok()) return reader.status();
  Spend spend;
  std::vector<SpendRow> carried;  // of a retention record whose last part was not read yet
  RecordParser parser;
  Record record;
  while (true) {
    absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
    if (!line.ok()) return line.status();
    if (!*line) return spend;
    const std::optional<LineParts> parts = SplitLine(**line);
    if (!parts) continue;
    if (parts->kind == Name(Kind::kClose)) {
      CloseFacts close;
      if (!ReadCloseFacts(parts->body, &close)) {
        if (!parser.Parse(**line, &record).ok()) continue;
        close = FactsOf(record);
      }
      spend.Add(close, parts->time_us);
    } else if (parts->kind == Name(Kind::kDevices)) {
      if (parser.Parse(**line, &record).ok()) spend.AddDevices(record);
    } else if (parts->kind == Name(Kind::kRetention)) {
      const RetentionPart at = ReadRetention(parts->body);
      if (at.part == 1) carried.clear();
      for (SpendRow& row : ReadRows(**line)) carried.push_back(std::move(row));
      if (at.part < at.parts) continue;
      for (const SpendRow& row : carried) spend.Add(row);
      carried.clear();
    }
  }
}

std::string RenderRows(const SpendRow* begin, const SpendRow* end) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SpendRow* row = begin; row != end; ++row) {
    rows.push_back({{"day", row->day},
                    {"tenant", row->tenant},
                    {"key", row->key},
                    {"model", row->model},
                    {"input", row->input},
                    {"output", row->output},
                    {"cost_micro_usd", row->cost_micro_usd}});
    if (row->device.empty()) continue;
    rows.back()["device"] = row->device;
    rows.back()["device_us"] = row->device_us;
  }
  return conf::DumpJson(rows);
}

std::vector<SpendRow> ReadRows(std::string_view retention_line) {
  const nlohmann::json record = conf::ParseJson(retention_line);
  std::vector<SpendRow> rows;
  if (!record.is_object() || !record.contains("spent") || !record["spent"].is_array()) return rows;
  const auto text = [](const nlohmann::json& row, const char* name) {
    const auto at = row.find(name);
    return at != row.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  const auto number = [](const nlohmann::json& row, const char* name) {
    const auto at = row.find(name);
    return at != row.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
  };
  for (const nlohmann::json& row : record["spent"]) {
    if (!row.is_object()) continue;
    rows.push_back({.day = number(row, "day"),
                    .tenant = text(row, "tenant"),
                    .key = text(row, "key"),
                    .model = text(row, "model"),
                    .device = text(row, "device"),
                    .input = number(row, "input"),
                    .output = number(row, "output"),
                    .cost_micro_usd = number(row, "cost_micro_usd"),
                    .device_us = number(row, "device_us")});
  }
  return rows;
}

}  // namespace gateway::ledger
