// tidegate grants, tidegate requests: what tenants have for a time, and what people ask for.
#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct GrantsOptions {
  AdminOptions admin;
  std::string id;
  std::string tenant;
  std::string state;
  std::vector<std::string> models;
  std::string limits;
  std::optional<uint32_t> weight;
  std::string from;
  std::string until;
  std::string devices;
  std::string renews;
  std::string text;  // a reason, an answer or a comment
};
using GrantsOptionsRef = std::shared_ptr<GrantsOptions>;

std::string Second(const ordered_json& time) {
  return TextOf(time).substr(0, 19) + "Z";
}

absl::StatusOr<json> BodyOf(const GrantsOptions& options) {
  json body = json::object();
  if (!options.tenant.empty()) body["tenant"] = options.tenant;
  if (!options.models.empty()) body["models"] = options.models;
  if (options.weight) body["weight"] = *options.weight;
  if (!options.from.empty()) body["from"] = options.from;
  if (!options.until.empty()) body["until"] = options.until;
  if (!options.renews.empty()) body["renews"] = options.renews;
  if (!options.devices.empty()) {
    const size_t colon = options.devices.rfind(':');
    uint32_t count = 0;
    if (colon == std::string::npos || !absl::SimpleAtoi(options.devices.substr(colon + 1), &count))
      return absl::InvalidArgumentError("--devices: give a kind and a number, such as h100:8");
    body["devices"] = {{"kind", options.devices.substr(0, colon)}, {"count", count}};
  }
  if (options.limits.empty()) return body;
  body["limits"] = conf::ParseJson(options.limits);
  if (!body["limits"].is_object())
    return absl::InvalidArgumentError("--limits: give a JSON object such as {\"requests_per_minute\":600}");
  return body;
}

