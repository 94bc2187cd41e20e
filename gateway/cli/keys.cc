// tidegate keys: make, list, rotate and revoke API keys in the key store of a state folder. No gateway need
// run; one that does takes the change up within a moment and records it in its ledger.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/keys/key_request.h"
#include "gateway/net/clock.h"
#include "gateway/state_files.h"
#include "plugins/auth/key_store.h"

namespace gateway::cli {
namespace {

namespace auth = plugins::auth;
using nlohmann::ordered_json;

struct KeysOptions {
  std::shared_ptr<std::string> config;
  bool json = false;
  KeyRequest request;
  std::string id;
  std::string overlap = "0";
  std::string expires;
  std::string reason;
  std::string tenant;
};
using KeysOptionsRef = std::shared_ptr<KeysOptions>;

absl::StatusOr<std::unique_ptr<auth::KeyStore>> OpenStore(const Config& config) {
  std::error_code error;
  std::filesystem::create_directories(config.server.state_dir, error);
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("state_dir {}: {}", config.server.state_dir, error.message()));
  }
  return auth::KeyStore::Open(KeyStorePath(config), net::Now());
}

// The secret goes to standard output by itself, so that a script can take it; what to know about it does not.
void PrintNewKey(const auth::KeyStore& store, const auth::NewKey& key, bool json, std::string_view note) {
  const auth::KeyRecord& record = **store.Table()->Find(key.id);
  if (json) {
    ordered_json out = ShowKey(record, net::Now());
    out["secret"] = key.secret;
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("{}\n", key.secret);
  std::fflush(stdout);
  const std::string owner = record.tenant.empty() ? fmt::format("admin key, role {}", RoleName(record.role))
                                                  : fmt::format("tenant {}", record.tenant);
  fmt::print(stderr, "Key {} ({}, {}). {}This is the only time it is shown: keep it now.\n", key.id, owner,
             record.expires ? "expires " + conf::FormatTime(*record.expires) : "does not expire", note);
}

int Create(const KeysOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  KeyRequest request = options.request;
  request.created_by = Actor();
  auth::KeySpec spec;
  const conf::TimePoint now = net::Now();
  const std::vector<FieldProblem> problems = CheckKeyRequest(request, *config, now, spec);
  for (const FieldProblem& problem : problems) {
    const std::string_view option = problem.field == "role" ? "admin" : std::string_view(problem.field);
    fmt::print(stderr, "tidegate: {}{}{}{}\n", option.empty() ? "" : "--", option, option.empty() ? "" : ": ",
               problem.message);
  }
  if (!problems.empty()) return kUsage;
  const auto store = OpenStore(*config);
  if (!store.ok()) return Fail(store.status());
  const absl::StatusOr<auth::NewKey> key = (*store)->Create(spec, now);
  if (!key.ok()) return Fail(key.status());
  PrintNewKey(**store, *key, options.json, "");
  return kOk;
}

std::string Listed(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out.append(out.empty() ? "" : ",").append(value);
  return out.empty() ? "all" : out;
}

int List(const KeysOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  std::string tenant;
  if (!options.tenant.empty()) tenant = TenantPath(*config, options.tenant).value_or(options.tenant);
  std::vector<auth::KeyRecordPtr> keys;
  if (std::filesystem::exists(KeyStorePath(*config))) {
    const auto store = OpenStore(*config);
    if (!store.ok()) return Fail(store.status());
    keys = (*store)->List();
  }
  const conf::TimePoint now = net::Now();
  std::erase_if(keys, [&](const auth::KeyRecordPtr& key) {
    return !tenant.empty() && key->tenant != tenant && !key->tenant.starts_with(tenant + "/");
  });
  if (options.json) {
    ordered_json out = ordered_json::array();
    for (const auth::KeyRecordPtr& key : keys) out.push_back(ShowKey(*key, now));
    fmt::print("{}\n", out.dump());
    return kOk;
  }
  Table table({{"ID"}, {"TENANT"}, {"NAME"}, {"STATE"}, {"CREATED"}, {"ENDS"}, {"MODELS"}, {"ENDPOINTS"}});
  for (const auth::KeyRecordPtr& key : keys) {
    const bool admin = key->tenant.empty();
    table.Add({key->id, admin ? fmt::format("({})", RoleName(key->role)) : key->tenant, key->name,
               std::string(Name(StateOf(*key, now))), conf::FormatTime(key->created).substr(0, 19) + "Z",
               key->EndsAt() ? conf::FormatTime(*key->EndsAt()).substr(0, 19) + "Z" : "never",
               admin ? "-" : Listed(key->permissions.models),
               admin ? "-" : Listed(key->permissions.endpoints)});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int Rotate(const KeysOptions& options) {
  const conf::TimePoint now = net::Now();
  auth::Rotation rotation{.changer = {Actor()}};
  if (const auto overlap = conf::ParseDuration(options.overlap)) {
    rotation.overlap = *overlap;
  } else {
    return Fail(absl::InvalidArgumentError(
        fmt::format("--overlap: \"{}\" is not a duration such as 24h", options.overlap)));
  }
  if (!options.expires.empty()) {
    rotation.expires = ParseExpiry(options.expires, now);
    if (!rotation.expires) {
      return Fail(absl::InvalidArgumentError(fmt::format(
          "--expires: \"{}\" is neither a duration such as 30d nor a time such as 2027-01-31T00:00:00Z",
          options.expires)));
    }
  }
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  const auto store = OpenStore(*config);
  if (!store.ok()) return Fail(store.status());
  const absl::StatusOr<auth::NewKey> key = (*store)->Rotate(options.id, rotation, now);
  if (!key.ok()) return Fail(key.status());
  PrintNewKey(**store, *key, options.json,
              rotation.overlap > conf::Duration::zero()
                  ? fmt::format("{} works until {}. ", options.id, conf::FormatTime(now + rotation.overlap))
                  : fmt::format("{} no longer works. ", options.id));
  return kOk;
}

int Revoke(const KeysOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  const auto store = OpenStore(*config);
  if (!store.ok()) return Fail(store.status());
  const conf::TimePoint now = net::Now();
  if (absl::Status revoked = (*store)->Revoke(options.id, {Actor()}, options.reason, now); !revoked.ok()) {
    return Fail(revoked);
  }
  if (options.json) {
    fmt::print("{}\n", ShowKey(**(*store)->Table()->Find(options.id), now).dump());
  } else {
    fmt::print("{} is revoked\n", options.id);
  }
  return kOk;
}

CLI::App* AddAction(CLI::App& keys, Run& run, const char* name, const char* what,
                    const KeysOptionsRef& options, int (*action)(const KeysOptions&)) {
  CLI::App* command = keys.add_subcommand(name, what);
  options->config = AddConfigOption(*command);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
  return command;
}

}  // namespace

void AddKeys(CLI::App& app, Run& run) {
  CLI::App* keys = app.add_subcommand("keys", "Make, list, rotate and revoke API keys");
  keys->require_subcommand(1);
  keys->footer("A gateway that runs on the same state_dir takes changes up within a second.");

  auto options = std::make_shared<KeysOptions>();
  CLI::App* create =
      AddAction(*keys, run, "create", "Make a key; its secret is printed once", options, Create);
  KeyRequest& request = options->request;
  create->add_option("--tenant", request.tenant, "Whose key it is: a tenant's name or path");
  create->add_option("--admin", request.role, "An admin key instead: viewer, operator or admin");
  create->add_option("--name", request.name, "A label for people");
  create->add_option("--models", request.models, "Only these of the tenant's models: names or globs")
      ->delimiter(',');
  create->add_option("--endpoints", request.endpoints, "Only these endpoints: chat, embeddings, ...")
      ->delimiter(',');
  create->add_option("--expires", request.expires, "When it stops working: 30d, or 2027-01-31T00:00:00Z");
  create->add_option("--priority", request.priority,
                     "a band of a queue, such as low, normal or high; the tenant's when not given");
  create->add_option("--limits", request.limits, "The key's own limits, as JSON");
  create->footer(
      "Examples:\n"
      "  tidegate keys create --tenant search --name ci --expires 30d\n"
      "  tidegate keys create --tenant search --models 'chat-*' --endpoints chat,embeddings\n"
      "  tidegate keys create --tenant search --limits '{\"requests_per_minute\":60,\"budget\":{\"usd\":5,"
      "\"period\":\"day\"}}'\n"
      "  tidegate keys create --admin operator --name ops\n"
      "  KEY=$(tidegate keys create --tenant search)");

  options = std::make_shared<KeysOptions>();
  CLI::App* list = AddAction(*keys, run, "list", "List keys, never their secrets", options, List);
  list->add_option("--tenant", options->tenant, "Only this tenant's and those of the tenants below it");
  list->footer("Examples:\n  tidegate keys list\n  tidegate keys list --tenant search --json");

  options = std::make_shared<KeysOptions>();
  CLI::App* rotate = AddAction(*keys, run, "rotate", "Replace a key by a new one like it", options, Rotate);
  rotate->add_option("id", options->id, "The 10 characters after \"tg-\"")->required();
  rotate->add_option("--overlap", options->overlap, "How long the old key works beside the new one")
      ->capture_default_str();
  rotate->add_option("--expires", options->expires,
                     "Of the new key; else it lives as long as the old one was given");
  rotate->footer("Examples:\n  tidegate keys rotate Ab3dE6gH9k --overlap 24h");

  options = std::make_shared<KeysOptions>();
  CLI::App* revoke = AddAction(*keys, run, "revoke", "Make a key stop working, for good", options, Revoke);
  revoke->add_option("id", options->id, "The 10 characters after \"tg-\"")->required();
  revoke->add_option("--reason", options->reason, "For the ledger");
  revoke->footer("Examples:\n  tidegate keys revoke Ab3dE6gH9k --reason leaked");
}

}  // namespace gateway::cli
