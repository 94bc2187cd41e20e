#include "gateway/config/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/json_parse.h"
#include "conf/placeholders.h"
#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/types.h"
#include "scheduler/io/csv.h"
#include "scheduler/rng.h"

namespace gateway::config {
namespace {

constexpr size_t kMostParameters = 64;
constexpr size_t kLongestName = 40;
constexpr size_t kLongestValue = 4096;
constexpr int64_t kMostInteger = int64_t{1} << 53;
constexpr std::string_view kPlaceholder = "sweep.";

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsParameter(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && IsLetter(name.front()) &&
         std::ranges::all_of(name, [](char c) {
           return IsLetter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
         });
}

// Of names that stand in one sweep; empty: none.
std::string DefectOfNames(const std::vector<std::string>& names) {
  if (names.empty()) return "names no parameter";
  if (names.size() > kMostParameters)
    return fmt::format("names {} parameters, at most {} fit", names.size(), kMostParameters);
  std::map<std::string, std::string_view> variables;
  for (const std::string& name : names) {
    if (!IsParameter(name)) {
      return fmt::format(
          "\"{}\" is not the name of a parameter: it must begin with a letter and have at most {} letters, "
          "digits, "
          "'_', '-' and '.'",
          name, kLongestName);
    }
    const auto [other, added] = variables.try_emplace(VariableOf(name), name);
    if (!added)
      return fmt::format("{} and {} would both be the variable {}; rename one", other->second, name,
                         other->first);
  }
  return {};
}

std::string DefectOfValue(std::string_view name, std::string_view value) {
  if (value.size() > kLongestValue)
    return fmt::format("a value of {} has {} bytes, at most {} fit", name, value.size(), kLongestValue);
  return value.find('\0') == value.npos ? "" : fmt::format("a value of {} has a NUL character", name);
}

// --- Grid ---

std::string ExpandGrid(Sweep& sweep) {
  std::vector<std::string> names;
  uint64_t count = 1;
  for (const auto& [name, values] : sweep.grid) {
    names.push_back(name);
    if (values.empty()) return fmt::format("{} has no values", name);
    for (const std::string& value : values) {
      if (std::string defect = DefectOfValue(name, value); !defect.empty()) return defect;
    }
    count *= values.size();
    if (count > kMostElements)
      return fmt::format("makes more than {} sets of parameters; give fewer values, or random",
                         kMostElements);
  }
  if (std::string defect = DefectOfNames(names); !defect.empty()) return defect;
  for (uint64_t i = 0; i < count; ++i) {
    ParameterSet set;
    uint64_t left = i;
    // The last name varies fastest.
    for (auto at = sweep.grid.rbegin(); at != sweep.grid.rend(); ++at) {
      set.emplace_back(at->first, at->second[left % at->second.size()]);
      left /= at->second.size();
    }
    std::ranges::reverse(set);
    sweep.elements.push_back(std::move(set));
  }
  return {};
}

// --- Random ---

// What is wrong with others was told when they were read.
bool MayBeDrawn(const RandomParameter& parameter) {
  const auto is_range = [](const auto& bounds) { return bounds.size() == 2 && bounds[0] < bounds[1]; };
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (!parameter.choice.empty()) return true;
  if (is_range(parameter.integer))
    return std::ranges::all_of(parameter.integer,
                               [](int64_t value) { return value >= -kMostInteger && value <= kMostInteger; });
  if (is_range(parameter.log)) return parameter.log[0] > 0 && std::ranges::all_of(parameter.log, is_finite);
  return is_range(parameter.uniform) && std::ranges::all_of(parameter.uniform, is_finite);
}

// Numbers in text are as short as they can be and still be read back as they are.
std::string Draw(const RandomParameter& parameter, scheduler::Rng& rng) {
  if (!parameter.choice.empty()) return parameter.choice[rng.Uniform(parameter.choice.size())];
  if (!parameter.integer.empty()) {
    const auto span = static_cast<uint64_t>(parameter.integer[1] - parameter.integer[0]);
    return std::to_string(parameter.integer[0] + static_cast<int64_t>(rng.Uniform(span + 1)));
  }
  const bool log = !parameter.log.empty();
  const std::vector<double>& range = log ? parameter.log : parameter.uniform;
  const double u = rng.Double();
  const double value = log ? std::exp(std::log(range[0]) + u * (std::log(range[1]) - std::log(range[0])))
                           : range[0] + u * (range[1] - range[0]);
  return fmt::format("{}", std::clamp(value, range[0], range[1]));
}

void ExpandRandom(Sweep& sweep) {
  scheduler::Rng rng(sweep.random->seed);
  for (uint32_t i = 0; i < sweep.random->count; ++i) {
    ParameterSet set;
    for (const auto& [name, parameter] : sweep.random->parameters)
      set.emplace_back(name, Draw(parameter, rng));
    sweep.elements.push_back(std::move(set));
  }
}

// --- File ---

// Reports what is wrong with a line.
std::string AddSet(Sweep& sweep, ParameterSet set, size_t line) {
  std::ranges::sort(set);
  for (const auto& [name, value] : set) {
    if (std::string defect = DefectOfValue(name, value); !defect.empty())
      return fmt::format("line {}: {}", line, defect);
  }
  std::vector<std::string> names;
  names.reserve(set.size());
  for (const auto& [name, value] : set) names.push_back(name);
  if (sweep.elements.empty()) {
    if (std::string defect = DefectOfNames(names); !defect.empty())
      return fmt::format("line {}: {}", line, defect);
  } else if (!std::ranges::equal(set, sweep.elements.front(), {}, &ParameterSet::value_type::first,
                                 &ParameterSet::value_type::first)) {
    return fmt::format("line {}: has other parameters than the first set; give each set all of them", line);
  }
  if (sweep.elements.size() == kMostElements)
    return fmt::format("line {}: more than {} sets of parameters", line, kMostElements);
  sweep.elements.push_back(std::move(set));
  return {};
}

std::string ReadJsonLine(Sweep& sweep, std::string_view text, size_t line) {
  const nlohmann::json json = conf::ParseJson(text);
  if (!json.is_object()) return fmt::format("line {}: is not a JSON object, such as {{\"lr\": 0.1}}", line);
  ParameterSet set;
  for (const auto& [name, value] : json.items()) {
    if (value.is_structured() || value.is_null())
      return fmt::format("line {}: {} must be a number, a text, true or false", line, name);
    set.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return AddSet(sweep, std::move(set), line);
}

std::string ExpandFile(Sweep& sweep, std::string_view text) {
  if (text.empty())
    return "was not sent with the job file; tidegate jobs submit sends it, callers of the API give "
           "`parameters`";
  if (text.size() > kMostParameterText)
    return fmt::format("has {} bytes, at most {} fit", text.size(), kMostParameterText);
  std::vector<std::string> header;
  size_t line = 0;
  std::string defect;
  bool json = false;
  for (std::string_view left = text; !left.empty() && defect.empty();) {
    const size_t end = left.find('\n');
    std::string_view row = left.substr(0, end);
    left = end == left.npos ? std::string_view() : left.substr(end + 1);
    ++line;
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.find_first_not_of(" \t") == row.npos) continue;
    if (header.empty() && sweep.elements.empty()) json = row.find_first_not_of(" \t") == row.find('{');
    if (json) {
      defect = ReadJsonLine(sweep, row, line);
      continue;
    }
    std::optional<std::vector<std::string>> split = scheduler::io::SplitCsv(row);
    if (!split) return fmt::format("line {}: has a quote that does not end", line);
    std::vector<std::string>& cells = *split;
    if (header.empty()) {
      header = std::move(cells);
      continue;
    }
    if (cells.size() != header.size()) {
      defect = fmt::format("line {}: has {} values, the first line names {} parameters", line, cells.size(),
                           header.size());
      continue;
    }
    ParameterSet set;
    for (size_t i = 0; i < cells.size(); ++i) set.emplace_back(header[i], std::move(cells[i]));
    defect = AddSet(sweep, std::move(set), line);
  }
  if (!defect.empty()) return defect;
  return sweep.elements.empty() ? "has no set of parameters" : "";
}

struct MetricFile {
  std::string operator()(const std::string& path) const {
    if (!path.starts_with('/')) return "must be an absolute path, such as /data/sweeps/{id}.jsonl";
    if (path.find("/../") != path.npos || path.ends_with("/..")) return "must not have .. in it";
    return path.find("{id}") == path.npos ? "must name {id}: each element has a file of its own" : "";
  }
};

}  // namespace

static void Bind(conf::Object& o, RandomParameter& parameter) {
  o.Optional("choice", parameter.choice, conf::NotEmpty());
  o.Optional("uniform", parameter.uniform);
  o.Optional("log", parameter.log);
  o.Optional("integer", parameter.integer);
  if (!o.reading()) return;
  const int ways = o.Has("choice") + o.Has("uniform") + o.Has("log") + o.Has("integer");
  if (ways != 1) return o.Error("give one of choice, uniform, log and integer");
  const auto range = [&](const auto& bounds, std::string_view key) {
    if (o.Has(key) && (bounds.size() != 2 || !(bounds[0] < bounds[1])))
      o.Error("must be two numbers, the smaller first, such as [1, 8]", key);
  };
  range(parameter.uniform, "uniform");
  range(parameter.log, "log");
  range(parameter.integer, "integer");
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!std::ranges::all_of(parameter.uniform, finite)) o.Error("must be finite", "uniform");
  if (!std::ranges::all_of(parameter.log, finite)) o.Error("must be finite", "log");
  if (!parameter.log.empty() && parameter.log.front() <= 0) o.Error("must be above 0", "log");
  const auto small = [](int64_t value) { return value >= -kMostInteger && value <= kMostInteger; };
  if (!std::ranges::all_of(parameter.integer, small)) o.Error("must be at most 2^53 from 0", "integer");
}

