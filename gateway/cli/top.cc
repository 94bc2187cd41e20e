// tidegate top: a running gateway live in the terminal, second by second.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/cli/terminal.h"
#include "gateway/cli/top_frame.h"
#include "gateway/net/clock.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

constexpr conf::Duration kEvery = std::chrono::seconds(1);
constexpr conf::Duration kPatience = std::chrono::seconds(2);  // with one call, so that keys are heard
constexpr size_t kActions = 50;
constexpr size_t kSideways = 8;  // characters

struct TopOptions {
  AdminOptions admin;
  bool once = false;
};

// Reads all rows that are shown, and remembers which records of the ledger it has seen.
class Watch {
 public:
  explicit Watch(const AdminOptions& admin) : admin_(admin) {}

  absl::StatusOr<Standing> Fetch() {
    Standing now{.where = admin_.url, .at = net::Now()};
    bool schedules = true;
    if (const auto ready = AskReadiness(admin_); ready.ok()) {
      schedules = ready->value("scaling", true);
      for (const ordered_json& condition : ready->value("degraded", ordered_json::array()))
        now.degraded.push_back(
            fmt::format("{}: {}", condition.value("part", ""), condition.value("detail", "")));
    }
    for (const auto& [target, rows] :
         {std::pair("/admin/v1/traffic", &now.traffic), std::pair("/admin/v1/scaling", &now.scaling),
          std::pair("/admin/v1/replicas", &now.replicas), std::pair("/admin/v1/endpoints", &now.endpoints),
          std::pair("/admin/v1/models", &now.models)}) {
      if (absl::Status got = List(target, *rows); !got.ok()) return got;
    }
    for (const auto& [target, rows] :
         {std::pair("/admin/v1/nodes", &now.nodes), std::pair("/admin/v1/jobs?state=open", &now.jobs)}) {
      if (!schedules) continue;
      // A gateway that has just started refuses these.
      absl::Status got = List(target, *rows);
      if (!got.ok() && !absl::IsFailedPrecondition(got) && !absl::IsUnavailable(got)) return got;
    }
    Actions(now);
    return now;
  }

 private:
  absl::Status List(const std::string& target, std::vector<ordered_json>& rows) {
    absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(admin_, target);
    if (!all.ok()) return all.status();
    rows = *std::move(all);
    return absl::OkStatus();
  }

  void Actions(Standing& now) {
    bool more = no_actions_.empty();
    while (more) {
      const absl::StatusOr<ordered_json> page =
          AskAdmin(admin_, "GET",
                   fmt::format("/admin/v1/audit?kind=action&limit=1000&since=15m{}",
                               next_ == 0 ? "" : fmt::format("&from_seq={}", next_)));
      if (!page.ok()) {
        no_actions_ = conf::Std(page.status().message());
        break;
      }
      for (const ordered_json& record : (*page)["data"]) actions_.push_back(record);
      next_ = page->value("next_from_seq", uint64_t{0});
      more = page->value("has_more", false);
      if (actions_.size() > kActions) actions_.erase(actions_.begin(), actions_.end() - kActions);
    }
    now.no_actions = no_actions_;
    now.actions.assign(actions_.rbegin(), actions_.rend());
  }

  const AdminOptions& admin_;
  std::vector<ordered_json> actions_;
  std::string no_actions_;
  uint64_t next_ = 0;
};

ordered_json ToJson(const Standing& standing) {
  return {{"at", conf::FormatTime(standing.at)},
          {"gateway", standing.where},
          {"degraded", standing.degraded},
          {"traffic", standing.traffic},
          {"scaling", standing.scaling},
          {"endpoints", standing.endpoints},
          {"models", standing.models},
          {"replicas", standing.replicas},
          {"jobs", standing.jobs},
          {"nodes", standing.nodes},
          {"actions", standing.actions}};
}

int PrintOnce(const TopOptions& options) {
  const absl::StatusOr<Standing> now = Watch(options.admin).Fetch();
  if (!now.ok()) return Fail(now.status());
  std::string text;
  if (options.admin.json) {
    text = AsText(ToJson(*now)) + "\n";
  } else {
    for (const Line& line : FrameOf(*now, Terminal::ColumnsOfOutput()))
      text += Draw(line, 0, 0, false) + "\n";
  }
  const absl::Status printed = Print(text);
  return printed.ok() ? kOk : Fail(printed);
}

