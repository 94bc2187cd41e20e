#include "gateway/cli/top_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <utility>

#include "conf/json_parse.h"
#include "conf/shown.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<ordered_json>;

constexpr size_t kLoadWidth = 8;
constexpr uint32_t kLetters = 26;
constexpr size_t kShownMembers = 3;  // of a replica

bool Continues(char c) {
  return (static_cast<uint8_t>(c) & 0xC0) == 0x80;
}
size_t Characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return !Continues(c); }));
}

// A space in the place of each character that a terminal would obey or that turns text around.
std::string Harmless(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t bytes = 1;
    while (bytes < text.size() && Continues(text[bytes])) ++bytes;
    const std::string_view character = text.substr(0, bytes);
    if (conf::Visible(character) == character) {
      out += character;
    } else {
      out += ' ';
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string Text(const ordered_json& row, const char* name) {
  const auto at = row.find(name);
  if (at == row.end() || at->is_null()) return "-";
  return at->is_string() ? Harmless(at->get<std::string>()) : Harmless(at->dump());
}
double Number(const ordered_json& row, const char* name) {
  const auto at = row.find(name);
  return at != row.end() && at->is_number() ? at->get<double>() : 0;
}

const ordered_json* Find(const Rows& rows, const char* key, const std::string& value) {
  const auto at =
      std::ranges::find_if(rows, [&](const ordered_json& row) { return row.value(key, "") == value; });
  return at == rows.end() ? nullptr : &*at;
}

// The text in lines of at most `width` characters, broken between words. A longer word is broken itself.
std::vector<std::string> WordLines(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    while (!word.empty()) {
      const size_t room = width - std::min(width, line.empty() ? 0 : Characters(line) + 1);
      if (Characters(word) <= room) {
        line.append(line.empty() ? "" : " ").append(word);
        break;
      }
      if (!line.empty()) {
        lines.push_back(std::exchange(line, {}));
        continue;
      }
      size_t bytes = 0;
      for (size_t taken = 0; bytes < word.size() && (taken < width || Continues(word[bytes])); ++bytes)
        taken += Continues(word[bytes]) ? 0 : 1;
      lines.emplace_back(word.substr(0, bytes));
      word.remove_prefix(bytes);
    }
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

// A sentence on its own.
void AddText(std::vector<Line>& out, const Span& span, size_t width) {
  if (width == 0) {
    out.push_back({span});
    return;
  }
  for (std::string& line : WordLines(span.text, width)) out.push_back({{std::move(line), span.style}});
}

// Columns as wide as their widest cell, two spaces between. Where the terminal is narrower, those with the
// highest rank are left out, and a last column of reasons continues below its row.
class Columns {
 public:
  struct Title {
    std::string text;
    bool number = false;
    int rank = 0;          // 0: never left out
    bool reasons = false;  // of the last column
  };
  Columns(std::vector<Title> titles, size_t width) : titles_(std::move(titles)), width_(width) {}

  void Add(std::vector<Span> row) { rows_.push_back(std::move(row)); }

  void AppendTo(std::vector<Line>& out) const {
    std::vector<size_t> widths;
    widths.reserve(titles_.size());
    for (size_t c = 0; c < titles_.size(); ++c) {
      size_t width = Characters(titles_[c].text);
      for (const auto& row : rows_) width = std::max(width, Characters(row[c].text));
      widths.push_back(width);
    }
    std::vector<bool> shown(titles_.size(), true);
    const bool reasons = titles_.back().reasons;
    const bool narrow = width_ > 0 && Sum(widths, shown) > width_;
    const bool below = narrow && reasons;
    if (below) shown.back() = false;
    while (narrow && Sum(widths, shown) > width_ && LeaveOut(shown)) {
    }
    std::vector<Span> titles;
    titles.reserve(titles_.size());
    for (const Title& title : titles_) titles.push_back({title.text, Style::kTitle});
    out.push_back(Padded(titles, widths, shown));
    for (const auto& row : rows_) {
      out.push_back(Padded(row, widths, shown));
      if (below && row.back().text != "-") AddReason(row.back(), out);
    }
  }

 private:
  static constexpr size_t kIndent = 4;

  static size_t Sum(const std::vector<size_t>& widths, const std::vector<bool>& shown) {
    size_t sum = 0;
    for (size_t c = 0; c < widths.size(); ++c) sum += shown[c] ? widths[c] + (sum > 0 ? 2 : 0) : 0;
    return sum;
  }

  // False: all that is left stays.
  bool LeaveOut(std::vector<bool>& shown) const {
    size_t out = titles_.size();
    for (size_t c = 0; c < titles_.size(); ++c) {
      if (!shown[c] || titles_[c].rank == 0) continue;
      if (out == titles_.size() || titles_[c].rank > titles_[out].rank) out = c;
    }
    if (out == titles_.size()) return false;
    shown[out] = false;
    return true;
  }

  void AddReason(const Span& reason, std::vector<Line>& out) const {
    for (std::string& line : WordLines(reason.text, width_ > 2 * kIndent ? width_ - kIndent : width_))
      out.push_back({{.text = std::string(kIndent, ' ')}, {std::move(line), reason.style}});
  }

  Line Padded(const std::vector<Span>& cells, const std::vector<size_t>& widths,
              const std::vector<bool>& shown) const {
    Line line;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (!shown[c]) continue;
      const std::string padding(widths[c] - Characters(cells[c].text), ' ');
      const bool last =
          std::find(shown.begin() + static_cast<ptrdiff_t>(c) + 1, shown.end(), true) == shown.end();
      line.push_back({.text = titles_[c].number ? padding : ""});
      line.push_back(cells[c]);
      line.push_back(
          {.text = fmt::format("{}{}", titles_[c].number || last ? "" : padding, last ? "" : "  ")});
    }
    return line;
  }

  std::vector<Title> titles_;
  size_t width_;
  std::vector<std::vector<Span>> rows_;
};

// Gives each model a capital letter and each job a small one, for the tables and for the devices that they
// hold.
class Holders {
 public:
  explicit Holders(const Standing& standing) {
    for (const ordered_json& row : standing.traffic) models_.try_emplace(row.value("model", ""), Next('A'));
    for (const ordered_json& row : standing.replicas) {
      const auto model = models_.find(row.value("model", ""));
      if (model != models_.end()) by_id_.insert_or_assign(row.value("id", ""), model->second);
    }
    count_ = 0;
    for (const ordered_json& row : standing.jobs) by_id_.insert_or_assign(row.value("id", ""), Next('a'));
  }

  Span OfModel(const std::string& model) const { return Of(models_, model); }
  Span Of(const std::string& id) const { return Of(by_id_, id); }

 private:
  Span Next(char first) {
    const uint32_t number = count_++;
    return {std::string(1, static_cast<char>(first + static_cast<int>(number % kLetters))), Style::kHolder,
            all_++};
  }
  static Span Of(const std::map<std::string, Span>& from, const std::string& name) {
    const auto at = from.find(name);
    return at == from.end() ? Span{.text = "?"} : at->second;
  }

  std::map<std::string, Span> models_;
  std::map<std::string, Span> by_id_;
  uint32_t count_ = 0;
  uint32_t all_ = 0;
};

std::string Millis(const ordered_json& row, const char* name, const char* quantile) {
  const auto at = row.find(name);
  if (at == row.end() || !at->is_object()) return "-";
  const double ms = Number(*at, quantile);
  return ms < 10 ? fmt::format("{:.1f}ms", ms)
                 : ShortDuration(conf::Duration(static_cast<int64_t>(std::min(ms, 1e9) * 1e6)));
}

// The part of the ready replicas' capacity that the demand takes.
Span Load(double demand, double ready) {
  const double part = ready > 0 ? demand / ready : (demand > 0 ? 1 : 0);
  const auto full = static_cast<size_t>(std::lround(std::clamp(part, 0.0, 1.0) * kLoadWidth));
  std::string bar;
  for (size_t i = 0; i < kLoadWidth; ++i) bar += i < full ? "█" : "░";
  return {std::move(bar), part > 0.9 ? Style::kBad : part > 0.7 ? Style::kWarn : Style::kGood};
}

Span Count(double value, Style when_any) {
  return {fmt::format("{:.0f}", value), value > 0 ? when_any : Style::kDim};
}

// "1 ready, 1 starting".
Span Replicas(double ready, double starting, double stopping, double asleep) {
  std::string text;
  for (const auto& [count, state] : {std::pair(ready, "ready"), std::pair(starting, "starting"),
                                     std::pair(stopping, "stopping"), std::pair(asleep, "asleep")}) {
    if (count > 0) text += fmt::format("{}{:.0f} {}", text.empty() ? "" : ", ", count, state);
  }
  if (text.empty()) return {"none", Style::kDim};
  return {std::move(text), starting + stopping > 0 ? Style::kWarn : Style::kGood};
}

void AddModels(const Standing& standing, const Holders& holders, size_t width, std::vector<Line>& out) {
  const bool scales = !standing.scaling.empty();
  std::vector<Columns::Title> titles = {{" "}, {"MODEL"}};
  if (scales)
    titles.insert(titles.end(), {{"LOAD", false, 5}, {"DEMAND", true, 6}, {"REPLICAS"}, {"WANTED", true, 4}});
  titles.insert(titles.end(), {{"HELD", true, 1},
                               {"SENT", true},
                               {"REQ/S", true},
                               {"ERR/S", true, 3},
                               {"TOK/S", true},
                               {"TTFT P50", true, 2},
                               {"P99", true, 7},
                               {"ITL P50", true, 8}});
  if (scales) titles.push_back({.text = "WHY", .reasons = true});
  Columns table(std::move(titles), width);
  std::vector<std::string> troubles;
  for (const ordered_json& row : standing.traffic) {
    const std::string model = row.value("model", "");
    const ordered_json* const scaled = Find(standing.scaling, "model", model);
    std::vector<Span> cells = {holders.OfModel(model), {.text = Harmless(model)}};
    if (scaled != nullptr) {
      const double ready = Number(*scaled, "ready");
      const double coming = Number(*scaled, "waiting") + Number(*scaled, "launching") +
                            Number(*scaled, "warming") + Number(*scaled, "waking");
      cells.push_back(Load(Number(*scaled, "demand"), ready));
      cells.push_back({.text = fmt::format("{:.2f}", Number(*scaled, "demand"))});
      cells.push_back(Replicas(ready, coming, Number(*scaled, "draining") + Number(*scaled, "stopping"),
                               Number(*scaled, "asleep")));
      cells.push_back(Count(Number(*scaled, "wanted"), Style::kPlain));
      if (const std::string trouble = Text(*scaled, "trouble"); trouble != "-")
        troubles.push_back(fmt::format("{}: {}", Harmless(model), trouble));
    } else if (scales) {
      for (int i = 0; i < 4; ++i) cells.push_back({"-", Style::kDim});
    }
    cells.push_back(Count(Number(row, "waiting"), Style::kWarn));
    cells.push_back(Count(Number(row, "outstanding_requests"), Style::kPlain));
    cells.push_back({.text = fmt::format("{:.1f}", Number(row, "requests_per_second"))});
    const double errors = Number(row, "errors_per_second");
    cells.push_back({fmt::format("{:.1f}", errors), errors > 0 ? Style::kBad : Style::kDim});
    cells.push_back({.text = fmt::format("{:.0f}", Number(row, "output_tokens_per_second"))});
    cells.push_back({.text = Millis(row, "first_token_ms", "p50")});
    cells.push_back({.text = Millis(row, "first_token_ms", "p99")});
    cells.push_back({.text = Millis(row, "inter_token_ms", "p50")});
    if (scales) cells.push_back({scaled != nullptr ? Text(*scaled, "reason") : "-", Style::kDim});
    table.Add(std::move(cells));
  }
  table.AppendTo(out);
  for (const std::string& trouble : troubles) AddText(out, {trouble, Style::kBad}, width);
  for (const ordered_json& model : standing.models) {
    for (const char* const kind : {"paused", "held"}) {
      const ordered_json order = model.value(kind, ordered_json());
      if (!order.is_object()) continue;
      const std::string reason = order.value("reason", "");
      AddText(out,
              {Harmless(fmt::format("{} is {} by {}{}{}", model.value("name", ""), kind,
                                    order.value("by", ""), reason.empty() ? "" : ": ", reason)),
               Style::kWarn},
              width);
    }
  }
}

Style OfState(const std::string& state) {
  for (const std::string_view good : {"ready", "running", "done", "healthy", "up", "closed"}) {
    if (state == good) return Style::kGood;
  }
  for (const std::string_view bad : {"failed", "stopping", "quarantined", "down", "open"}) {
    if (state == bad) return Style::kBad;
  }
  return Style::kWarn;
}

conf::Duration MillisOf(const ordered_json& row, const char* name) {
  return std::chrono::milliseconds(static_cast<int64_t>(Number(row, name)));
}

// "n1 + n2" and "0,1 + 0,1": of the members of a replica, one after the other.
struct Places {
  std::string nodes;
  std::string devices;
};

Places PlacesOf(const ordered_json& replica) {
  std::vector<ordered_json> members = replica.value("members", std::vector<ordered_json>());
  if (members.size() < 2) members = {replica};
  Places out;
  for (size_t i = 0; i < members.size(); ++i) {
    const char* const plus = i > 0 ? " + " : "";
    if (i == kShownMembers) {
      out.nodes += fmt::format(" + {} more", members.size() - i);
      out.devices += " + ...";
      break;
    }
    std::string devices;
    for (const ordered_json& device : members[i].value("devices", ordered_json::array()))
      devices += (devices.empty() ? "" : ",") + Harmless(device.get<std::string>());
    out.nodes += plus + Text(members[i], "node");
    out.devices += plus + (devices.empty() ? "-" : devices);
  }
  return out;
}

// Configured endpoints of the models that nothing scales, and discovered ones.
void AddEndpoints(const Standing& standing, const Holders& holders, size_t width, std::vector<Line>& out) {
  const bool discovered = std::ranges::any_of(
      standing.endpoints, [](const ordered_json& row) { return Text(row, "source") != "-"; });
  Columns table({{" "},
                 {"ENDPOINT"},
                 {"HEALTH"},
                 {"BREAKER"},
                 {discovered ? "SOURCE" : "ENGINE", false, 2},
                 {"SENT", true},
                 {"TOKENS", true, 1},
                 {.text = "WHY", .reasons = true}},
                width);
  bool any = false;
  for (const ordered_json& row : standing.endpoints) {
    const std::string model = row.value("model", "");
    const std::string source = Text(row, "source");
    if (source == "-" && Find(standing.scaling, "model", model) != nullptr) continue;
    any = true;
    const std::string health = Text(row, "health");
    const bool rests = row.value("resting", false);
    const std::string breaker = rests ? "resting" : Text(row, "breaker");
    std::string why = Text(row, "unused_because");
    if (why == health) why = "-";
    table.Add({holders.OfModel(model),
               {.text = Text(row, "name")},
               {health, OfState(health)},
               {breaker == "half_open" ? "half open" : breaker, OfState(breaker)},
               {.text = discovered ? source : Text(row, "engine")},
               Count(Number(row, "outstanding_requests"), Style::kPlain),
               Count(Number(row, "outstanding_tokens"), Style::kPlain),
               {why, why == "-" ? Style::kDim : Style::kWarn}});
  }
  if (!any) return;
  out.emplace_back();
  table.AppendTo(out);
}

void AddReplicas(const Standing& standing, const Holders& holders, size_t width, std::vector<Line>& out) {
  if (standing.replicas.empty()) return;
  Columns table({{" "},
                 {"REPLICA"},
                 {"STATE"},
                 {"FOR", true},
                 {"NODE"},
                 {"DEVICES"},
                 {"SENT", true, 1},
                 {.text = "WHY", .reasons = true}},
                width);
  for (const ordered_json& row : standing.replicas) {
    const Places places = PlacesOf(row);
    const std::string state = Text(row, "state");
    table.Add({holders.Of(row.value("id", "")),
               {.text = Text(row, "id")},
               {state, OfState(state)},
               {.text = ShortDuration(MillisOf(row, "in_state_ms"))},
               {.text = places.nodes},
               {.text = places.devices},
               Count(Number(row, "outstanding_requests"), Style::kPlain),
               {Text(row, "reason"), Style::kDim}});
  }
  out.emplace_back();
  table.AppendTo(out);
}

void AddJobs(const Standing& standing, const Holders& holders, size_t width, std::vector<Line>& out) {
  if (standing.jobs.empty()) return;
  Columns table({{" "},
                 {"JOB"},
                 {"WORK", false, 1},
                 {"STATE"},
                 {"FOR", true},
                 {"MEMBERS", true},
                 {"DEVICES", true, 2},
                 {"ATTEMPT", true, 3},
                 {.text = "WHY", .reasons = true}},
                width);
  for (const ordered_json& row : standing.jobs) {
    const std::optional<conf::TimePoint> since = conf::ParseTime(row.value("since", ""));
    const std::string state = Text(row, "state");
    table.Add({holders.Of(row.value("id", "")),
               {.text = Text(row, "id")},
               {.text = Text(row, "work")},
               {state, OfState(state)},
               {.text = since ? ShortDuration(standing.at - *since) : "-"},
               {.text = fmt::format("{} of {}", Text(row, "members"), Text(row, "max_members"))},
               {.text = Text(row, "devices")},
               {.text = Text(row, "attempt")},
               {Text(row, "reason"), Style::kDim}});
  }
  out.emplace_back();
  table.AppendTo(out);
}

// Of a node's devices, by figures of now.
std::string Hottest(const ordered_json& node) {
  std::optional<double> celsius;
  for (const ordered_json& device : node.value("each", ordered_json::array())) {
    const ordered_json of = device.value("measured", ordered_json::object());
    if (of.value("old", true) || !of.contains("temperature_celsius")) continue;
    celsius = std::max(celsius.value_or(0), Number(of, "temperature_celsius"));
  }
  return celsius ? fmt::format("{:.0f} °C", *celsius) : "-";
}

void AddNodes(const Standing& standing, const Holders& holders, std::vector<Line>& out) {
  if (standing.nodes.empty()) return;
  const auto is_measured = [](const ordered_json& row) { return row.contains("power_watts"); };
  const bool measured = std::ranges::any_of(standing.nodes, is_measured);
  std::vector<Columns::Title> titles = {{"NODE"}, {"HEALTH"}, {"KIND"}, {"FREE", true}};
  if (measured) titles.insert(titles.end(), {{"POWER", true}, {"HOTTEST", true}});
  titles.push_back({"DEVICES"});
  Columns table(std::move(titles), 0);
  std::vector<Line> strips;
  for (const ordered_json& row : standing.nodes) {
    Line& strip = strips.emplace_back();
    for (const ordered_json& device : row.value("each", ordered_json::array())) {
      const ordered_json& held = device["held_by"];
      if (!device.value("healthy", true)) {
        strip.push_back({"x ", Style::kBad});
      } else if (held.empty()) {
        strip.push_back({"· ", Style::kDim});
      } else {
        Span holder = holders.Of(held.front().get<std::string>());
        holder.text += held.size() > 1 ? '+' : ' ';
        strip.push_back(std::move(holder));
      }
    }
    const std::string health = Text(row, "health");
    std::vector<Span> cells = {{.text = Text(row, "name")},
                               {health, OfState(health)},
                               {.text = Text(row, "kind")},
                               {.text = fmt::format("{} of {}", Text(row, "free"), Text(row, "devices"))}};
    if (measured) {
      cells.push_back(
          {.text = row.contains("power_watts") ? fmt::format("{:.0f} W", Number(row, "power_watts")) : "-"});
      cells.push_back({.text = Hottest(row)});
    }
    cells.emplace_back();
    table.Add(std::move(cells));
  }
  out.emplace_back();
  const size_t first = out.size() + 1;
  table.AppendTo(out);
  for (size_t n = 0; n < strips.size(); ++n) std::ranges::move(strips[n], std::back_inserter(out[first + n]));
}

void AddActions(const Standing& standing, size_t width, std::vector<Line>& out) {
  if (!standing.no_actions.empty()) {
    out.emplace_back();
    AddText(out, {fmt::format("Last actions: {}", Harmless(standing.no_actions)), Style::kDim}, width);
  }
  if (standing.actions.empty()) return;
  Columns table({{"AGO", true}, {"RECORD", true, 1}, {"ACTION"}, {"OF"}, {.text = "WHY", .reasons = true}},
                width);
  for (const ordered_json& row : standing.actions) {
    const auto at = conf::FromUnixMicros(static_cast<int64_t>(Number(row, "time_us")));
    ordered_json detail = row.value("detail", ordered_json::object());
    if (detail.is_string()) detail = conf::ParseOrderedJson(detail.get<std::string>());
    table.Add({{.text = ShortDuration(standing.at - at)},
               {.text = Text(row, "seq")},
               {.text = Text(row, "action")},
               {.text = Text(row, "subject")},
               {detail.is_object() ? Text(detail, "reason") : "-", Style::kDim}});
  }
  out.emplace_back();
  table.AppendTo(out);
}

void AddHeading(const Standing& standing, size_t width, std::vector<Line>& out) {
  double devices = 0;
  double free = 0;
  for (const ordered_json& node : standing.nodes) {
    devices += Number(node, "devices");
    free += Number(node, "free");
  }
  double lent = 0;  // to jobs
  for (const ordered_json& job : standing.jobs) lent += Number(job, "devices");
  const std::time_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(standing.at.time_since_epoch()).count();
  std::tm local{};
  localtime_r(&seconds, &local);
  Line line = {{"tidegate top", Style::kTitle},
               {.text = fmt::format("  {}  {:02}:{:02}:{:02}", Harmless(standing.where), local.tm_hour,
                                    local.tm_min, local.tm_sec)}};
  if (devices <= 0) {
    out.push_back(std::move(line));
    return;
  }
  const std::string held =
      fmt::format("{:.0f} {}: {:.0f} with replicas, {:.0f} with jobs, {:.0f} free", devices,
                  devices == 1 ? "device" : "devices", std::max(devices - free - lent, 0.0), lent, free);
  size_t used = 2 + Characters(held);
  for (const Span& span : line) used += Characters(span.text);
  if (width > 0 && used > width) {
    out.push_back(std::move(line));
    AddText(out, {.text = held}, width);
  } else {
    line.push_back({.text = "  " + held});
    out.push_back(std::move(line));
  }
}

std::string_view EscapeOf(const Span& span) {
  static constexpr std::string_view kHolders[] = {"\033[36m", "\033[32m", "\033[33m", "\033[35m",
                                                  "\033[34m", "\033[96m", "\033[92m", "\033[93m"};
  switch (span.style) {
    case Style::kPlain:
      return "";
    case Style::kTitle:
      return "\033[1m";
    case Style::kDim:
      return "\033[90m";
    case Style::kGood:
      return "\033[32m";
    case Style::kWarn:
      return "\033[33m";
    case Style::kBad:
      return "\033[31m";
    case Style::kHolder:
      return kHolders[span.holder % std::size(kHolders)];
  }
  return "";
}

}  // namespace

std::string ShortDuration(conf::Duration duration) {
  using std::chrono::duration_cast;
  const int64_t ms = std::max<int64_t>(duration_cast<std::chrono::milliseconds>(duration).count(), 0);
  if (ms < 1000) return fmt::format("{}ms", ms);
  if (ms < 10'000) return fmt::format("{:.2f}s", static_cast<double>(ms) * 1e-3);
  const int64_t s = ms / 1000;
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86'400) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d{:02}h", s / 86'400, s % 86'400 / 3600);
}

std::vector<Line> FrameOf(const Standing& standing, size_t width) {
  const Holders holders(standing);
  std::vector<Line> out;
  AddHeading(standing, width, out);
  for (const std::string& what : standing.degraded)
    AddText(out, {fmt::format("degraded: {}", Harmless(what)), Style::kBad}, width);
  out.emplace_back();
  AddModels(standing, holders, width, out);
  AddEndpoints(standing, holders, width, out);
  AddReplicas(standing, holders, width, out);
  AddJobs(standing, holders, width, out);
  AddNodes(standing, holders, out);
  AddActions(standing, width, out);
  return out;
}

std::string Draw(const Line& line, size_t from, size_t width, bool color) {
  std::string out;
  size_t at = 0;  // character of the line
  for (const Span& span : line) {
    std::string seen;
    for (size_t i = 0; i < span.text.size();) {
      size_t next = i + 1;
      while (next < span.text.size() && Continues(span.text[next])) ++next;
      if (at >= from && (width == 0 || at - from < width)) seen.append(span.text, i, next - i);
      ++at;
      i = next;
    }
    if (seen.empty()) continue;
    const std::string_view escape = color ? EscapeOf(span) : "";
    out += escape;
    out += seen;
    if (!escape.empty()) out += "\033[0m";
  }
  if (!color) out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace gateway::cli
