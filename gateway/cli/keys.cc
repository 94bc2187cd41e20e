// tidegate keys: make, list, rotate and revoke API keys in the store of a state folder. No gateway needs to
// run; a running one follows the change, and the command waits until it has. Or through a gateway's admin API.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "conf/json_parse.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/loop.h"
#include "gateway/net/url.h"
#include "gateway/people/key_limits.h"
#include "gateway/people/key_request.h"
#include "gateway/people/keys.h"
#include "gateway/people/overlay.h"
#include "gateway/people/projects.h"
#include "gateway/people/shown_key.h"
#include "gateway/process/open_state.h"
#include "gateway/store/followed.h"

namespace gateway::cli {
namespace {

namespace auth = plugins::auth;
using nlohmann::ordered_json;

struct KeysOptions {
  AdminOptions admin;
  bool json = false;
  KeyRequest request;
  std::string id;
  std::string overlap = "0";
  std::string expires;
  std::string reason;
  std::string tenant;
};
using KeysOptionsRef = std::shared_ptr<KeysOptions>;

// How long a running gateway may take to follow a change; it looks every 50 ms.
constexpr conf::Duration kFollowPatience = std::chrono::seconds(2);

// The keys of a state folder, opened for one command.
class OpenKeys {
 public:
  static absl::StatusOr<std::unique_ptr<OpenKeys>> Open(const Config& config) {
    std::unique_ptr<OpenKeys> open(new OpenKeys(FollowedPath(config)));
    auto store = OpenState(open->loop_, config);
    if (!store.ok()) return store.status();
    open->store_ = *std::move(store);
    open->keys_ = std::make_unique<Keys>(open->loop_, *open->store_);
    if (absl::Status started = open->Await(open->keys_->Start()); !started.ok()) return started;
    return open;
  }
  ~OpenKeys() {
    if (keys_) keys_->Stop();
    loop_.Stop();
    loop_.Run();
  }

  Keys& keys() { return *keys_; }
  // With the tenants made at run time.
  absl::StatusOr<std::vector<config::Tenant>> Tenants(const Config& config) {
    Projects projects(loop_, *store_);
    const absl::Status started = Await(projects.Start());
    projects.Stop();
    if (!started.ok()) return started;
    return WithProjects(config.tenants, projects.List());
  }
  template <class T>
  T Await(net::Task<T> task) {
    return net::Await(loop_, std::move(task));
  }

  // Returns when the gateway that runs on this folder has applied the change.
  void AwaitGateway(uint64_t number) {
    const store::FollowedBy by = Await(store::AwaitFollowed(loop_, followed_path_, number, kFollowPatience));
    if (by.answer != store::FollowedBy::Answer::kTimedOut) return;
    fmt::print(
        stderr,
        "tidegate: the change is stored, but the running gateway (process {}) has not applied it after {}. "
        "It applies the change as soon as it can read the store; its log has the reason\n",
        by.process, conf::InWords(kFollowPatience));
  }

 private:
  explicit OpenKeys(std::string followed_path) : followed_path_(std::move(followed_path)) {}

