// tidegate statement: what a tenant used in a month, in a form that the ledger gives again byte for byte.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "conf/text.h"
#include "gateway/audit/statement.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/net/clock.h"
#include "gateway/net/url.h"
#include "gateway/process/open_state.h"

namespace gateway::cli {
namespace {

constexpr size_t kMostStatement = 64 << 20;

struct StatementOptions {
  AdminOptions admin;
  std::string tenant;
  std::string month;
  std::string format = "json";
  std::string out;
  std::string verify;
};

int Verify(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWhole(path, kMostStatement);
  if (!text.ok()) return Fail(text.status());
  const std::optional<bool> good = HasItsDigest(*text);
  if (!good)
    return Fail(absl::InvalidArgumentError(fmt::format("{} is not a statement: it has no digest", path)));
  fmt::print("{}: {}\n", path, *good ? "good: it has its digest" : "BAD: it was changed after it was made");
  return *good ? kOk : kFailed;
}

absl::StatusOr<std::string> Make(const StatementOptions& options, const StatementMonth& month) {
  if (AsksGateway(options.admin)) {
    return AskText(options.admin, fmt::format("/admin/v1/statements/{}?tenant={}&format={}", month.name,
                                              net::PercentEncode(options.tenant), options.format));
  }
  const std::optional<Config> config = LoadForState(*options.admin.config, options.admin.json);
  if (!config) return absl::InvalidArgumentError(kNoGatewayKnown);
  const std::string dir = LedgerDir(*config);
  if (!std::filesystem::exists(dir)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: there is no ledger yet; start a gateway with this configuration first", dir));
  }
  const auto others = FindUsageOfOthers(*config);
  if (!others.ok()) return others.status();
  const std::optional<std::string> known = TenantPath(*config, options.tenant);
  const absl::StatusOr<Statement> statement =
      MakeStatement(dir, known.value_or(options.tenant), month, net::Now(), *others);
  if (!statement.ok()) return statement.status();
  // A project that people made is in no configuration, and may have used nothing.
  if (!known && statement->lines.empty()) {
    std::vector<std::string_view> names;
    for (const config::Tenant& tenant : config->tenants) names.push_back(tenant.name);
    fmt::print(
        stderr,
        "tidegate: the ledger has nothing of \"{}\" in {}, and the configuration has no such tenant{}\n",
        options.tenant, month.name, conf::DidYouMean(options.tenant, names));
  }
  return options.format == "csv" ? StatementCsv(*statement) : StatementJson(*statement);
}

int MakeOrVerify(const StatementOptions& options) {
  if (!options.verify.empty()) {
    if (options.tenant.empty()) return Verify(options.verify);
    return Fail(absl::InvalidArgumentError(fmt::format(
        "--verify checks one file, {}, so \"{}\" has no effect; leave it out, or run the command once for "
        "each file",
        options.verify, options.tenant)));
  }
  const std::optional<StatementMonth> month = ParseMonth(options.month);
  if (options.tenant.empty() || options.month.empty()) {
    return Fail(absl::InvalidArgumentError(
        "a statement is of a tenant and a month, as in tidegate statement search 2027-01"));
  }
  if (!month) {
    return Fail(absl::InvalidArgumentError(
        fmt::format("month: \"{}\" is not a month such as 2027-01", options.month)));
  }
  const absl::StatusOr<std::string> text = Make(options, *month);
  if (!text.ok()) return Fail(text.status());
  const absl::Status written =
      options.out.empty() || options.out == "-" ? Print(*text) : WriteWhole(options.out, *text);
  return written.ok() ? kOk : Fail(written);
}

}  // namespace

void AddStatement(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("statement", "Print the statement of a tenant for a month");
  auto options = std::make_shared<StatementOptions>();
  options->admin.config = AddConfigOption(*command);
  AddGatewayOptions(*command, options->admin);
  command->add_option("tenant", options->tenant, "A tenant's name or path: it and everything below it");
  command->add_option("month", options->month, "The month in UTC, such as 2027-01");
  CLI::Option* const format = command->add_option("--format", options->format, "json or csv")
                                  ->check(CLI::IsMember({"json", "csv"}))
                                  ->capture_default_str();
  CLI::Option* const out =
      command->add_option("-o,--out", options->out, "The file to write; default: standard output");
  command->add_option("--verify", options->verify, "Only check that a statement in a file has its digest")
      ->excludes(format)
      ->excludes(out);
  command->footer(
      "The same ledger gives the same bytes again, once the month is over. Before that, the state is "
      "so_far, and\n"
      "up_to_record names the last record. If retention has removed records of the month, it is "
      "incomplete.\n\n"
      "Examples:\n"
      "  tidegate statement search 2027-01\n"
      "  tidegate statement search 2027-01 --format csv --out search-2027-01.csv\n"
      "  tidegate statement --verify search-2027-01.csv");
  command->callback([options, &run] { run = [options] { return MakeOrVerify(*options); }; });
}

}  // namespace gateway::cli
