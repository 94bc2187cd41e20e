// tidegate tenants: the tenants in force, and those made at run time and their members: made, changed, removed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/net/url.h"
#include "gateway/people/key_limits.h"

namespace gateway::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct TenantsOptions {
  AdminOptions admin;
  std::string path;
  std::vector<std::string> models;
  std::string limits;
  std::optional<uint32_t> weight;
  std::string who;
  std::string role = "member";
  bool revoke_keys = false;
};
using TenantsOptionsRef = std::shared_ptr<TenantsOptions>;

int PrintAnswer(const TenantsOptions& options, const absl::StatusOr<ordered_json>& answer,
                std::string_view done) {
  if (!answer.ok()) return Fail(answer.status());
  fmt::print("{}\n", options.admin.json ? answer->dump() : std::string(done));
  return kOk;
}

std::string BudgetInWords(ordered_json budget) {
  const auto take = [&budget](const char* name) {
    const auto found = budget.find(name);
    const ordered_json value = found == budget.end() ? ordered_json() : *found;
    budget.erase(name);
    return value;
  };
  const ordered_json hours = take("device_hours");
  const ordered_json model = take("model");
  const ordered_json device = take("device");
  std::vector<std::string> words;
  if (budget.contains("usd") || budget.contains("tokens"))
    words.push_back(LimitsInWords(ordered_json{{"budget", budget}}.dump()));
  if (!hours.is_null())
    words.push_back(
        fmt::format("{}/{}", Counted(hours.get<uint64_t>(), "device-hour"), TextOf(budget["period"])));
  std::string text = fmt::format("{}", fmt::join(words, ", "));
  if (!device.is_null()) text += " of " + TextOf(device);
  if (!model.is_null()) text += " for " + TextOf(model);
  return text;
}

// Tenants of the configuration have limits that keys do not have: several budgets, those of one model or kind of
// device, and limits of one model.
std::string TenantLimitsInWords(const ordered_json& limits) {
  ordered_json rates = ordered_json::object();
  std::vector<std::string> words;
  for (const auto& [name, value] : limits.items()) {
    if (name == "budget") {
      for (const ordered_json& one : value.is_array() ? value : ordered_json::array({value}))
        words.push_back(BudgetInWords(one));
    } else if (name == "per_model") {
      for (const auto& [model, of] : value.items())
        words.push_back(fmt::format("{} for {}", LimitsInWords(of.dump()), model));
    } else {
      rates[name] = value;
    }
  }
  if (!rates.empty()) words.insert(words.begin(), LimitsInWords(rates.dump()));
  return fmt::format("{}", fmt::join(words, ", "));
}

