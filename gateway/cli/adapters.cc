// tidegate adapters: LoRA adapters that are loaded at run time.
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

struct AdaptersOptions {
  AdminOptions admin;
  std::string base;
  std::string name;
  std::string source;
};

std::string PathOf(const std::string& base) {
  return fmt::format("/admin/v1/models/{}/adapters", net::PercentEncode(base));
}

// "r0, r1"; what refuses has the reason with it.
std::string PlacesOf(const ordered_json& adapter, std::string_view state) {
  std::string places;
  for (const ordered_json& place : adapter["replicas"]) {
    if (place.value("state", "") != state) continue;
    places += (places.empty() ? "" : ", ") + place.value("replica", "");
    if (const std::string why = TextOr(place, "why"); !why.empty()) places += " (" + why + ")";
  }
  return places.empty() ? "-" : places;
}

absl::StatusOr<std::vector<std::string>> BasesOf(const AdaptersOptions& options) {
  if (!options.base.empty()) return std::vector<std::string>{options.base};
  const absl::StatusOr<std::vector<ordered_json>> models = ListAdmin(options.admin, "/admin/v1/models");
  if (!models.ok()) return models.status();
  std::vector<std::string> bases;
  for (const ordered_json& model : *models) {
    if (model.value("loads_adapters", false)) bases.push_back(model.value("name", ""));
  }
  return bases;
}

int ListAdapters(const AdaptersOptions& options) {
  const absl::StatusOr<std::vector<std::string>> bases = BasesOf(options);
  if (!bases.ok()) return Fail(bases.status());
  std::vector<ordered_json> all;
  for (const std::string& base : *bases) {
    const absl::StatusOr<std::vector<ordered_json>> adapters = ListAdmin(options.admin, PathOf(base));
    if (!adapters.ok()) return Fail(adapters.status());
    all.insert(all.end(), adapters->begin(), adapters->end());
  }
  if (options.admin.json) {
    fmt::print("{}\n", ordered_json(all).dump());
    return kOk;
  }
  Table table({{"ADAPTER"}, {"BASE"}, {"STATE"}, {"LOADED AT"}, {"REFUSED BY"}, {"SOURCE"}, {"BY"}});
  for (const ordered_json& adapter : all) {
    table.Add({adapter.value("name", ""), adapter.value("base", ""), adapter.value("state", ""),
               PlacesOf(adapter, "loaded"), PlacesOf(adapter, "refused"), adapter.value("source", ""),
               adapter.value("by", "")});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int PrintAdapter(const AdaptersOptions& options, const absl::StatusOr<ordered_json>& answer,
                 std::string_view done) {
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  fmt::print("{} of {} {}\n", answer->value("name", options.name), answer->value("base", options.base), done);
  return kOk;
}

int LoadAdapter(const AdaptersOptions& options) {
  const absl::StatusOr<ordered_json> answer =
      AskAdmin(options.admin, "POST", PathOf(options.base),
               json({{"name", options.name}, {"source", options.source}}));
  std::string done = "is loaded";
  if (answer.ok() && answer->value("state", "") == "loaded") {
    done = "is loaded at " + PlacesOf(*answer, "loaded");
  } else if (answer.ok()) {
    done = fmt::format("is {}: it is loaded once a replica can", answer->value("state", ""));
  }
  return PrintAdapter(options, answer, done);
}

int UnloadAdapter(const AdaptersOptions& options) {
  return PrintAdapter(
      options,
      AskAdmin(options.admin, "DELETE", PathOf(options.base) + "/" + net::PercentEncode(options.name)),
      "gets no more requests, and is unloaded");
}

}  // namespace

void AddAdapters(CLI::App& app, Run& run) {
  CLI::App* adapters = app.add_subcommand("adapters", "Load, unload and list LoRA adapters at run time");
  auto listed = std::make_shared<AdaptersOptions>();
  AddAdminOptions(*adapters, listed->admin);
  adapters->require_subcommand(0, 1);
  adapters->callback([listed, adapters, &run] {
    if (adapters->get_subcommands().empty()) run = [listed] { return ListAdapters(*listed); };
  });
  adapters->footer(
      "Examples:\n  tidegate adapters\n  tidegate adapters load chat-small sql-helper --from /adapters/sql");

  const auto add = [&](const char* name, const char* what, int (*action)(const AdaptersOptions&)) {
    auto options = std::make_shared<AdaptersOptions>();
    CLI::App* command = adapters->add_subcommand(name, what);
    AddAdminOptions(*command, options->admin);
    command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
    return std::pair(command, options);
  };
  const auto [list, of_list] = add("list", "List the adapters, and which replicas hold which", ListAdapters);
  list->add_option("base", of_list->base, "Only those of this model");
  list->footer("Examples:\n  tidegate adapters list\n  tidegate adapters list chat-small --json");
  const auto [load, of_load] =
      add("load", "Load an adapter at the engines of a model, and serve it as a model", LoadAdapter);
  load->add_option("base", of_load->base, "The model whose engines load it")->required();
  load->add_option("name", of_load->name, "Its name at the engines and for callers")->required();
  load->add_option("--from", of_load->source, "A path on the engines' machines, or a name of the hub")
      ->required();
  load->footer("Example:\n  tidegate adapters load chat-small sql-helper --from /adapters/sql");
  const auto [unload, of_unload] =
      add("unload", "Unload an adapter everywhere; its requests are refused at once", UnloadAdapter);
  unload->add_option("base", of_unload->base, "The model whose engines have loaded it")->required();
  unload->add_option("name", of_unload->name, "The adapter's name")->required();
  unload->footer("Example:\n  tidegate adapters unload chat-small sql-helper");
}

}  // namespace gateway::cli