int List(const GrantsOptions& options, std::string target, bool requests) {
  target += "?state=" + net::PercentEncode(options.state);
  if (!options.tenant.empty()) target += "&tenant=" + net::PercentEncode(options.tenant);
  const absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(options.admin, target);
  if (const auto code = FailOrPrintJson(all, options.admin.json)) return *code;
  Table table(
      {{"ID"}, {"TENANT"}, {"STATE"}, {"WHAT"}, {"UNTIL"}, {requests ? "ASKED BY" : "GIVEN BY"}, {"REASON"}});
  for (const ordered_json& one : *all) {
    table.Add({TextOf(one["id"]), TextOf(one["tenant"]), WordsOf(one["state"]), TextOf(one["in_words"]),
               Second(one["until"]), TextOf(one[requests ? "asked_by" : "approved_by"]),
               TextOf(one["reason"])});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int Send(const GrantsOptions& options, const std::string& target, const json& body) {
  const absl::StatusOr<ordered_json> answer = AskAdmin(options.admin, "POST", target, body);
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  fmt::print("{} {}\n", TextOf((*answer)["id"]), WordsOf((*answer)["state"]));
  return kOk;
}

int ListGrants(const GrantsOptions& options) {
  return List(options, "/admin/v1/grants", false);
}

int ListRequests(const GrantsOptions& options) {
  return List(options, "/admin/v1/requests", true);
}

int New(const GrantsOptions& options, const std::string& target) {
  absl::StatusOr<json> body = BodyOf(options);
  if (!body.ok()) return Fail(body.status());
  if (!options.text.empty()) (*body)["reason"] = options.text;
  return Send(options, target, *body);
}

int Give(const GrantsOptions& options) {
  return New(options, "/admin/v1/grants");
}

int Ask(const GrantsOptions& options) {
  return New(options, "/admin/v1/requests");
}

int End(const GrantsOptions& options) {
  return Send(options, fmt::format("/admin/v1/grants/{}:end", net::PercentEncode(options.id)),
              json::object());
}

int Change(const GrantsOptions& options) {
  return New(options, fmt::format("/admin/v1/grants/{}:change", net::PercentEncode(options.id)));
}

int Comment(const GrantsOptions& options) {
  return Send(options, fmt::format("/admin/v1/requests/{}/comments", net::PercentEncode(options.id)),
              {{"text", options.text}});
}

int ShowRequest(const GrantsOptions& options) {
  const absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(options.admin, "/admin/v1/requests");
  if (!all.ok()) return Fail(all.status());
  const auto found =
      std::ranges::find_if(*all, [&](const ordered_json& one) { return one.value("id", "") == options.id; });
  if (found == all->end())
    return Fail(
        absl::NotFoundError(fmt::format("no request that you may see has the id \"{}\"", options.id)));
  const ordered_json& one = *found;
  if (options.admin.json) {
    fmt::print("{}\n", one.dump());
    return kOk;
  }
  fmt::print("{} {}\n", TextOf(one["id"]), WordsOf(one["state"]));
  const auto line = [](std::string_view name, std::string_view value) {
    if (!value.empty() && value != "-") fmt::print("{:<10}{}\n", name, VisibleLines(value));
  };
  line("tenant", TextOf(one["tenant"]));
  line("what", TextOf(one["in_words"]));
  line("renews", TextOf(one["renews"]));
  line("until", Second(one["until"]));
  line("reason", TextOf(one["reason"]));
  line("asked by", TextOf(one["asked_by"]) + ", " + Second(one["asked"]));
  line("decided by", TextOf(one["decided_by"]));
  line("answer", TextOf(one["answer"]));
  for (const ordered_json& comment : one["comments"]) {
    fmt::print("\n{} {}:\n{}\n", Second(comment["at"]), VisibleLines(TextOf(comment["by"])),
               VisibleLines(TextOf(comment["text"])));
  }
  return kOk;
}

int Approve(const GrantsOptions& options) {
  absl::StatusOr<json> body = BodyOf(options);
  if (!body.ok()) return Fail(body.status());
  if (!options.text.empty()) (*body)["answer"] = options.text;
  return Send(options, fmt::format("/admin/v1/requests/{}:approve", net::PercentEncode(options.id)), *body);
}

int Decline(const GrantsOptions& options) {
  return Send(options, fmt::format("/admin/v1/requests/{}:decline", net::PercentEncode(options.id)),
              {{"answer", options.text}});
}

int Withdraw(const GrantsOptions& options) {
  return Send(options, fmt::format("/admin/v1/requests/{}:withdraw", net::PercentEncode(options.id)),
              json::object());
}

CLI::App* AddAction(CLI::App& app, Run& run, const char* name, const char* what,
                    const GrantsOptionsRef& options, int (*action)(const GrantsOptions&),
                    const char* example) {
  CLI::App* command = app.add_subcommand(name, what);
  command->footer(fmt::format("Example:\n  tidegate {} {} {}", app.get_name(), name, example));
  AddAdminOptions(*command, options->admin);
  command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
  return command;
}

void AddFilters(CLI::App& command, GrantsOptions& options, const char* states) {
  command.add_option("--tenant", options.tenant, "Only those of this tenant and of the tenants below it");
  command.add_option("--state", options.state, states);
}

void AddAllowance(CLI::App& command, GrantsOptions& options) {
  command.add_option("--models", options.models, "Models by name")->delimiter(',');
  command.add_option("--limits", options.limits, "The new amounts of limits, as JSON");
  command.add_option("--weight", options.weight, "The new share of a queue");
  command.add_option("--devices", options.devices, "Devices kept for jobs, as KIND:COUNT");
}

void AddNew(CLI::App& command, GrantsOptions& options) {
  command.add_option("--tenant", options.tenant, "The tenant: a name or a path")->required();
  AddAllowance(command, options);
  command.add_option("--from", options.from, "The beginning: 2h, or 2027-01-31T00:00:00Z; default: at once");
  command.add_option("--until", options.until, "The end: 30d, or 2027-01-31T00:00:00Z")->required();
}

}  // namespace

void AddGrants(CLI::App& app, Run& run) {
  CLI::App* grants =
      app.add_subcommand("grants", "Give tenants more for a limited time; list, change and end grants");
  grants->require_subcommand(1);
  auto options = std::make_shared<GrantsOptions>();
  CLI::App* list =
      AddAction(*grants, run, "list", "List grants", options, ListGrants, "--tenant acme --state in_force");
  AddFilters(*list, *options, "planned, in_force or ended");

  options = std::make_shared<GrantsOptions>();
  CLI::App* give = AddAction(*grants, run, "give", "Give models, limits, a share of a queue or devices",
                             options, Give, "");
  AddNew(*give, *options);
  give->add_option("--reason", options->text, "For people and the ledger");
  give->footer(
      "Examples:\n  tidegate grants give --tenant acme/demo --models chat-large --until 7d\n"
      "  tidegate grants give --tenant acme/demo --limits '{\"budget\":{\"usd\":500}}' --until 2027-01-31\n"
      "  tidegate grants give --tenant acme/demo --devices h100:8 --from 2h --until 3d");

  options = std::make_shared<GrantsOptions>();
  CLI::App* renew =
      AddAction(*grants, run, "renew", "Let a grant last longer", options, Change, "gr_4f2a --until 30d");
  renew->add_option("id", options->id, "The id of the grant")->required();
  renew->add_option("--until", options->until, "The new end: 30d from now, or 2027-01-31T00:00:00Z")
      ->required();
  renew->add_option("--reason", options->text, "For people and the ledger");

  options = std::make_shared<GrantsOptions>();
  CLI::App* change = AddAction(*grants, run, "change", "Change what a grant gives, or its end", options,
                               Change, "gr_4f2a --weight 4");
  change->add_option("id", options->id, "The id of the grant")->required();
  AddAllowance(*change, *options);
  change->add_option("--until", options->until, "The new end: 30d from now, or 2027-01-31T00:00:00Z");
  change->add_option("--reason", options->text, "For people and the ledger");

  options = std::make_shared<GrantsOptions>();
  CLI::App* end = AddAction(*grants, run, "end", "End a grant before its date", options, End, "gr_4f2a");
  end->add_option("id", options->id, "The id of the grant")->required();
}

void AddRequests(CLI::App& app, Run& run) {
  CLI::App* requests =
      app.add_subcommand("requests", "Ask for more for a limited time, and decide such requests");
  requests->require_subcommand(1);
  auto options = std::make_shared<GrantsOptions>();
  CLI::App* list =
      AddAction(*requests, run, "list", "List requests", options, ListRequests, "--state pending");
  AddFilters(*list, *options, "pending, approved, declined, withdrawn or expired");

  options = std::make_shared<GrantsOptions>();
  CLI::App* show =
      AddAction(*requests, run, "show", "Show a request with its comments", options, ShowRequest, "rq_71c9");
  show->add_option("id", options->id, "The id of the request")->required();

  options = std::make_shared<GrantsOptions>();
  CLI::App* comment = AddAction(*requests, run, "comment", "Comment on a request", options, Comment,
                                "rq_71c9 --text 'would two be enough?'");
  comment->add_option("id", options->id, "The id of the request")->required();
  comment->add_option("--text", options->text, "What to say")->required();

  options = std::make_shared<GrantsOptions>();
  CLI::App* ask = AddAction(*requests, run, "ask", "Ask for models, limits, a share of a queue or devices",
                            options, Ask, "");
  AddNew(*ask, *options);
  ask->add_option("--renews", options->renews, "The id of a grant: ask for the same until the new end");
  ask->add_option("--reason", options->text, "What it is for")->required();
  ask->footer(
      "Examples:\n  tidegate requests ask --tenant search --models chat-large --until 7d --reason 'a demo'\n"
      "  tidegate requests ask --tenant search --devices h100:8 --from 2h --until 3d --reason 'a training "
      "run'\n"
      "  tidegate requests ask --tenant search --renews gr_4f2a --until 30d --reason 'it takes longer'");

  options = std::make_shared<GrantsOptions>();
  CLI::App* approve = AddAction(*requests, run, "approve", "Approve a request, in full or in part", options,
                                Approve, "rq_71c9 --until 7d --answer 'until the demo'");
  approve->add_option("id", options->id, "The id of the request")->required();
  AddAllowance(*approve, *options);
  approve->add_option("--until", options->until, "An earlier end than requested");
  approve->add_option("--answer", options->text, "A message to the requester");

  options = std::make_shared<GrantsOptions>();
  CLI::App* decline = AddAction(*requests, run, "decline", "Decline a request", options, Decline,
                                "rq_71c9 --answer 'the quarter is full'");
  decline->add_option("id", options->id, "The id of the request")->required();
  decline->add_option("--answer", options->text, "The reason, as the requester sees it")->required();

  options = std::make_shared<GrantsOptions>();
  CLI::App* withdraw =
      AddAction(*requests, run, "withdraw", "Withdraw a request of your own", options, Withdraw, "rq_71c9");
  withdraw->add_option("id", options->id, "The id of the request")->required();
}

}  // namespace gateway::cli