static void Bind(conf::Object& o, RandomSweep& random) {
  o.Required("count", random.count, conf::Range{1U, kMostElements});
  o.Optional("seed", random.seed);
  o.Required("parameters", random.parameters, conf::NotEmpty());
  if (!o.reading()) return;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : random.parameters) names.push_back(name);
  if (const std::string defect = DefectOfNames(names); !defect.empty() && !names.empty())
    o.Error(defect, "parameters");
}

static void Bind(conf::Object& o, SweepMetric& metric) {
  constexpr conf::Word<bool> kGoals[] = {{"minimize", false}, {"maximize", true}};
  o.Optional("name", metric.name, ValidName());
  o.Required("file", metric.file, MetricFile());
  o.Optional("goal", conf::Choice(metric.maximize, "goal", kGoals));
}

struct HalvingSection {
  scheduler::HalvingRule rule;
};
static void Bind(conf::Object& o, HalvingSection& halving) {
  constexpr uint64_t kMostSteps = uint64_t{1} << 53;
  o.Required("first", halving.rule.first, conf::Range{uint64_t{1}, kMostSteps});
  o.Optional("factor", halving.rule.factor, conf::Range{2U, 16U});
}

void Bind(conf::Object& o, SweepSection& section) {
  Sweep& sweep = *section.sweep;
  o.Optional("grid", sweep.grid, conf::NotEmpty());
  o.Optional("random", sweep.random);
  o.Optional("file", sweep.file, conf::NotEmpty());
  o.Optional("parallel", sweep.parallel, conf::Range{1U, kMostElements});
  o.Optional("max_devices", sweep.max_devices, conf::Range{1U, 1'000'000U});
  o.Optional("metric", sweep.metric);
  std::optional<HalvingSection> halving;
  if (sweep.halving) halving = HalvingSection{*sweep.halving};
  o.Optional("halving", halving);
  if (!o.reading()) return;
  if (halving) sweep.halving = halving->rule;
  if (o.Has("halving") && !o.Has("metric"))
    o.Error("needs metric, by which elements are compared; give metric.file", "halving");
  if (sweep.halving && sweep.metric) sweep.halving->maximize = sweep.metric->maximize;
  const int kinds = o.Has("grid") + o.Has("random") + o.Has("file");
  if (kinds != 1) return o.Error("give one of grid, random and file");
  if (!sweep.grid.empty()) {
    if (const std::string defect = ExpandGrid(sweep); !defect.empty()) o.Error(defect, "grid");
  } else if (sweep.random) {
    const bool sound =
        std::ranges::all_of(sweep.random->parameters, [](const auto& one) { return MayBeDrawn(one.second); });
    if (sound && sweep.random->count <= kMostElements) ExpandRandom(sweep);
  } else if (!sweep.file.empty()) {
    if (const std::string defect = ExpandFile(sweep, section.parameters); !defect.empty())
      o.Error(defect, "file");
  }
}

