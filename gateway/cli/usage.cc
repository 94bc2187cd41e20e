// tidegate usage: requests, tokens, cost, device-hours and energy by tenant, model and more, from the ledger's index.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "conf/json_fields.h"
#include "conf/reader.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/audit/all_usage.h"
#include "gateway/audit/feedback_usage.h"
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
  bool by_given = false;
  std::string format = "table";
  bool format_given = false;
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

int NoLedgerYet(const std::string& dir) {
  fmt::print(stderr, "tidegate: {}: there is no ledger yet; start a gateway with this configuration first\n",
             dir);
  return kFailed;
}

// The price list of the gateway that is asked.
absl::StatusOr<PriceList> AskPrices(const AdminOptions& admin) {
  const auto models = ListAdmin(admin, "/admin/v1/models", nullptr);
  if (!models.ok()) return models.status();
  PriceList out;
  for (const ordered_json& model : *models) {
    std::vector<config::Price>& prices = out[TextOr(model, "name")];
    for (const char* const list : {"price", "batch_price"}) {
      const auto shown = model.find(list);
      if (shown == model.end() || !shown->is_object()) continue;
      const auto at = [&shown](const char* name) { return conf::ParseMicroUsd(TextOr(*shown, name)); };
      config::Price& price = prices.emplace_back();
      price.input = at("input");
      price.cached_input = at("cached_input");
      price.output = at("output");
    }
  }
  return out;
}

int PrintRows(const UsageOptions& options, const ledger::UsageQuery& query,
              const std::vector<ledger::UsageRow>& rows, const PriceList& prices) {
  const std::string format = options.json ? "json" : options.format;
  if (format == "focus") {
    fmt::print("{}", FocusCsv(rows, prices));
  } else if (format == "csv") {
    fmt::print("{}", UsageCsv(query, rows));
  } else if (format == "json") {
    fmt::print("{}\n", conf::ToJsonText(ShowUsage(query, rows)));
  } else {
    fmt::print("{}", AsTable(query, rows));
  }
  return kOk;
}

std::string FeedbackTable(const ledger::FeedbackQuery& query, const std::vector<ledger::FeedbackSum>& sums) {
  std::vector<Table::Column> columns;
  for (const ledger::FeedbackBy by : query.by) {
    std::string title(Name(by));
    for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    columns.push_back({std::move(title)});
  }
  columns.push_back({"NAME"});
  columns.push_back({"VALUE"});
  for (const char* title : {"COUNT", "RATE (%)", "95 % FROM", "TO", "MEAN", "MIN", "MAX"})
    columns.push_back({title, true});
  Table table(std::move(columns));
  const auto share = [](const std::optional<double>& part) {
    return part ? fmt::format("{:.1f}", 100 * *part) : std::string("-");
  };
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  const std::vector<ShownFeedback> shown = ShowFeedback(query, sums);
  for (size_t i = 0; i < sums.size(); ++i) {
    std::vector<std::string> cells = sums[i].group;
    for (std::string& cell : cells) {
      if (cell.empty()) cell = "-";
    }
    const ShownFeedback& row = shown[i];
    cells.push_back(row.name);
    cells.push_back(row.value.value_or(row.type));
    cells.push_back(std::to_string(row.count));
    for (const auto& part : {row.rate, row.rate_low, row.rate_high}) cells.push_back(share(part));
    for (const auto& value : {row.mean, row.min, row.max}) cells.push_back(number(value));
    table.Add(std::move(cells));
  }
  return table.Render();
}

int PrintFeedback(const UsageOptions& options, const ledger::FeedbackQuery& query,
                  const std::vector<ledger::FeedbackSum>& sums) {
  const std::string format = options.json ? "json" : options.format;
  if (format == "csv") {
    fmt::print("{}", FeedbackCsv(ShowFeedback(query, sums)));
  } else if (format == "json") {
    fmt::print("{}\n", conf::ToJsonText(ShowFeedback(query, sums)));
  } else {
    fmt::print("{}", FeedbackTable(query, sums));
  }
  return kOk;
}

