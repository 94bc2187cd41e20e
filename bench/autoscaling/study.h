// The autoscaler's laws over recorded traffic, each case beside an oracle, and the targets.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/sim/elastic.h"
#include "scheduler/autoscale/policy.h"

namespace bench::autoscaling {

inline constexpr const char* kEngine = "llama-3.3-70b-4xa100";
inline constexpr double kObjective = 0.99;        // of first tokens within 2 s
inline constexpr double kQuickObjective = 0.995;  // where a replica takes 30 s to start

struct Case {
  std::string name;
  std::vector<router::sim::Request> requests;
};

// Azure's conversations, repeated, with four and with two times as many clients, and three mixes of ServeGen's clients;
// four hours each, or one. Absent when a file cannot be read; standard error then has the reason.
std::optional<std::vector<Case>> LoadCases(const std::string& traces, bool quick);

// One law with one setting, by case.
struct Run {
  std::string name;
  std::vector<router::sim::ElasticReport> of;

  double Worst() const;  // share of first tokens in time
  double Cost() const;   // replica-seconds
};

struct Study {
  std::vector<router::sim::ElasticReport> oracle;  // by case
  std::map<int, Run> demand;                       // by seconds to start a replica
  // With 90 s: the one target that holds the objective in all cases for the least, or attains most; and, in
  // each case, the target that does so there.
  Run kpa, hpa;
  Run best_kpa, best_hpa;
};

Study RunStudy(const std::vector<Case>& cases, bool quick);

void PrintTables(const std::vector<Case>& cases, const Study& study);
nlohmann::json ToJson(const std::vector<Case>& cases, const Study& study);

// A target of the study and the value reached.
struct Aim {
  std::string what;
  double bound = 0;
  bool at_most = true;
  double reached = 0;
  bool met() const { return at_most ? reached <= bound : reached >= bound; }
};
std::vector<Aim> AimsOf(const Study& study);

}  // namespace bench::autoscaling
