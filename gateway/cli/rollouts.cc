// tidegate rollouts: how far new versions of models have come, and operators' word on them.
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

struct RolloutsOptions {
  AdminOptions admin;
  std::string model;
  std::string reason;
};

std::string NumberOr(const ordered_json& object, const char* name, const char* format) {
  const auto at = object.find(name);
  return at == object.end() || !at->is_number() ? "-" : fmt::format(fmt::runtime(format), at->get<double>());
}

// "1.2 % of 340".
std::string FailuresOf(const ordered_json& of) {
  const auto tries = of.value("tries", uint64_t{0});
  if (tries == 0) return "-";
  const auto failures = static_cast<double>(of.value("failures", uint64_t{0}));
  return fmt::format("{:.1f} % of {}", 100 * failures / static_cast<double>(tries), tries);
}

// "91.0 % of 340".
std::string ShareRatedTrue(const ordered_json& of) {
  const auto rated = of.find("rated");
  if (rated == of.end() || !rated->is_number()) return "-";
  const auto count = rated->get<double>();
  return fmt::format("{:.1f} % of {:.0f}", 100 * of.value("rated_true", 0.0) / count, count);
}

int ListRollouts(const RolloutsOptions& options) {
  const absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(options.admin, "/admin/v1/rollouts");
  if (const auto code = FailOrPrintJson(all, options.admin.json)) return *code;
  Table table({{"MODEL"},
               {"VERSION"},
               {"STATE"},
               {"SHARE", true},
               {"READY", true},
               {"FAILED"},
               {"TTFT", true},
               {"TOKENS/S", true},
               {"REASON"}});
  for (const ordered_json& rollout : *all) {
    const ordered_json& fresh = rollout["new"];
    const std::string waits = TextOr(rollout, "waits_for");
    table.Add({rollout.value("model", ""), rollout.value("version", ""), rollout.value("state", ""),
               NumberOr(rollout, "percent", "{:g} %"), fresh["ready"].dump(), FailuresOf(fresh),
               NumberOr(fresh, "ttft_ms", "{:.0f} ms"), NumberOr(fresh, "tokens_per_second", "{:.1f}"),
               waits.empty() ? rollout.value("reason", "") : waits});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

// Both versions beside each other.
int ShowRollout(const RolloutsOptions& options) {
  const absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(options.admin, "/admin/v1/rollouts");
  if (!all.ok()) return Fail(all.status());
  for (const ordered_json& rollout : *all) {
    if (rollout.value("model", "") != options.model) continue;
    if (options.admin.json) {
      fmt::print("{}\n", rollout.dump());
      return kOk;
    }
    fmt::print("{} to version {}: {} since {}, step {} of {}, {} of the requests\n{}\n",
               rollout.value("model", ""), rollout.value("version", ""), rollout.value("state", ""),
               rollout.value("since", ""), rollout.value("step", 0U) + 1, rollout["steps"].size(),
               NumberOr(rollout, "percent", "{:g} %"), rollout.value("reason", ""));
    if (const std::string waits = TextOr(rollout, "waits_for"); !waits.empty())
      fmt::print("next: {}\n", waits);
    Table table(
        {{"VERSION"}, {"READY", true}, {"FAILED"}, {"TTFT", true}, {"TOKENS/S", true}, {"FEEDBACK", true}});
    const auto add = [&](const std::string& name, const ordered_json& of) {
      table.Add({name, of["ready"].dump(), FailuresOf(of), NumberOr(of, "ttft_ms", "{:.0f} ms"),
                 NumberOr(of, "tokens_per_second", "{:.1f}"), ShareRatedTrue(of)});
    };
    const std::string from = TextOr(rollout, "from");
    add(from.empty() ? "(old)" : from, rollout["old"]);
    add(rollout.value("version", ""), rollout["new"]);
    fmt::print("{}", table.Render());
    return kOk;
  }
  return Fail(absl::NotFoundError(
      fmt::format("{} has no rollout; give its policy a section rollout", options.model)));
}

int Order(const RolloutsOptions& options, std::string_view verb, std::string_view done) {
  json body = json::object();
  if (!options.reason.empty()) body["reason"] = options.reason;
  const absl::StatusOr<ordered_json> answer =
      AskAdmin(options.admin, "POST",
               fmt::format("/admin/v1/rollouts/{}:{}", net::PercentEncode(options.model), verb), body);
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  fmt::print("version {} of {} {}\n", answer->value("version", ""), answer->value("model", options.model),
             done);
  return kOk;
}

int Promote(const RolloutsOptions& options) {
  return Order(options, "promote", "takes all requests; the replicas of the old one end");
}
int Abort(const RolloutsOptions& options) {
  return Order(options, "abort", "gets no more requests; its replicas end");
}
int Restart(const RolloutsOptions& options) {
  return Order(options, "restart", "begins again at the first step");
}

}  // namespace

void AddRollouts(CLI::App& app, Run& run) {
  CLI::App* rollouts =
      app.add_subcommand("rollouts", "List rollouts of new versions of models; promote and abort them");
  auto listed = std::make_shared<RolloutsOptions>();
  AddAdminOptions(*rollouts, listed->admin);
  rollouts->require_subcommand(0, 1);
  rollouts->callback([listed, rollouts, &run] {
    if (rollouts->get_subcommands().empty()) run = [listed] { return ListRollouts(*listed); };
  });
  rollouts->footer("Examples:\n  tidegate rollouts\n  tidegate rollouts show chat-small");

  const auto add = [&](const char* name, const char* what, int (*action)(const RolloutsOptions&)) {
    auto options = std::make_shared<RolloutsOptions>();
    CLI::App* command = rollouts->add_subcommand(name, what);
    AddAdminOptions(*command, options->admin);
    command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
    return std::pair(command, options);
  };
  add("list", "List the rollouts, their shares and what the new versions do", ListRollouts)
      .first->footer("Examples:\n  tidegate rollouts list\n  tidegate rollouts list --json");
  const auto of_model = [&](const char* name, const char* what, int (*action)(const RolloutsOptions&)) {
    const auto made = add(name, what, action);
    made.first->add_option("model", made.second->model, "The model's name")->required();
    made.first->footer(fmt::format("Example:\n  tidegate rollouts {} chat-small", name));
    return made;
  };
  of_model("show", "Show one rollout: both versions beside each other", ShowRollout);
  of_model("promote", "Give the new version all requests now", Promote);
  const auto [abort, of_abort] = of_model("abort", "Give the old version all requests again", Abort);
  abort->add_option("--reason", of_abort->reason, "For people and the ledger");
  abort->footer("Example:\n  tidegate rollouts abort chat-small --reason \"answers are cut\"");
  of_model("restart", "Begin a rollout again that was rolled back or aborted", Restart);
}

}  // namespace gateway::cli
