// tidegate simulate: the list of what can be simulated, and an answer to the spelling of before.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/help_formatter.h"
#include "gateway/cli/output.h"
#include "gateway/cli/simulate/fill.h"
#include "gateway/cli/simulate/jobs.h"
#include "gateway/cli/simulate/old_spelling.h"
#include "gateway/cli/simulate/requests.h"
#include "gateway/cli/simulate/traffic.h"

namespace gateway::cli {
namespace {

constexpr size_t kColumn = 46;  // where descriptions begin: most options stand on one line then

int PrintList(const CLI::App& command) {
  std::string text = command.get_description() + "\n\n";
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    text += fmt::format("  {:<28}{}\n", "tidegate simulate " + below->get_name(), below->get_description());
  text += "\nEach has a --help of its own, with examples.\n";
  const absl::Status printed = Print(text);
  return printed.ok() ? kOk : Fail(printed);
}

int RefuseWords(const CLI::App& command, const std::vector<std::string>& words) {
  if (const std::string now = NewSpelling(words); !now.empty()) {
    fmt::print(stderr, "tidegate: this spelling of simulate was replaced; it is now:\n  {}\n",
               VisibleLines(now));
    return kUsage;
  }
  std::vector<std::string_view> names;
  std::vector<std::string> below_names;
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    below_names.push_back(below->get_name());
  names.assign(below_names.begin(), below_names.end());
  fmt::print(stderr, "tidegate: simulate: unknown \"{}\"{}; there are {}\n", VisibleLines(words.front()),
             conf::DidYouMean(words.front(), names), fmt::join(names, ", "));
  return kUsage;
}

}  // namespace

void AddSimulate(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Try policies and capacity in virtual time, with the code that decides in production");
  const auto wide = std::make_shared<HelpFormatter>();
  wide->column_width(kColumn);
  command->formatter(wide);
  AddSimulateJobs(*command, run);
  AddSimulateRequests(*command, run);
  AddSimulateTraffic(*command, run);
  AddSimulateFill(*command, run);
  command->require_subcommand(0, 1);
  command->allow_extras();  // after the commands below, which refuse what they do not know
  command->callback([command, &run] {
    if (!command->get_subcommands().empty()) return;
    const std::vector<std::string> words = command->remaining();
    run = [command, words] { return words.empty() ? PrintList(*command) : RefuseWords(*command, words); };
  });
}

}  // namespace gateway::cli
