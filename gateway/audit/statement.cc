#include "gateway/audit/statement.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/hex.h"
#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/tail.h"
#include "plugins/auth/digest.h"

namespace gateway {
namespace {

using ledger::UsageRow;
using nlohmann::ordered_json;

// Records carry the time of their event and reach the disk some moments later.
constexpr conf::Duration kSettled = std::chrono::minutes(5);
constexpr std::string_view kJsonDigest = ",\"digest\":\"sha256:";
constexpr std::string_view kCsvDigest = "digest,sha256:";
constexpr size_t kDigestHex = 64;

// What the marks of all gateways say of a month's figures.
void JudgeLedgers(const AllUsage& usage, conf::TimePoint now, Statement& out) {
  out.ledgers = usage.sources;
  std::vector<const UsageMark*> marks;
  for (const UsageMark& mark : usage.others) marks.push_back(&mark);
  if (usage.own) marks.push_back(&*usage.own);
  bool so_far = now < out.month.end + kSettled;
  bool incomplete = false;
  for (const UsageMark* mark : marks) {
    const conf::TimePoint as_of = conf::FromUnixMicros(mark->as_of_us);
    const bool counts =
        as_of >= out.month.begin || std::ranges::find(usage.sources, mark->source) != usage.sources.end();
    if (!counts) continue;
    if (conf::FromUnixMicros(mark->from_us) > out.month.begin) incomplete = true;
    if (mark->closed || as_of >= out.month.end + kSettled) continue;
    if (now >= out.month.end + kSettled) out.behind.push_back(mark->source);
    (now - as_of < kGoneForUsage ? so_far : incomplete) = true;
  }
  std::ranges::sort(out.behind);
  if (!so_far && !incomplete) return;
  out.state = incomplete ? "incomplete" : "so_far";
  if (so_far) out.as_of = AsOf(usage.others, now);
}

ordered_json Figures(const UsageRow& row) {
  ordered_json devices = ordered_json::object();
  for (const auto& [kind, us] : row.device_us) devices[kind] = us;
  ordered_json figures = {{"requests", row.requests},
                          {"errors", row.errors},
                          {"failed", row.failed},
                          {"input_tokens", row.input},
                          {"cached_tokens", row.cached},
                          {"output_tokens", row.output},
                          {"cost_micro_usd", row.cost_micro_usd},
                          {"device_us", std::move(devices)}};
  if (row.energy_mj > 0) figures["energy_mj"] = row.energy_mj;
  if (row.energy_micro_usd > 0) figures["energy_micro_usd"] = row.energy_micro_usd;
  if (row.co2_mg > 0) figures["co2_mg"] = row.co2_mg;
  return figures;
}

std::string Whole(const std::optional<uint64_t>& number) {
  return number ? std::to_string(*number) : std::string();
}

std::string DigestOf(std::string_view text) {
  return conf::Hex(plugins::auth::Sha256(text));
}

}  // namespace

std::optional<StatementMonth> ParseMonth(std::string_view text) {
  if (text.size() != 7 || text[4] != '-') return std::nullopt;
  int year = 0;
  int month = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == 4) continue;
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    int& of = i < 4 ? year : month;
    of = of * 10 + (text[i] - '0');
  }
  if (year < 1970 || month < 1 || month > 12) return std::nullopt;
  const auto begin = conf::ParseTime(fmt::format("{:04}-{:02}-01T00:00:00Z", year, month));
  const auto end = conf::ParseTime(
      fmt::format("{:04}-{:02}-01T00:00:00Z", month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1));
  if (!begin || !end) return std::nullopt;
  return StatementMonth{std::string(text), *begin, *end};
}