// A row of the admin API.
ledger::FeedbackSum SumOf(const ordered_json& shown, const ledger::FeedbackQuery& query) {
  ledger::FeedbackSum sum;
  for (const ledger::FeedbackBy by : query.by)
    sum.group.push_back(TextOr(shown, std::string(Name(by)).c_str()));
  sum.name = TextOr(shown, "name");
  const std::string type = TextOr(shown, "type");
  for (const auto one :
       {ledger::FeedbackType::kBoolean, ledger::FeedbackType::kNumber, ledger::FeedbackType::kText}) {
    if (type == Name(one)) sum.type = one;
  }
  sum.text = TextOr(shown, "value");
  sum.count = shown.value("count", int64_t{0});
  sum.positive = shown.value("positive", int64_t{0});
  sum.sum = shown.value("mean", 0.0) * static_cast<double>(sum.count);
  sum.min = shown.value("min", 0.0);
  sum.max = shown.value("max", 0.0);
  return sum;
}

int FeedbackThere(UsageOptions options) {
  ledger::FeedbackQuery query;
  UsageRequest words = options.request;
  words.tenant.clear();
  if (const int code = PrintOptionProblems(CheckFeedbackRequest(words, Config(), net::Now(), query));
      code != kOk)
    return code;
  std::erase(options.request.by, kByFeedback);
  ordered_json list;
  const auto shown = ListAdmin(options.admin, "/admin/v1/feedback?" + QueryOf(options.request), &list);
  if (!shown.ok()) return Fail(shown.status());
  if (const auto as_of = conf::ParseTime(TextOr(list, "as_of"))) TellFreshness(*as_of);
  std::vector<ledger::FeedbackSum> sums;
  for (const ordered_json& row : *shown) sums.push_back(SumOf(row, query));
  return PrintFeedback(options, query, sums);
}

int UsageOfFeedback(const UsageOptions& options) {
  if (options.format == "focus") {
    fmt::print(stderr, "tidegate: --format: focus has no feedback; use table, csv or json\n");
    return kUsage;
  }
  if (AsksGateway(options.admin)) return FeedbackThere(options);
  const std::optional<Config> config = LoadOwnConfig(options.admin, options.json);
  if (!config) return kUsage;
  ledger::FeedbackQuery query;
  const int code = PrintOptionProblems(CheckFeedbackRequest(options.request, *config, net::Now(), query));
  if (code != kOk) return code;
  const std::string dir = LedgerDir(*config);
  if (!std::filesystem::exists(dir)) return NoLedgerYet(dir);
  const auto others = FindUsageOfOthers(*config);
  if (!others.ok()) return Fail(others.status());
  const auto feedback = QueryFeedback(dir, query, *others);
  if (!feedback.ok()) return Fail(feedback.status());
  if (*others) TellFreshness(AsOf(feedback->others, net::Now()));
  return PrintFeedback(options, query, feedback->sums);
}

// A name that nothing has may be a mistake: without a remark, its figures of 0 look true.
void TellUnknownNames(const UsageRequest& request, const Config& config) {
  const auto tell = [](std::string_view noun, const std::string& name, const auto& all) {
    std::vector<std::string_view> names;
    for (const auto& one : all) names.push_back(one.name);
    fmt::print(
        stderr,
        "tidegate: the ledger has no usage of \"{}\" in this time, and the configuration has no such {}{}\n",
        conf::Visible(name), noun, conf::DidYouMean(name, names));
  };
  if (!request.tenant.empty() && !TenantPath(config, request.tenant))
    tell("tenant", request.tenant, config.tenants);
  if (!request.model.empty() && config.FindModel(request.model) == nullptr)
    tell("model", request.model, config.models);
}