int List(const TenantsOptions& options) {
  const absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(options.admin, "/admin/v1/tenants");
  if (const auto code = FailOrPrintJson(all, options.admin.json)) return *code;
  Table table({{"TENANT"}, {"STATE"}, {"MADE BY"}, {"WEIGHT", true}, {"LIMITS"}, {"MODELS"}});
  for (const ordered_json& tenant : *all) {
    const bool made = tenant["at_run_time"].get<bool>();
    table.Add({TextOf(tenant["path"]), WordsOf(tenant["state"]),
               made ? TextOf(tenant["made_by"]) : "(configuration)", TextOf(tenant["weight"]),
               tenant.contains("limits") ? TenantLimitsInWords(tenant["limits"]) : "-",
               fmt::format("{}", fmt::join(tenant["models"].get<std::vector<std::string>>(), ","))});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

// What the options say of a tenant; an error names the option.
absl::StatusOr<json> BodyOf(const TenantsOptions& options) {
  json body = json::object();
  if (!options.models.empty()) body["models"] = options.models;
  if (options.weight) body["weight"] = *options.weight;
  if (options.limits.empty()) return body;
  body["limits"] = conf::ParseJson(options.limits);
  if (!body["limits"].is_object())
    return absl::InvalidArgumentError("--limits: give a JSON object such as {\"requests_per_minute\":60}");
  return body;
}

std::string TargetOf(const TenantsOptions& options, std::string_view action) {
  return fmt::format("/admin/v1/tenants/{}:{}", net::PercentEncode(options.path), action);
}

int Create(const TenantsOptions& options) {
  const size_t slash = options.path.rfind('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == options.path.size()) {
    return Fail(absl::InvalidArgumentError(
        "give the path of the new tenant: its parent's and its own name, such as acme/demo"));
  }
  absl::StatusOr<json> body = BodyOf(options);
  if (!body.ok()) return Fail(body.status());
  (*body)["parent"] = options.path.substr(0, slash);
  (*body)["name"] = options.path.substr(slash + 1);
  return PrintAnswer(options, AskAdmin(options.admin, "POST", "/admin/v1/tenants", *body),
                     options.path + " is made");
}

int Change(const TenantsOptions& options) {
  const absl::StatusOr<json> body = BodyOf(options);
  if (!body.ok()) return Fail(body.status());
  if (body->empty())
    return Fail(absl::InvalidArgumentError("say what to change: --models, --limits or --weight"));
  return PrintAnswer(options, AskAdmin(options.admin, "POST", TargetOf(options, "change"), *body),
                     options.path + " is changed");
}

int Disable(const TenantsOptions& options) {
  return PrintAnswer(options, AskAdmin(options.admin, "POST", TargetOf(options, "disable"), json::object()),
                     options.path + " is disabled");
}

int Enable(const TenantsOptions& options) {
  return PrintAnswer(options, AskAdmin(options.admin, "POST", TargetOf(options, "enable"), json::object()),
                     options.path + " is served again");
}

int Remove(const TenantsOptions& options) {
  json body = json::object();
  if (options.revoke_keys) body["keys"] = "revoke";
  return PrintAnswer(options, AskAdmin(options.admin, "POST", TargetOf(options, "remove"), body),
                     options.path + " is removed");
}

int Members(const TenantsOptions& options) {
  std::string target = "/admin/v1/members";
  if (!options.path.empty()) target += "?tenant=" + net::PercentEncode(options.path);
  const absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(options.admin, target);
  if (const auto code = FailOrPrintJson(all, options.admin.json)) return *code;
  Table table({{"TENANT"}, {"WHO"}, {"ROLE"}, {"ADDED"}, {"ADDED BY"}});
  for (const ordered_json& member : *all) {
    table.Add({TextOf(member["tenant"]), TextOf(member["who"]), TextOf(member["role"]),
               TextOf(member["added"]).substr(0, 19) + "Z", TextOf(member["added_by"])});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int AddMember(const TenantsOptions& options) {
  const json body = {{"tenant", options.path}, {"who", options.who}, {"role", options.role}};
  return PrintAnswer(options, AskAdmin(options.admin, "POST", "/admin/v1/members", body),
                     fmt::format("{} is {} of {}", options.who, options.role, options.path));
}

int RemoveMember(const TenantsOptions& options) {
  const json body = {{"tenant", options.path}, {"who", options.who}};
  return PrintAnswer(options, AskAdmin(options.admin, "POST", "/admin/v1/members:remove", body),
                     fmt::format("{} is no longer a member of {}", options.who, options.path));
}

CLI::App* AddAction(CLI::App& tenants, Run& run, const char* name, const char* what,
                    const TenantsOptionsRef& options, int (*action)(const TenantsOptions&),
                    const char* example) {
  CLI::App* command = tenants.add_subcommand(name, what);
  command->footer(fmt::format("Example:\n  tidegate tenants {} {}", name, example));
  AddAdminOptions(*command, options->admin);
  command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
  return command;
}

void AddOwn(CLI::App& command, TenantsOptions& options) {
  command.add_option("--models", options.models, "Only these models of the parent: names or globs")
      ->delimiter(',');
  command.add_option("--limits", options.limits, "Its own limits, as JSON; {} for none");
  command.add_option("--weight", options.weight, "Its share of a queue, up to the parent's weight");
}

}  // namespace

void AddTenants(CLI::App& app, Run& run) {
  CLI::App* tenants = app.add_subcommand("tenants", "List tenants; make, change and remove them at run time");
  tenants->require_subcommand(1);
  tenants->footer(
      "New tenants can be made below a tenant that has self_service: true in the configuration. Tenants of "
      "the configuration file are changed there.");

  auto options = std::make_shared<TenantsOptions>();
  AddAction(*tenants, run, "list", "List the tenants and what they may use", options, List, "--json");

  options = std::make_shared<TenantsOptions>();
  CLI::App* create = AddAction(*tenants, run, "create", "Make a tenant", options, Create, "");
  create->add_option("path", options->path, "Its parent's path and its own name")->required();
  AddOwn(*create, *options);
  create->footer(
      "Examples:\n  tidegate tenants create acme/demo --models chat-small\n"
      "  tidegate tenants create acme/demo --limits '{\"requests_per_minute\":60,\"budget\":{\"usd\":50}}'");

  options = std::make_shared<TenantsOptions>();
  CLI::App* change = AddAction(*tenants, run, "change", "Change what a tenant may use", options, Change,
                               "acme/demo --limits '{\"requests_per_minute\":120}'");
  change->add_option("path", options->path, "The path of the tenant")->required();
  AddOwn(*change, *options);

  const auto add = [&](const char* name, const char* what, int (*action)(const TenantsOptions&),
                       const char* example) {
    options = std::make_shared<TenantsOptions>();
    CLI::App* command = AddAction(*tenants, run, name, what, options, action, example);
    command->add_option("path", options->path, "The path of the tenant")->required();
    return command;
  };
  add("disable", "Refuse the requests of a tenant and of those below it", Disable, "acme/demo");
  add("enable", "Serve a disabled tenant again", Enable, "acme/demo");
  CLI::App* remove =
      add("remove", "Remove a tenant with its members and grants", Remove, "acme/demo --revoke-keys");
  remove->add_flag("--revoke-keys", options->revoke_keys, "Revoke the keys that still work");

  options = std::make_shared<TenantsOptions>();
  CLI::App* members =
      AddAction(*tenants, run, "members", "List members added at run time", options, Members, "acme");
  members->add_option("path", options->path, "Only those of this tenant and of the tenants below it");
  CLI::App* adding = add("add-member", "Give a person a role over a tenant", AddMember,
                         "acme/demo ada@example.com --role lead");
  adding->add_option("who", options->who, "The id of a person, such as person:corp:ada, or an e-mail address")
      ->required();
  adding->add_option("--role", options->role, "member or lead")->capture_default_str();
  CLI::App* removing =
      add("remove-member", "Take a person's role away", RemoveMember, "acme/demo ada@example.com");
  removing->add_option("who", options->who, "As in the list of members")->required();
}

}  // namespace gateway::cli
