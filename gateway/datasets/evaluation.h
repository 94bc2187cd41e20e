// Evaluation: the marks in the metadata of a batch by which it is known as a comparison of models by a data set.
//
// Pure; any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gateway::datasets {

inline constexpr size_t kMostModels = 8;  // that one evaluation compares

struct Evaluation {
  std::string set_file;  // the id of the data set, which the gateway keeps as a file
  std::string set_name;  // as its maker calls it
  std::vector<std::string> models;
};

std::map<std::string, std::string> MarksOf(const Evaluation& evaluation);

// Nothing: the batch is no evaluation.
std::optional<Evaluation> ReadMarks(const std::map<std::string, std::string>& metadata);

}  // namespace gateway::datasets