int Usage(UsageOptions options) {
  if (options.json && options.format_given && options.format != "json")
    return Fail(absl::InvalidArgumentError(
        fmt::format("--json and --format {} exclude each other; give one of them", options.format)));
  if (AsksForFeedback(options.request)) return UsageOfFeedback(options);
  ledger::UsageQuery query;
  if (options.format == "focus") {
    if (options.by_given)
      return Fail(absl::InvalidArgumentError(
          "--by: has no effect with --format focus, which has groups of its own; leave it out"));
    options.request.by.clear();
    for (const ledger::UsageBy by : FocusGroups()) options.request.by.emplace_back(Name(by));
  }
  if (AsksGateway(options.admin)) {
    if (const int code = CheckWords(options, query); code != kOk) return code;
    const auto rows = AskRows(options, query);
    if (!rows.ok()) return Fail(rows.status());
    const auto prices = options.format == "focus" ? AskPrices(options.admin) : PriceList();
    return prices.ok() ? PrintRows(options, query, *rows, *prices) : Fail(prices.status());
  }
  const std::optional<Config> config = LoadOwnConfig(options.admin, options.json);
  if (!config) return kUsage;
  const int code = PrintOptionProblems(CheckUsageRequest(options.request, *config, net::Now(), query));
  if (code != kOk) return code;
  const std::string dir = LedgerDir(*config);
  if (!std::filesystem::exists(dir)) return NoLedgerYet(dir);
  const auto others = FindUsageOfOthers(*config);
  if (!others.ok()) return Fail(others.status());
  const auto usage = QueryAllUsage(dir, query, *others);
  if (!usage.ok()) return Fail(usage.status());
  if (*others) TellFreshness(AsOf(usage->others, net::Now()));
  if (usage->rows.empty()) TellUnknownNames(options.request, *config);
  return PrintRows(options, query, usage->rows, PricesOf(*config));
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
  CLI::Option* const by =
      command
          ->add_option(
              "--by", request.by,
              "Columns to group by: tenant, key, model, replica, api, reason, hour, day, job; or feedback, "
              "alone or with tenant, key, model, version, replica, hour, day")
          ->delimiter(',')
          ->capture_default_str();
  command
      ->add_option("--since", request.since,
                   "The beginning: an age such as 7d, or a time such as 2027-01-31T00:00:00Z")
      ->capture_default_str();
  command->add_option("--until", request.until,
                      "The end, not included; in the form of --since; default: now");
  command->add_option("--tenant", request.tenant, "Only this tenant and the tenants below it");
  command->add_option("--model", request.model, "Only this model");
  CLI::Option* const format = command
                                  ->add_option("--format", options->format,
                                               "table, csv, json, or focus: a CSV in the format FOCUS "
                                               "1.2, hour by hour")
                                  ->check(CLI::IsMember({"table", "csv", "json", "focus"}))
                                  ->capture_default_str();
  command->add_flag("--json", options->json, "The same as --format json");
  command->footer(
      "REFUSED requests are errors of the caller: credentials, rights, limits, a request that the engine "
      "refused.\n"
      "FAILED ones are errors of an engine or of the gateway: failures, timeouts, interruptions.\n"
      "Feedback is what applications say about answers: of each key, request and name the latest counts. "
      "RATE is\n"
      "the share of true values, with its 95 % confidence interval.\n\n"
      "Examples:\n"
      "  tidegate usage --by tenant,model --since 7d\n"
      "  tidegate usage --by tenant,job --since 7d\n"
      "  tidegate usage --by feedback,model,version --since 30d\n"
      "  tidegate usage --by day --tenant search --since 2027-01-01 --until 2027-02-01 --format csv\n"
      "  tidegate usage --since 2027-01-01 --until 2027-02-01 --format focus");
  command->callback([options, by, format, &run] {
    options->by_given = by->count() > 0;
    options->format_given = format->count() > 0;
    run = [options] { return Usage(*options); };
  });
}

}  // namespace gateway::cli
