// tidegate models: the models of a running gateway, and the orders that operators give for them.
#include <fmt/format.h>

#include <memory>

#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct ModelsOptions {
  AdminOptions admin;
  std::string model;
  std::string reason;
  std::string time;  // of a hold
};
using ModelsOptionsRef = std::shared_ptr<ModelsOptions>;

// "paused by ada: its weights are replaced; held at 3 replicas by ada".
std::string OrdersOf(const ordered_json& model) {
  std::string text;
  for (const char* const kind : {"paused", "held"}) {
    const ordered_json& order = model.value(kind, ordered_json());
    if (!order.is_object()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : "; ", kind);
    if (order["replicas"].is_number()) text += " at " + Counted(order["replicas"].get<uint64_t>(), "replica");
    text += " by " + order.value("by", "");
    if (order["until"].is_string()) text += " until " + order["until"].get<std::string>();
    if (const std::string reason = order.value("reason", ""); !reason.empty()) text += ": " + reason;
  }
  return text.empty() ? "-" : text;
}

int List(const ModelsOptions& options) {
  const absl::StatusOr<std::vector<ordered_json>> models = ListAdmin(options.admin, "/admin/v1/models");
  if (!models.ok()) return Fail(models.status());
  const absl::StatusOr<std::vector<ordered_json>> scaling = ListAdmin(options.admin, "/admin/v1/scaling");
  if (!scaling.ok()) return Fail(scaling.status());
  if (const auto code = FailOrPrintJson(models, options.admin.json)) return *code;
  Table table({{"MODEL"}, {"READY", true}, {"WANTED", true}, {"ENDPOINTS", true}, {"ORDERS"}});
  for (const ordered_json& model : *models) {
    std::string ready = "-";
    std::string wanted = "-";
    for (const ordered_json& of : *scaling) {
      if (of["model"] != model["name"]) continue;
      ready = of["ready"].dump();
      wanted = of["wanted"].dump();
    }
    table.Add(
        {model.value("name", ""), ready, wanted, std::to_string(model["endpoints"].size()), OrdersOf(model)});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int Give(const ModelsOptions& options, std::string_view verb, std::string_view done) {
  json body = json::object();
  if (!options.reason.empty()) body["reason"] = options.reason;
  if (!options.time.empty()) body["for"] = options.time;
  const absl::StatusOr<ordered_json> answer =
      AskAdmin(options.admin, "POST",
               fmt::format("/admin/v1/models/{}:{}", net::PercentEncode(options.model), verb), body);
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  fmt::print("{} {}\n", answer->value("model", options.model), done);
  return kOk;
}

int Pause(const ModelsOptions& options) {
  return Give(options, "pause", "takes no new requests; running ones finish");
}
int Resume(const ModelsOptions& options) {
  return Give(options, "resume", "takes requests again");
}
int Hold(const ModelsOptions& options) {
  return Give(options, "hold", "keeps its number of replicas");
}
int Release(const ModelsOptions& options) {
  return Give(options, "release", "is scaled by its policy again");
}

}  // namespace

void AddModels(CLI::App& app, Run& run) {
  CLI::App* models =
      app.add_subcommand("models", "List the models of a running gateway; pause and hold them");
  auto listed = std::make_shared<ModelsOptions>();
  AddAdminOptions(*models, listed->admin);
  models->require_subcommand(0, 1);
  models->callback([listed, models, &run] {
    if (models->get_subcommands().empty()) run = [listed] { return List(*listed); };
  });
  models->footer("Examples:\n  tidegate models\n  tidegate models pause chat-small --reason \"new weights\"");

  const auto add = [&](const char* name, const char* what, int (*action)(const ModelsOptions&)) {
    auto options = std::make_shared<ModelsOptions>();
    CLI::App* command = models->add_subcommand(name, what);
    AddAdminOptions(*command, options->admin);
    command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
    return std::pair(command, options);
  };
  add("list", "List the models, their replicas and the orders for them", List)
      .first->footer("Examples:\n  tidegate models list\n  tidegate models list --json");
  const auto order = [&](const char* name, const char* what, int (*action)(const ModelsOptions&)) {
    const auto made = add(name, what, action);
    made.first->add_option("model", made.second->model, "The model's name")->required();
    made.first->add_option("--reason", made.second->reason, "For people and the ledger");
    made.first->footer(
        fmt::format("Example:\n  tidegate models {} chat-small --reason \"new weights\"", name));
    return made;
  };
  order("pause", "Refuse new requests for a model; running ones finish", Pause);
  order("resume", "Accept requests for a paused model again", Resume);
  const auto [hold, of_hold] =
      order("hold", "Keep the number of a model's replicas, whatever its load", Hold);
  hold->add_option("--for", of_hold->time, "How long, such as 30m; default: until it is released");
  hold->footer("Examples:\n  tidegate models hold chat-small\n  tidegate models hold chat-small --for 30m");
  order("release", "Let the autoscaler change the number of replicas again", Release);
}

}  // namespace gateway::cli
