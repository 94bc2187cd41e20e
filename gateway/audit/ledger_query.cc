#include "gateway/audit/ledger_query.h"

#include <fmt/format.h>

#include <array>

#include "conf/text.h"

namespace gateway {
namespace {

using ledger::UsageBy;
using ledger::UsageRow;

struct Figure {
  std::string_view name;
  int64_t UsageRow::* value;
};
constexpr std::array<Figure, 7> kFigures = {{{"requests", &UsageRow::requests},
                                             {"errors", &UsageRow::errors},
                                             {"failed", &UsageRow::failed},
                                             {"input_tokens", &UsageRow::input},
                                             {"cached_tokens", &UsageRow::cached},
                                             {"output_tokens", &UsageRow::output},
                                             {"cost_micro_usd", &UsageRow::cost_micro_usd}}};

// In the order of UsageBy.
constexpr std::array<std::optional<std::string> ShownUsage::*, ledger::kUsageBys> kGroups = {
    &ShownUsage::tenant, &ShownUsage::key,  &ShownUsage::model, &ShownUsage::replica, &ShownUsage::api,
    &ShownUsage::reason, &ShownUsage::hour, &ShownUsage::day,   &ShownUsage::job};

std::vector<std::string_view> ByNames() {
  std::vector<std::string_view> names;
  names.reserve(ledger::kUsageBys);
  for (size_t i = 0; i < ledger::kUsageBys; ++i) names.push_back(Name(static_cast<UsageBy>(i)));
  return names;
}

void ReadMoment(const std::string& field, const std::string& text, conf::TimePoint now, int64_t& out,
                std::vector<FieldProblem>& problems) {
  if (text.empty()) return;
  if (const std::optional<conf::TimePoint> at = ParseMoment(text, now)) {
    out = conf::ToUnixMicros(*at);
  } else {
    problems.push_back(
        {field,
         fmt::format("\"{}\" must be a duration such as 7d or a time such as 2027-01-31T00:00:00Z", text)});
  }
}

template <class Query>
void ReadWhere(const auto& request, const Config& config, conf::TimePoint now, Query& query,
               std::vector<FieldProblem>& problems) {
  const size_t before = problems.size();
  ReadMoment("since", request.since, now, query.since_us, problems);
  ReadMoment("until", request.until, now, query.until_us, problems);
  if (problems.size() == before && query.since_us >= query.until_us) {
    problems.push_back({"until", "must be later than since"});
  }
  // A tenant that is no longer configured still has its usage.
  query.tenant = request.tenant.empty() ? "" : TenantPath(config, request.tenant).value_or(request.tenant);
  query.model = request.model;
}

std::string UnknownWord(std::string_view what, std::string_view word,
                        const std::vector<std::string_view>& names) {
  std::string hint = conf::DidYouMean(word, names);
  if (hint.empty()) hint = fmt::format(", expected one of {}", fmt::join(names, ", "));
  return fmt::format("unknown {} \"{}\"{}", what, word, hint);
}

}  // namespace

std::vector<FieldProblem> CheckUsageRequest(const UsageRequest& request, const Config& config,
                                            conf::TimePoint now, ledger::UsageQuery& query) {
  std::vector<FieldProblem> problems;
  for (const std::string& word : request.by) {
    const std::optional<UsageBy> by = ledger::ParseUsageBy(word);
    if (!by) {
      problems.push_back({"by", UnknownWord("group", word, ByNames())});
    } else if (std::find(query.by.begin(), query.by.end(), *by) != query.by.end()) {
      problems.push_back({"by", fmt::format("\"{}\" is given twice", word)});
    } else {
      query.by.push_back(*by);
    }
  }
  ReadWhere(request, config, now, query, problems);
  return problems;
}

std::vector<FieldProblem> CheckAuditRequest(const AuditRequest& request, const Config& config,
                                            conf::TimePoint now, ledger::ExportOptions& options) {
  std::vector<FieldProblem> problems;
  for (const std::string& word : request.kinds) {
    if (const std::optional<ledger::Kind> kind = ledger::ParseKind(word)) {
      options.kinds.push_back(*kind);
      continue;
    }
    std::vector<std::string_view> names;
    names.reserve(ledger::kKinds);
    for (size_t i = 0; i < ledger::kKinds; ++i) names.push_back(Name(static_cast<ledger::Kind>(i)));
    problems.push_back({"kind", UnknownWord("kind", word, names)});
  }
  ReadWhere(request, config, now, options, problems);
  return problems;
}

std::optional<conf::TimePoint> ParseMoment(std::string_view text, conf::TimePoint now) {
  if (const std::optional<conf::Duration> ago = conf::ParseDuration(text)) {
    return std::max(now - *ago, conf::TimePoint());
  }
  return conf::ParseTime(text);
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

std::set<std::string> DeviceKindsIn(const std::vector<UsageRow>& rows) {
  std::set<std::string> kinds;
  for (const UsageRow& row : rows) {
    for (const auto& [kind, us] : row.device_us) kinds.insert(kind);
  }
  return kinds;
}

EnergyColumns EnergyIn(const std::vector<UsageRow>& rows) {
  EnergyColumns columns;
  for (const UsageRow& row : rows) {
    columns.energy |= row.energy_mj > 0;
    columns.cost |= row.energy_micro_usd > 0;
    columns.co2 |= row.co2_mg > 0;
  }
  return columns;
}

std::string EnergyNames(const EnergyColumns& columns) {
  return fmt::format("{}{}{}", columns.energy ? ",energy_kwh" : "", columns.cost ? ",energy_usd" : "",
                     columns.co2 ? ",co2_grams" : "");
}

std::string EnergyCells(const EnergyColumns& columns, const UsageRow& row) {
  std::string out;
  if (columns.energy) out += fmt::format(",{:.6f}", static_cast<double>(row.energy_mj) / kMillijoulesPerKwh);
  if (columns.cost)
    out += fmt::format(",{}.{:06}", row.energy_micro_usd / 1'000'000, row.energy_micro_usd % 1'000'000);
  if (columns.co2) out += fmt::format(",{}.{:03}", row.co2_mg / 1000, row.co2_mg % 1000);
  return out;
}

std::vector<ShownUsage> ShowUsage(const ledger::UsageQuery& query, const std::vector<UsageRow>& rows) {
  std::vector<ShownUsage> out;
  out.reserve(rows.size());
  for (const UsageRow& row : rows) {
    ShownUsage& shown = out.emplace_back();
    for (size_t i = 0; i < query.by.size(); ++i)
      shown.*kGroups[static_cast<size_t>(query.by[i])] = row.group[i];
    shown.requests = row.requests;
    shown.errors = row.errors;
    shown.failed = row.failed;
    shown.input_tokens = row.input;
    shown.cached_tokens = row.cached;
    shown.output_tokens = row.output;
    shown.cost_micro_usd = row.cost_micro_usd;
    for (const auto& [kind, us] : row.device_us) shown.device_seconds[kind] = static_cast<double>(us) * 1e-6;
    if (row.energy_mj > 0) shown.energy_kwh = static_cast<double>(row.energy_mj) / kMillijoulesPerKwh;
    if (row.energy_micro_usd > 0) shown.energy_micro_usd = row.energy_micro_usd;
    if (row.co2_mg > 0) shown.co2_grams = static_cast<double>(row.co2_mg) * 1e-3;
  }
  return out;
}

std::string UsageCsv(const ledger::UsageQuery& query, const std::vector<UsageRow>& rows) {
  std::string out;
  const std::set<std::string> kinds = DeviceKindsIn(rows);
  for (const UsageBy by : query.by) out.append(Name(by)).append(",");
  for (const Figure& figure : kFigures)
    out.append(figure.name).append(&figure == &kFigures.back() ? "" : ",");
  for (const std::string& kind : kinds) ledger::AppendCsvField(&(out += ','), "device_seconds " + kind);
  const EnergyColumns energy = EnergyIn(rows);
  out += EnergyNames(energy) + "\r\n";
  for (const UsageRow& row : rows) {
    for (const std::string& group : row.group) {
      ledger::AppendCsvField(&out, group);
      out += ',';
    }
    for (const Figure& figure : kFigures) {
      out.append(std::to_string(row.*figure.value)).append(&figure == &kFigures.back() ? "" : ",");
    }
    for (const std::string& kind : kinds) {
      const auto held = row.device_us.find(kind);
      const int64_t us = held == row.device_us.end() ? 0 : held->second;
      out.append(fmt::format(",{}.{:06}", us / 1'000'000, us % 1'000'000));
    }
    out += EnergyCells(energy, row) + "\r\n";
  }
  return out;
}

}  // namespace gateway
