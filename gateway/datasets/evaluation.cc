#include "gateway/datasets/evaluation.h"

#include <fmt/format.h>

namespace gateway::datasets {
namespace {

constexpr const char* kSetFile = "tidegate_set_file";
constexpr const char* kSetName = "tidegate_set_name";
constexpr size_t kMostName = 200;  // bytes; metadata is bounded

std::string ModelMark(size_t place) {
  return fmt::format("tidegate_model_{}", place + 1);
}

}  // namespace

std::map<std::string, std::string> MarksOf(const Evaluation& evaluation) {
  std::map<std::string, std::string> marks{{kSetFile, evaluation.set_file},
                                           {kSetName, evaluation.set_name.substr(0, kMostName)}};
  for (size_t i = 0; i < evaluation.models.size(); ++i) marks[ModelMark(i)] = evaluation.models[i];
  return marks;
}

std::optional<Evaluation> ReadMarks(const std::map<std::string, std::string>& metadata) {
  const auto file = metadata.find(kSetFile);
  if (file == metadata.end()) return std::nullopt;
  Evaluation evaluation{.set_file = file->second, .set_name = {}, .models = {}};
  if (const auto name = metadata.find(kSetName); name != metadata.end()) evaluation.set_name = name->second;
  for (size_t i = 0; i < kMostModels; ++i) {
    const auto model = metadata.find(ModelMark(i));
    if (model == metadata.end()) break;
    evaluation.models.push_back(model->second);
  }
  if (evaluation.models.empty()) return std::nullopt;
  return evaluation;
}

}  // namespace gateway::datasets