absl::StatusOr<Statement> MakeStatement(const std::string& dir, const std::string& tenant,
                                        const StatementMonth& month, conf::TimePoint now,
                                        const std::optional<UsageOfOthers>& others) {
  if (now < month.begin)
    return absl::InvalidArgumentError(fmt::format("the month {} has not begun", month.name));
  Statement out{.tenant = tenant, .month = month, .state = "final"};
  const ledger::UsageQuery query{
      .by = {ledger::UsageBy::kTenant, ledger::UsageBy::kModel, ledger::UsageBy::kJob},
      .since_us = conf::ToUnixMicros(month.begin),
      .until_us = conf::ToUnixMicros(month.end),
      .tenant = tenant};
  absl::StatusOr<AllUsage> usage = QueryAllUsage(dir, query, others);
  if (!usage.ok()) return usage.status();
  out.lines = std::move(usage->rows);
  // By bytes, whatever the order of the index.
  std::ranges::sort(out.lines, {}, &UsageRow::group);
  for (const UsageRow& line : out.lines) out.total += line;
  if (others) {
    JudgeLedgers(*usage, now, out);
    return out;
  }
  if (const std::optional<ledger::FirstRecord> first = ledger::FirstLeft(dir);
      first && first->time_us > query.since_us) {
    out.state = "incomplete";
    out.from_record = first->seq;
  }
  if (now < month.end + kSettled) {
    if (!out.from_record) out.state = "so_far";
    out.up_to_record = usage->last_seq;
  }
  return out;
}

std::string StatementJson(const Statement& statement) {
  ordered_json out = {{"object", "statement"},         {"version", 1},
                      {"tenant", statement.tenant},    {"month", statement.month.name},
                      {"state", statement.state},      {"from_record", nullptr},
                      {"up_to_record", nullptr},       {"currency", "USD"},
                      {"lines", ordered_json::array()}};
  if (statement.from_record) out["from_record"] = *statement.from_record;
  if (statement.up_to_record) out["up_to_record"] = *statement.up_to_record;
  if (statement.ledgers) {
    out["ledgers"] = *statement.ledgers;
    out["behind"] = statement.behind;
    out["as_of"] = statement.as_of ? ordered_json(conf::FormatTime(*statement.as_of)) : ordered_json();
  }
  for (const UsageRow& line : statement.lines) {
    ordered_json shown = {{"tenant", line.group[0]}, {"model", line.group[1]}, {"job", line.group[2]}};
    shown.update(Figures(line));
    out["lines"].push_back(std::move(shown));
  }
  out["total"] = Figures(statement.total);
  std::string text = conf::DumpJson(out);
  text.pop_back();  // the brace
  const std::string digest = DigestOf(text);
  return text.append(kJsonDigest).append(digest).append("\"}\n");
}

std::string StatementCsv(const Statement& statement) {
  std::vector<UsageRow> all = statement.lines;
  const std::set<std::string> kinds = DeviceKindsIn(all);
  std::string out =
      "month,state,from_record,up_to_record,tenant,model,job,requests,errors,failed,input_tokens,cached_"
      "tokens,"
      "output_tokens,cost_usd";
  size_t columns = 14;
  for (const std::string& kind : kinds) {
    ledger::AppendCsvField(&(out += ','), "device_seconds " + kind);
    ++columns;
  }
  const EnergyColumns energy = EnergyIn(all);
  columns +=
      static_cast<size_t>(energy.energy) + static_cast<size_t>(energy.cost) + static_cast<size_t>(energy.co2);
  out += EnergyNames(energy) + "\r\n";
  UsageRow total = statement.total;
  total.group = {"(total)", "", ""};
  all.push_back(std::move(total));
  for (const UsageRow& row : all) {
    out += fmt::format("{},{},{},{}", statement.month.name, statement.state, Whole(statement.from_record),
                       Whole(statement.up_to_record));
    for (const std::string& group : row.group) ledger::AppendCsvField(&(out += ','), group);
    out +=
        fmt::format(",{},{},{},{},{},{},{}.{:06}", row.requests, row.errors, row.failed, row.input,
                    row.cached, row.output, row.cost_micro_usd / 1'000'000, row.cost_micro_usd % 1'000'000);
    for (const std::string& kind : kinds) {
      const auto held = row.device_us.find(kind);
      const int64_t us = held == row.device_us.end() ? 0 : held->second;
      out += fmt::format(",{}.{:06}", us / 1'000'000, us % 1'000'000);
    }
    out += EnergyCells(energy, row) + "\r\n";
  }
  const std::string digest = DigestOf(out);
  return out.append(kCsvDigest).append(digest).append(columns - 2, ',').append("\r\n");
}

std::optional<bool> HasItsDigest(std::string_view text) {
  for (const std::string_view mark : {kJsonDigest, kCsvDigest}) {
    const size_t at = text.rfind(mark);
    if (at == std::string_view::npos || text.size() < at + mark.size() + kDigestHex) continue;
    return DigestOf(text.substr(0, at)) == text.substr(at + mark.size(), kDigestHex);
  }
  return std::nullopt;
}

}  // namespace gateway