// What part of the frame is on the screen.
struct View {
  size_t down = 0;
  size_t right = 0;

  void Move(Key key, size_t lines, size_t rows) {
    const size_t last = lines > rows ? lines - rows : 0;
    down = std::min(down, last);
    if (key == Key::kUp) down -= std::min<size_t>(down, 1);
    if (key == Key::kDown) down = std::min(down + 1, last);
    if (key == Key::kPageUp) down -= std::min(down, rows);
    if (key == Key::kPageDown) down = std::min(down + rows, last);
    if (key == Key::kHome) down = right = 0;
    if (key == Key::kEnd) down = last;
    if (key == Key::kLeft) right -= std::min(right, kSideways);
    if (key == Key::kRight) right += kSideways;
  }
};

std::string Screen(const std::vector<Line>& frame, const View& view, const Terminal::Size& size,
                   const std::string& trouble) {
  const size_t rows = size.rows > 1 ? size.rows - 1 : 1;
  std::string text = "\033[H";
  for (size_t row = 0; row < rows; ++row) {
    if (view.down + row < frame.size()) text += Draw(frame[view.down + row], view.right, size.columns, true);
    text += "\033[K\r\n";
  }
  const Line help = {trouble.empty()
                         ? Span{" q quit   arrows, PgUp, PgDn move   right: all columns", Style::kDim}
                         : Span{" " + trouble, Style::kBad}};
  return text + Draw(help, 0, size.columns, true) + "\033[K\033[J";
}

int Live(const TopOptions& options) {
  if (!Terminal::IsThere()) {
    return Fail(absl::InvalidArgumentError(
        "standard input and output are not a terminal: use --once for one frame as text, or --json"));
  }
  Watch watch(options.admin);
  absl::StatusOr<Standing> now = watch.Fetch();
  if (!now.ok()) return Fail(now.status());
  const Interruption interruption;
  {
    Terminal terminal;
    View view;
    Standing shown = *now;
    std::string trouble;
    conf::TimePoint next = net::Now() + kEvery;
    while (!interruption.seen()) {
      // Who looks to the right wants the columns that the width leaves out.
      const std::vector<Line> frame = FrameOf(shown, view.right == 0 ? terminal.size().columns : 0);
      terminal.Write(Screen(frame, view, terminal.size(), trouble));
      const Key key = terminal.Wait(next - net::Now());
      if (key == Key::kQuit || key == Key::kGone) return kOk;
      view.Move(key, frame.size(), std::max<size_t>(terminal.size().rows, 2) - 1);
      if (net::Now() < next || interruption.seen()) continue;
      now = watch.Fetch();
      trouble = now.ok() ? std::string() : std::string(conf::Std(now.status().message()));
      if (now.ok()) shown = *std::move(now);
      next = net::Now() + kEvery;
    }
  }
  interruption.Obey();
}

}  // namespace

void AddTop(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "top", "Show a running gateway live: models, endpoints or replicas, jobs, devices, last actions");
  auto options = std::make_shared<TopOptions>();
  AddAdminOptions(*command, options->admin);
  command->add_flag("--once", options->once, "Print one whole frame as plain text and exit");
  command->footer(
      "Rates and times are of the last minute. TTFT is the time to the first token, ITL the time between\n"
      "tokens. DEMAND is the work, measured in replicas. SENT requests are at a replica, HELD requests wait "
      "for\n"
      "one. A viewer's key suffices; the last actions need an operator's. --json also prints one frame.\n\n"
      "Examples:\n  tidegate top\n  tidegate top --once");
  command->callback([options, &run] {
    run = [options] {
      options->admin.patience = kPatience;
      if (const absl::Status found = Resolve(options->admin); !found.ok()) return Fail(found);
      return options->once || options->admin.json ? PrintOnce(*options) : Live(*options);
    };
  });
}

}  // namespace gateway::cli
