// The figures for people and for programs, and which of the targets they meet.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/policies/scenario.h"

namespace bench::policies {

void PrintTable(const Result& result);
nlohmann::json ToJson(const Result& result);

// cost beside epp, and one of cost's own figures beside its target.
struct Target {
  std::string what;
  double bound = 0;
  bool at_most = true;
  double reached = 0;
  bool met() const { return at_most ? reached <= bound : reached >= bound; }
};

std::vector<Target> TargetsOf(std::span<const Result> results);

}  // namespace bench::policies
