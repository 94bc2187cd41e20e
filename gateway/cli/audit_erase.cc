// tidegate audit erase-content: destroys the key under which prompts and answers of a tenant are sealed. A
// running gateway does it; where none runs, the command does.
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conf/text.h"
#include "gateway/audit/content_erasure.h"
#include "gateway/batches/shared_keys.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/audit_erase.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/verify.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/loop.h"
#include "gateway/process/ledger_options.h"
#include "gateway/process/open_state.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

struct EraseOptions {
  AdminOptions admin;
  std::string tenant;
  std::string reason;
};

// The keys of files that several gateways share; of none, where this gateway has its store to itself. Their records
// wait in the store for this gateway.
absl::StatusOr<std::vector<batches::SharedKey>> EraseShared(const Config& config,
                                                            const ledger::ContentKeys& keys,
                                                            const std::string& tenant,
                                                            const std::string& reason) {
  if (!config.state) return std::vector<batches::SharedKey>();
  net::Loop loop([](const std::exception_ptr& error) { log::Exception("audit erase-content", error); });
  auto store = OpenState(loop, config);
  if (!store.ok()) return store.status();
  batches::SharedKeys shared(loop, **store, keys);
  absl::StatusOr<std::vector<batches::SharedKey>> erased = absl::UnknownError("not erased");
  if (const absl::Status started = net::Await(loop, shared.Start()); !started.ok()) {
    erased = started;
  } else {
    erased = net::Await(loop, shared.Erase(tenant, Actor(), reason));
  }
  shared.Stop();
  loop.Stop();
  loop.Run();
  return erased;
}

// Holds the ledger meanwhile, so that no gateway starts.
absl::StatusOr<ordered_json> EraseHere(const Config& config, const EraseOptions& options) {
  auto ledger = ledger::Ledger::Open(LedgerOptions(config));
  if (!ledger.ok()) return ledger.status();
  auto keys = ledger::ContentKeys::Open(ContentKeyOptions(config));
  if (!keys.ok()) return keys.status();
  const std::string tenant = TenantPath(config, options.tenant).value_or(options.tenant);
  const auto shared = EraseShared(config, **keys, tenant, options.reason);
  if (!shared.ok()) return shared.status();
  auto erased = EraseContent(**keys, **ledger, {tenant, Actor(), options.reason}, net::Now());
  const absl::Status stopped = (*ledger)->Stop();
  if (!erased.ok()) return erased.status();
  if (!stopped.ok()) return stopped;
  for (const batches::SharedKey& key : *shared) erased->erased.push_back({key.tenant, key.id});
  return ordered_json::parse(conf::ToJsonText(*erased));
}

int Erase(const EraseOptions& options) {
  const bool there = AsksGateway(options.admin);
  std::optional<Config> config;
  if (!there) config = LoadOwnConfig(options.admin, options.admin.json);
  if (!there && !config) return kUsage;
  const absl::StatusOr<ordered_json> erased =
      there || ledger::InUse(LedgerDir(*config))
          ? AskAdmin(options.admin, "POST", "/admin/v1/content:erase",
                     nlohmann::json{{"tenant", options.tenant}, {"reason", options.reason}})
          : EraseHere(*config, options);
  if (const auto code = FailOrPrintJson(erased, options.admin.json)) return *code;
  for (const ordered_json& one : (*erased)["erased"]) {
    fmt::print("{}: stored prompts and answers cannot be read any more; the key {} is destroyed\n",
               one.value("tenant", ""), one.value("key", ""));
  }
  if (!OutputWritten()) return kOk;
  fmt::print(stderr,
             "tidegate: not erased: copies of content_keys.json in backups, and what was exported or stored "
             "before this gateway sealed content\n");
  return kOk;
}

}  // namespace

void AddEraseContent(CLI::App& audit, Run& run) {
  auto options = std::make_shared<EraseOptions>();
  CLI::App* erase = audit.add_subcommand(
      "erase-content", "Destroy the key of a tenant's stored prompts and answers; the ledger stays whole");
  AddAdminOptions(*erase, options->admin);
  erase->add_option("tenant", options->tenant, "A tenant's name or path: it and the tenants below it")
      ->required();
  erase->add_option("--reason", options->reason, "For the ledger");
  erase->footer(
      "It cannot be undone. Content that is stored later gets a new key.\n\n"
      "Examples:\n  tidegate audit erase-content search --reason 'request 4711'");
  erase->callback([options, &run] { run = [options] { return Erase(*options); }; });
}

}  // namespace gateway::cli
