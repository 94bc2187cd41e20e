// tidegate completion: prints a script by which a shell completes the commands, options and names of tidegate.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/completion_script.h"

namespace gateway::cli {
namespace {

// Somebody waits with a finger on the key.
constexpr conf::Duration kCompletionPatience = std::chrono::milliseconds(300);

struct Names {
  std::string_view kind;
  const char* path;
  const char* member;
};
constexpr Names kNames[] = {
    {"models", "/admin/v1/models", "name"},      {"tenants", "/admin/v1/tenants", "path"},
    {"queues", "/admin/v1/queues", "name"},      {"nodes", "/admin/v1/nodes", "name"},
    {"jobs", "/admin/v1/jobs?state=open", "id"}, {"keys", "/admin/v1/keys?state=active", "id"}};

// Only of the gateway that one is signed in to: nothing else is asked while somebody types. Without an answer in time
// there are no names, and no message would be in its place on a line that is being typed.
int PrintNames(const std::string& kind) {
  AdminOptions options;
  options.patience = kCompletionPatience;
  options.only_session = true;
  if (!AsksGateway(options)) return kOk;
  for (const Names& names : kNames) {
    if (names.kind != kind) continue;
    const char* const mark = std::string_view(names.path).find('?') == std::string_view::npos ? "?" : "&";
    const auto answer = AskAdmin(options, "GET", fmt::format("{}{}limit=1000", names.path, mark));
    if (!answer.ok() || !answer->contains("data")) return kOk;
    for (const nlohmann::ordered_json& row : (*answer)["data"]) {
      const std::string name = TextOr(row, names.member);
      // What a shell would split or obey is not offered.
      const bool plain = !name.empty() && name.find_first_not_of(
                                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789-_./:@+") == std::string::npos;
      if (plain) fmt::print("{}\n", name);
    }
  }
  return kOk;
}

}  // namespace

void AddCompletion(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer(
      "It installs nothing. Names of models, tenants, jobs, nodes, queues and keys are offered while you "
      "are\n"
      "signed in to a gateway that answers within 300 ms.\n\n"
      "Examples:\n"
      "  source <(tidegate completion bash)\n"
      "  tidegate completion bash > ~/.local/share/bash-completion/completions/tidegate\n"
      "  tidegate completion zsh > \"${fpath[1]}/_tidegate\"");
  command->callback([shell, &app, &run] {
    run = [shell, &app] {
      fmt::print("{}", *shell == "bash" ? BashCompletion(app) : ZshCompletion(app));
      return kOk;
    };
  });
  CLI::App* words =
      app.add_subcommand("completion-words", "Print the names that a gateway knows, for a completion");
  words->group("");  // for the scripts, not for people
  auto kind = std::make_shared<std::string>();
  words->add_option("kind", *kind, "models, tenants, queues, nodes, jobs or keys")->required();
  words->callback([kind, &run] { run = [kind] { return PrintNames(*kind); }; });
}

}  // namespace gateway::cli
