// tidegate reference: the facts of the binary as JSON, for the reference pages of docs/.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/admin/handlers.h"
#include "gateway/api/error.h"
#include "gateway/api/error_meaning.h"
#include "gateway/cli/commands.h"
#include "gateway/people/permissions.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

ordered_json Errors() {
  ordered_json out = ordered_json::array();
  for (const api::CodeInfo& info : api::AllCodes()) {
    out.push_back({{"code", info.name},
                   {"status", info.status},
                   {"openai_type", info.openai_type},
                   {"anthropic_type", info.anthropic_type},
                   {"retry_helps", info.retry_helps},
                   {"meaning", api::MeaningOf(info.code)}});
  }
  return out;
}

ordered_json AdminApi() {
  return ordered_json::parse(admin::OpenApi({}, {}).body);
}

ordered_json Permissions() {
  ordered_json out = ordered_json::array();
  for (const PermissionRow& row : PermissionTable()) {
    ordered_json& shown = out.emplace_back();
    shown["permission"] = row.name;
    shown["about"] = row.about;
    for (const plugins::auth::Role role : row.roles)
      shown["roles"].push_back(role == plugins::auth::Role::kNone ? "application" : RoleName(role));
    if (row.right) shown["right"] = RightName(*row.right);
  }
  return out;
}

// The command and the commands below it, each with the text of its --help. App::help would show the command
// that was called instead.
void AddTo(ordered_json& out, const CLI::App& command, const std::string& path) {
  out.push_back({{"command", path},
                 {"help", command.get_formatter()->make_help(&command, path, CLI::AppFormatMode::Normal)}});
  for (const CLI::App* below :
       command.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    AddTo(out, *below, path + " " + below->get_name());
}

ordered_json Commands(const CLI::App& app) {
  ordered_json out = ordered_json::array();
  AddTo(out, app, app.get_name());
  return out;
}

}  // namespace

void AddReference(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("reference", "Print what the reference pages are made from, as JSON");
  command->group("");  // for tools/make_reference, not for people
  auto topic = std::make_shared<std::string>();
  command->add_option("topic", *topic, "errors, admin-api, permissions or commands")
      ->required()
      ->check(CLI::IsMember({"errors", "admin-api", "permissions", "commands"}));
  command->callback([topic, &app, &run] {
    run = [topic, &app] {
      const ordered_json out = *topic == "errors"        ? Errors()
                               : *topic == "admin-api"   ? AdminApi()
                               : *topic == "permissions" ? Permissions()
                                                         : Commands(app);
      fmt::print("{}\n", out.dump(1));
      return kOk;
    };
  });
}

}  // namespace gateway::cli