  const std::string followed_path_;
  net::Loop loop_{[](const std::exception_ptr& error) { log::Exception("keys", error); }};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Keys> keys_;
};

// The secret goes to standard output alone, so that a script can take it; remarks go to standard error.
void PrintNewKey(const Keys::Made& made, bool json, std::string_view note) {
  const auth::KeyRecord& record = *made.record;
  if (json) {
    fmt::print("{}\n", conf::ToJsonText(ShownNewKey{ShowKey(record, net::Now()), made.secret}));
    return;
  }
  fmt::print("{}\n", made.secret);
  if (!OutputWritten()) return;
  const std::string owner = record.tenant.empty() ? fmt::format("admin key, role {}", RoleName(record.role))
                                                  : fmt::format("tenant {}", record.tenant);
  fmt::print(stderr, "Key {} ({}, {}). {}This is the only time it is shown: keep it now.\n", record.id, owner,
             record.expires ? "expires " + conf::FormatTime(*record.expires) : "does not expire", note);
}

// A secret that nobody has seen must not stay valid.
int PrintOrRevoke(OpenKeys& open, const Keys::Made& made, bool json, std::string_view note) {
  int error = 0;
  try {
    PrintNewKey(made, json, note);
    if (OutputWritten()) return kOk;
  } catch (const std::system_error& failed) {
    error = failed.code().value();
  }
  std::clearerr(stdout);
  const auto revoked =
      open.Await(open.keys().Revoke(made.record->id, {Actor()}, "its secret could not be shown", net::Now()));
  fmt::print(stderr, "tidegate: {} {}\n", made.record->id,
             revoked.ok() ? "is revoked, because its secret could not be shown"
                          : "could not be shown, nor revoked: revoke it with tidegate keys revoke");
  if (revoked.ok()) open.AwaitGateway(revoked->number);
  return OutputFailed(error);
}

// A key that a gateway has made. Its secret cannot be asked for again, so that a key whose secret could not be
// printed is revoked there.
int PrintOrRevokeThere(const KeysOptions& options, const ordered_json& made, std::string_view note) {
  const std::string id = TextOr(made, "id");
  int error = 0;
  try {
    if (options.json) {
      fmt::print("{}\n", made.dump());
    } else {
      fmt::print("{}\n", TextOr(made, "secret"));
    }
    if (OutputWritten()) {
      const std::string expires = TextOr(made, "expires");
      if (!options.json) {
        fmt::print(stderr, "Key {} ({}, {}). {}This is the only time it is shown: keep it now.\n", id,
                   TextOr(made, "tenant").empty() ? "admin key, role " + TextOr(made, "role")
                                                  : "tenant " + TextOr(made, "tenant"),
                   expires.empty() ? "does not expire" : "expires " + expires, note);
      }
      return kOk;
    }
  } catch (const std::system_error& failed) {
    error = failed.code().value();
  }
  std::clearerr(stdout);
  const auto revoked =
      AskAdmin(options.admin, "POST", fmt::format("/admin/v1/keys/{}:revoke", net::PercentEncode(id)),
               {{"reason", "its secret could not be shown"}});
  fmt::print(stderr, "tidegate: {} {}\n", id,
             revoked.ok() ? "is revoked, because its secret could not be shown"
                          : "could not be shown, nor revoked: revoke it with tidegate keys revoke");
  return OutputFailed(error);
}

int CreateThere(const KeysOptions& options) {
  const KeyRequest& request = options.request;
  nlohmann::json body = nlohmann::json::object();
  for (const auto& [name, value] : {std::pair("tenant", &request.tenant), std::pair("role", &request.role),
                                    std::pair("name", &request.name), std::pair("expires", &request.expires),
                                    std::pair("priority", &request.priority)}) {
    if (!value->empty()) body[name] = *value;
  }
  for (const auto& [name, values] :
       {std::pair("rights", &request.rights), std::pair("models", &request.models),
        std::pair("endpoints", &request.endpoints)}) {
    if (!values->empty()) body[name] = *values;
  }
  if (!request.limits.empty()) {
    body["limits"] = conf::ParseJson(request.limits);
    if (!body["limits"].is_object())
      return Fail(absl::InvalidArgumentError("--limits: must be a JSON object"));
  }
  const absl::StatusOr<ordered_json> made = AskAdmin(options.admin, "POST", "/admin/v1/keys", body);
  return made.ok() ? PrintOrRevokeThere(options, *made, "") : Fail(made.status());
}

int Create(const KeysOptions& options) {
  if (AsksGateway(options.admin)) return CreateThere(options);
  std::optional<Config> config = LoadOwnConfig(options.admin, options.json);
  if (!config) return kUsage;
  KeyRequest request = options.request;
  request.created_by = Actor();
  std::unique_ptr<OpenKeys> open;
  const auto open_keys = [&]() -> absl::Status {
    if (open) return absl::OkStatus();
    auto opened = OpenKeys::Open(*config);
    if (opened.ok()) open = *std::move(opened);
    return opened.status();
  };
  // Only its path names a tenant that was made at run time.
  if (request.tenant.find('/') != std::string::npos && !TenantPath(*config, request.tenant)) {
    if (absl::Status opened = open_keys(); !opened.ok()) return Fail(opened);
    absl::StatusOr<std::vector<config::Tenant>> tenants = open->Tenants(*config);
    if (!tenants.ok()) return Fail(tenants.status());
    config->tenants = *std::move(tenants);
  }
  auth::KeySpec spec;
  const conf::TimePoint now = net::Now();
  std::vector<FieldProblem> problems = CheckKeyRequest(request, *config, now, spec);
  for (FieldProblem& problem : problems) {
    if (problem.field == "role") problem.field = "admin";
  }
  if (const int code = PrintOptionProblems(problems); code != kOk) return code;
  if (absl::Status opened = open_keys(); !opened.ok()) return Fail(opened);
  const absl::StatusOr<Keys::Made> made = open->Await(open->keys().Create(spec, now));
  if (!made.ok()) return Fail(made.status());
  open->AwaitGateway(made->number);
  return PrintOrRevoke(*open, *made, options.json, "");
}

std::string Listed(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out.append(out.empty() ? "" : ",").append(value);
  return out.empty() ? "all" : out;
}

std::string ListedIn(const ordered_json& key, const char* name) {
  std::vector<std::string> values;
  if (const auto found = key.find(name); found != key.end() && found->is_array()) {
    for (const ordered_json& value : *found)
      values.push_back(value.is_string() ? value.get<std::string>() : "");
  }
  return Listed(values);
}

std::vector<Table::Column> KeyColumns() {
  return {{"ID"},   {"TENANT"}, {"NAME"},      {"STATE"}, {"CREATED"},
          {"ENDS"}, {"MODELS"}, {"ENDPOINTS"}, {"LIMITS"}};
}

std::string Seconds(const std::string& time) {
  return time.size() < 19 ? time : time.substr(0, 19) + "Z";
}

int ListThere(const KeysOptions& options) {
  const auto keys = ListAdmin(options.admin, "/admin/v1/keys?tenant=" + net::PercentEncode(options.tenant));
  if (const auto code = FailOrPrintJson(keys, options.json)) return *code;
  Table table(KeyColumns());
  for (const ordered_json& key : *keys) {
    const std::string tenant = TextOr(key, "tenant");
    const bool admin = tenant.empty();
    const std::string overlap = TextOr(key, "overlap_until");
    const std::string ends = overlap.empty() ? TextOr(key, "expires") : overlap;
    const auto limits = key.find("limits");
    table.Add({TextOr(key, "id"), admin ? fmt::format("({})", TextOr(key, "role")) : tenant,
               TextOr(key, "name"), TextOr(key, "state"), Seconds(TextOr(key, "created")),
               ends.empty() ? "never" : Seconds(ends), admin ? "-" : ListedIn(key, "models"),
               admin ? "-" : ListedIn(key, "endpoints"), limits == key.end() ? "-" : limits->dump()});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int List(const KeysOptions& options) {
  if (AsksGateway(options.admin)) return ListThere(options);
  const std::optional<Config> config = LoadOwnConfig(options.admin, options.json);
  if (!config) return kUsage;
  std::string tenant;
  if (!options.tenant.empty()) tenant = TenantPath(*config, options.tenant).value_or(options.tenant);
  std::vector<auth::KeyRecordPtr> keys;
  if (std::filesystem::exists(config->server.state_dir)) {
    const auto open = OpenKeys::Open(*config);
    if (!open.ok()) return Fail(open.status());
    keys = (*open)->keys().List();
  }
  const conf::TimePoint now = net::Now();
  std::erase_if(keys, [&](const auth::KeyRecordPtr& key) {
    return !tenant.empty() && key->tenant != tenant && !key->tenant.starts_with(tenant + "/");
  });
  if (options.json) {
    std::vector<ShownKey> out;
    for (const auth::KeyRecordPtr& key : keys) out.push_back(ShowKey(*key, now));
    fmt::print("{}\n", conf::ToJsonText(out));
    return kOk;
  }
  Table table(KeyColumns());
  for (const auth::KeyRecordPtr& key : keys) {
    const bool admin = key->tenant.empty();
    table.Add({key->id, admin ? fmt::format("({})", RoleName(key->role)) : key->tenant, key->name,
               std::string(Name(StateOf(*key, now))), conf::FormatTime(key->created).substr(0, 19) + "Z",
               key->EndsAt() ? conf::FormatTime(*key->EndsAt()).substr(0, 19) + "Z" : "never",
               admin ? "-" : Listed(key->permissions.models),
               admin ? "-" : Listed(key->permissions.endpoints), LimitsInWords(key->limits)});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int Rotate(const KeysOptions& options) {
  // The older key ends with this, so that there must be somebody who sees the new one.
  if (const int flags = fcntl(STDOUT_FILENO, F_GETFL); flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
    return OutputFailed(EBADF);
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
          "--expires: \"{}\" must be a duration such as 30d or a time such as 2027-01-31T00:00:00Z",
          options.expires)));
    }
  }
  const std::string note =
      rotation.overlap > conf::Duration::zero()
          ? fmt::format("{} works until {}. ", options.id, conf::FormatTime(now + rotation.overlap))
          : fmt::format("{} no longer works. ", options.id);
  if (AsksGateway(options.admin)) {
    nlohmann::json body = {{"overlap", options.overlap}};
    if (!options.expires.empty()) body["expires"] = options.expires;
    const absl::StatusOr<ordered_json> made = AskAdmin(
        options.admin, "POST", fmt::format("/admin/v1/keys/{}:rotate", net::PercentEncode(options.id)), body);
    return made.ok() ? PrintOrRevokeThere(options, *made, note) : Fail(made.status());
  }
  const std::optional<Config> config = LoadOwnConfig(options.admin, options.json);
  if (!config) return kUsage;
  const auto open = OpenKeys::Open(*config);
  if (!open.ok()) return Fail(open.status());
  const absl::StatusOr<Keys::Made> made = (*open)->Await((*open)->keys().Rotate(options.id, rotation, now));
  if (!made.ok()) return Fail(made.status());
  (*open)->AwaitGateway(made->number);
  return PrintOrRevoke(**open, *made, options.json, note);
}

int Revoke(const KeysOptions& options) {
  if (AsksGateway(options.admin)) {
    const absl::StatusOr<ordered_json> revoked = AskAdmin(
        options.admin, "POST", fmt::format("/admin/v1/keys/{}:revoke", net::PercentEncode(options.id)),
        {{"reason", options.reason}});
    if (!revoked.ok()) return Fail(revoked.status());
    fmt::print("{}\n", options.json ? revoked->dump() : options.id + " is revoked");
    return kOk;
  }
  const std::optional<Config> config = LoadOwnConfig(options.admin, options.json);
  if (!config) return kUsage;
  const auto open = OpenKeys::Open(*config);
  if (!open.ok()) return Fail(open.status());
  const conf::TimePoint now = net::Now();
  const absl::StatusOr<Keys::Revoked> revoked =
      (*open)->Await((*open)->keys().Revoke(options.id, {Actor()}, options.reason, now));
  if (!revoked.ok()) return Fail(revoked.status());
  (*open)->AwaitGateway(revoked->number);
  if (options.json) {
    fmt::print("{}\n", conf::ToJsonText(ShowKey(*revoked->record, now)));
  } else {
    fmt::print("{} is revoked\n", options.id);
  }
  return kOk;
}

CLI::App* AddAction(CLI::App& keys, Run& run, const char* name, const char* what,
                    const KeysOptionsRef& options, int (*action)(const KeysOptions&)) {
  CLI::App* command = keys.add_subcommand(name, what);
  options->admin.config = AddConfigOption(*command);
  AddGatewayOptions(*command, options->admin);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
  return command;
}

}  // namespace

void AddKeys(CLI::App& app, Run& run) {
  CLI::App* keys = app.add_subcommand("keys", "Make, list, rotate and revoke API keys");
  keys->require_subcommand(1);
  keys->footer(
      "If a gateway runs on the same state_dir, a command waits until the gateway has applied the change.\n"
      "After tidegate login, or with --gateway, the commands ask that gateway; --config works on its own "
      "machine.");

  auto options = std::make_shared<KeysOptions>();
  CLI::App* create =
      AddAction(*keys, run, "create", "Make a key; its secret is printed once", options, Create);
  KeyRequest& request = options->request;
  create->add_option("--tenant", request.tenant, "The tenant of the key: a name or a path");
  create->add_option("--admin", request.role,
                     "Make an admin key with this role instead: viewer, operator or admin");
  create
      ->add_option("--rights", request.rights, "Rights of the admin key in addition to its role: submit_jobs")
      ->delimiter(',');
  create->add_option("--name", request.name, "A label for people");
  create->add_option("--models", request.models, "Only these models of the tenant: names or globs")
      ->delimiter(',');
  create->add_option("--endpoints", request.endpoints, "Only these endpoints: chat, embeddings, ...")
      ->delimiter(',');
  create->add_option("--expires", request.expires, "When it stops working: 30d, or 2027-01-31T00:00:00Z");
  create->add_option("--priority", request.priority,
                     "The band of the queue, such as low, normal or high; default: the tenant's");
  create->add_option("--limits", request.limits, "The key's own limits, as JSON");
  create->footer(
      "Examples:\n"
      "  tidegate keys create --tenant search --name ci --expires 30d\n"
      "  tidegate keys create --tenant search --models 'chat-*' --endpoints chat,embeddings\n"
      "  tidegate keys create --tenant search --limits '{\"requests_per_minute\":60,\"budget\":{\"usd\":5,"
      "\"period\":\"day\"}}'\n"
      "  tidegate keys create --admin operator --rights submit_jobs --name ops\n"
      "  KEY=$(tidegate keys create --tenant search)");

  options = std::make_shared<KeysOptions>();
  CLI::App* list = AddAction(*keys, run, "list", "List keys, never their secrets", options, List);
  list->add_option("--tenant", options->tenant, "Only keys of this tenant and of the tenants below it");
  list->footer("Examples:\n  tidegate keys list\n  tidegate keys list --tenant search --json");

  options = std::make_shared<KeysOptions>();
  CLI::App* rotate = AddAction(*keys, run, "rotate",
                               "Replace a key by a new one with the same rights and limits", options, Rotate);
  rotate->add_option("id", options->id, "The 10 characters after \"tg-\"")->required();
  rotate->add_option("--overlap", options->overlap, "How long the old key works beside the new one")
      ->capture_default_str();
  rotate->add_option("--expires", options->expires,
                     "Expiry of the new key; default: the lifetime of the old one");
  rotate->footer("Examples:\n  tidegate keys rotate Ab3dE6gH9k --overlap 24h");

  options = std::make_shared<KeysOptions>();
  CLI::App* revoke = AddAction(*keys, run, "revoke", "Revoke a key for good", options, Revoke);
  revoke->add_option("id", options->id, "The 10 characters after \"tg-\"")->required();
  revoke->add_option("--reason", options->reason, "For the ledger");
  revoke->footer("Examples:\n  tidegate keys revoke Ab3dE6gH9k --reason leaked");
}

}  // namespace gateway::cli
