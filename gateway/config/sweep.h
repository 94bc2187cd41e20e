// Section `sweep` of a job file: one element for each set of parameters, which share a budget of devices, and of which
// the worse ones are stopped early by what they report.
//
// Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/halving.h"

namespace conf {
class Object;
}  // namespace conf

namespace gateway::config {

// Name and value, as text, in the order of the names.
using ParameterSet = std::vector<std::pair<std::string, std::string>>;

// The file in which an element's leader reports: lines of JSON, {"step": 100, "value": 0.31}.
struct SweepMetric {
  std::string name = "value";  // for people
  std::string file;            // "{id}" stands for the element's id
  bool maximize = false;
};

// How one parameter of a random sweep is drawn: one of these.
struct RandomParameter {
  std::vector<std::string> choice;
  std::vector<double> uniform;   // from, to
  std::vector<double> log;       // likewise, uniform in the logarithm
  std::vector<int64_t> integer;  // from, to, both included
};

struct RandomSweep {
  uint32_t count = 0;
  uint64_t seed = 1;
  std::map<std::string, RandomParameter> parameters;
};

struct Sweep {
  std::map<std::string, std::vector<std::string>> grid;  // one of these three
  std::optional<RandomSweep> random;
  std::string file;                    // of parameters, as the author names it
  std::vector<ParameterSet> elements;  // that they make
  uint32_t parallel = 0;               // elements at a time; 0: all
  uint32_t max_devices = 0;            // that they hold together; 0: no limit
  std::optional<SweepMetric> metric;
  std::optional<scheduler::HalvingRule> halving;
};

inline constexpr uint32_t kMostElements = 1000;  // of an array or a sweep
inline constexpr size_t kMostParameterText = 4U << 20;

// `parameters` is the text of the file that the section may name: JSON lines, or CSV with a header.
struct SweepSection {
  Sweep* sweep;
  std::string_view parameters;
};
void Bind(conf::Object& object, SweepSection& section);

// "TIDEGATE_PARAM_LR"
std::string VariableOf(std::string_view parameter, std::string_view prefix = "TIDEGATE_PARAM_");
// "{sweep.lr}" is replaced by its value.
std::string FillParameters(std::string_view text, const ParameterSet& parameters);
// Of the placeholders for parameters in a text, the first that no parameter has; empty: none.
std::string UnknownParameter(std::string_view text, const ParameterSet& parameters);

}  // namespace gateway::config
