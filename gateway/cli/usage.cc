// tidegate usage: requests, tokens, cost, device-hours and energy by tenant, model and more, from the ledger's index.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "conf/json_fields.h"
#include "conf/reader.h"
#include "gateway/audit/all_usage.h"
#include "gateway/audit/focus.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/net/clock.h"
#include "gateway/net/url.h"
#include "gateway/process/open_state.h"

namespace gateway::cli {
namespace {

struct UsageOptions {
  AdminOptions admin;
  UsageRequest request;
  std::string format = "table";
  bool json = false;
};

using nlohmann::ordered_json;

// Figures of other gateways are usually not older.
constexpr conf::Duration kFresh = std::chrono::minutes(1);

double ToHours(int64_t us) {
  return static_cast<double>(us) / 3.6e9;
}

std::string AsTable(const ledger::UsageQuery& query, const std::vector<ledger::UsageRow>& rows) {
  std::vector<Table::Column> columns;
  for (const ledger::UsageBy by : query.by) {
    std::string title(Name(by));
    for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    columns.push_back({std::move(title)});
  }
  for (const char* title : {"REQUESTS", "REFUSED", "FAILED", "INPUT", "CACHED", "OUTPUT", "COST (USD)"}) {
    columns.push_back({title, true});
  }
  const std::set<std::string> kinds = DeviceKindsIn(rows);
  for (const std::string& kind : kinds) columns.push_back({kind + " (HOURS)", true});
  const EnergyColumns energy = EnergyIn(rows);
  if (energy.energy) columns.push_back({"ENERGY (kWh)", true});
  if (energy.cost) columns.push_back({"ENERGY (USD)", true});
  if (energy.co2) columns.push_back({"CO2 (KG)", true});
  Table table(std::move(columns));
  const auto add = [&](std::vector<std::string> cells, const ledger::UsageRow& row) {
    for (const int64_t value :
         {row.requests, row.errors - row.failed, row.failed, row.input, row.cached, row.output}) {
      cells.push_back(std::to_string(value));
    }
    cells.push_back(fmt::format("{}.{:06}", row.cost_micro_usd / 1'000'000, row.cost_micro_usd % 1'000'000));
    for (const std::string& kind : kinds) {
      const auto held = row.device_us.find(kind);
      cells.push_back(fmt::format("{:.4f}", held == row.device_us.end() ? 0 : ToHours(held->second)));
    }
    if (energy.energy)
      cells.push_back(fmt::format("{:.4f}", static_cast<double>(row.energy_mj) / kMillijoulesPerKwh));
    if (energy.cost)
      cells.push_back(
          fmt::format("{}.{:06}", row.energy_micro_usd / 1'000'000, row.energy_micro_usd % 1'000'000));
    if (energy.co2) cells.push_back(fmt::format("{:.4f}", static_cast<double>(row.co2_mg) * 1e-6));
    table.Add(std::move(cells));
  };
  ledger::UsageRow total;
  for (const ledger::UsageRow& row : rows) {
    std::vector<std::string> groups = row.group;
    for (std::string& group : groups) {
      if (group.empty()) group = "-";
    }
    add(std::move(groups), row);
    total += row;
  }
  if (!query.by.empty()) {
    std::vector<std::string> groups(query.by.size());
    groups[0] = "total";
    add(std::move(groups), total);
  }
  return table.Render();
}

// A row of the admin API.
ledger::UsageRow RowOf(const ordered_json& shown, const ledger::UsageQuery& query) {
  ledger::UsageRow row;
  for (const ledger::UsageBy by : query.by) row.group.push_back(TextOr(shown, std::string(Name(by)).c_str()));
  row.requests = shown.value("requests", int64_t{0});
  row.errors = shown.value("errors", int64_t{0});
  row.failed = shown.value("failed", int64_t{0});
  row.input = shown.value("input_tokens", int64_t{0});
  row.cached = shown.value("cached_tokens", int64_t{0});
  row.output = shown.value("output_tokens", int64_t{0});
  row.cost_micro_usd = shown.value("cost_micro_usd", int64_t{0});
  if (const auto held = shown.find("device_seconds"); held != shown.end() && held->is_object()) {
    for (const auto& [kind, seconds] : held->items())
      row.device_us[kind] = std::llround(seconds.get<double>() * 1e6);
  }
  row.energy_mj = std::llround(shown.value("energy_kwh", 0.0) * kMillijoulesPerKwh);
  row.energy_micro_usd = shown.value("energy_micro_usd", int64_t{0});
  row.co2_mg = std::llround(shown.value("co2_grams", 0.0) * 1e3);
  return row;
}

// Checks what needs no configuration; the gateway checks the rest.
int CheckWords(const UsageOptions& options, ledger::UsageQuery& query) {
  UsageRequest words = options.request;
  words.tenant.clear();
  return PrintOptionProblems(CheckUsageRequest(words, Config(), net::Now(), query));
}

std::string QueryOf(const UsageRequest& request) {
  return fmt::format("by={}&since={}&until={}&tenant={}&model={}",
                     net::PercentEncode(fmt::format("{}", fmt::join(request.by, ","))),
                     net::PercentEncode(request.since), net::PercentEncode(request.until),
                     net::PercentEncode(request.tenant), net::PercentEncode(request.model));
}

// Beside the figures, so that a CSV stays one.
void TellFreshness(conf::TimePoint as_of) {
  if (net::Now() - as_of < kFresh) return;
  fmt::print(stderr, "tidegate: the figures of another gateway are as of {}; see tidegate gateways\n",
             conf::FormatTime(as_of));
}

absl::StatusOr<std::vector<ledger::UsageRow>> AskRows(const UsageOptions& options,
                                                      const ledger::UsageQuery& query) {
  ordered_json list;
  const auto shown = ListAdmin(options.admin, "/admin/v1/usage?" + QueryOf(options.request), &list);
  if (!shown.ok()) return shown.status();
  if (const auto as_of = conf::ParseTime(TextOr(list, "as_of"))) TellFreshness(*as_of);
  std::vector<ledger::UsageRow> rows;
  for (const ordered_json& row : *shown) rows.push_back(RowOf(row, query));
  return rows;
}

int PrintRows(const UsageOptions& options, const ledger::UsageQuery& query,
              const std::vector<ledger::UsageRow>& rows) {
  const std::string format = options.json ? "json" : options.format;
  if (format == "focus") {
    fmt::print("{}", FocusCsv(rows));
  } else if (format == "csv") {
    fmt::print("{}", UsageCsv(query, rows));
  } else if (format == "json") {
    fmt::print("{}\n", conf::ToJsonText(ShowUsage(query, rows)));
  } else {
    fmt::print("{}", AsTable(query, rows));
  }
  return kOk;
}

int Usage(UsageOptions options) {
  ledger::UsageQuery query;
  if (options.format == "focus" && !options.json) {
    options.request.by.clear();
    for (const ledger::UsageBy by : FocusGroups()) options.request.by.emplace_back(Name(by));
  }
  if (AsksGateway(options.admin)) {
    if (const int code = CheckWords(options, query); code != kOk) return code;
    const auto rows = AskRows(options, query);
    return rows.ok() ? PrintRows(options, query, *rows) : Fail(rows.status());
  }
  const std::optional<Config> config = LoadForState(*options.admin.config, options.json);
  if (!config) return kUsage;
  const int code = PrintOptionProblems(CheckUsageRequest(options.request, *config, net::Now(), query));
  if (code != kOk) return code;
  const std::string dir = LedgerDir(*config);
  if (!std::filesystem::exists(dir)) {
    fmt::print(stderr,
               "tidegate: {}: there is no ledger yet; start a gateway with this configuration first\n", dir);
    return kFailed;
  }
  const auto others = FindUsageOfOthers(*config);
  if (!others.ok()) return Fail(others.status());
  const auto usage = QueryAllUsage(dir, query, *others);
  if (!usage.ok()) return Fail(usage.status());
  if (*others) TellFreshness(AsOf(usage->others, net::Now()));
  return PrintRows(options, query, usage->rows);
}

}  // namespace

void AddUsage(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("usage", "Show requests, tokens, cost, device-hours and energy");
  auto options = std::make_shared<UsageOptions>();
  options->admin.config = AddConfigOption(*command);
  AddGatewayOptions(*command, options->admin);
  UsageRequest& request = options->request;
  request.by = {"tenant", "model"};
  request.since = "7d";
  command
      ->add_option("--by", request.by,
                   "Columns to group by: tenant, key, model, replica, api, reason, hour, day, job")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--since", request.since,
                   "The begin: an age such as 7d, or a time such as 2027-01-31T00:00:00Z")
      ->capture_default_str();
  command->add_option("--until", request.until,
                      "The end, not included; in the form of --since; default: now");
  command->add_option("--tenant", request.tenant, "Only this tenant and the tenants below it");
  command->add_option("--model", request.model, "Only this model");
  command
      ->add_option("--format", options->format, "table, csv, json, or focus: a CSV by FOCUS 1.2 of each hour")
      ->check(CLI::IsMember({"table", "csv", "json", "focus"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "The same as --format json");
  command->footer(
      "REFUSED requests are errors of the caller: credentials, rights, limits, a request that the engine "
      "refused.\n"
      "FAILED ones are errors of an engine or of the gateway: failures, timeouts, interruptions.\n\n"
      "Examples:\n"
      "  tidegate usage --by tenant,model --since 7d\n"
      "  tidegate usage --by tenant,job --since 7d\n"
      "  tidegate usage --by day --tenant search --since 2027-01-01 --until 2027-02-01 --format csv\n"
      "  tidegate usage --since 2027-01-01 --until 2027-02-01 --format focus");
  command->callback([options, &run] { run = [options] { return Usage(*options); }; });
}

}  // namespace gateway::cli