std::string VariableOf(std::string_view parameter, std::string_view prefix) {
  std::string out(prefix);
  for (const char c : parameter) {
    if (c >= 'a' && c <= 'z') {
      out += static_cast<char>(c - 'a' + 'A');
    } else {
      out += IsLetter(c) || (c >= '0' && c <= '9') ? c : '_';
    }
  }
  return out;
}

std::string FillParameters(std::string_view text, const ParameterSet& parameters) {
  return conf::FillPlaceholders(text, [&](std::string_view name) -> std::optional<std::string> {
    if (!name.starts_with(kPlaceholder)) return std::nullopt;
    const auto found =
        std::ranges::find(parameters, name.substr(kPlaceholder.size()), &ParameterSet::value_type::first);
    return found != parameters.end() ? found->second : fmt::format("{{{}}}", name);
  });
}

std::string UnknownParameter(std::string_view text, const ParameterSet& parameters) {
  std::string unknown;
  conf::FillPlaceholders(text, [&](std::string_view name) -> std::optional<std::string> {
    if (!name.starts_with(kPlaceholder) || !unknown.empty() || !conf::UsesPlaceholder(text, name))
      return std::nullopt;
    name.remove_prefix(kPlaceholder.size());
    if (std::ranges::find(parameters, name, &ParameterSet::value_type::first) == parameters.end())
      unknown = name;
    return std::nullopt;
  });
  return unknown;
}

}  // namespace gateway::config
