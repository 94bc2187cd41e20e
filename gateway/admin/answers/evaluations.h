// Answers of the admin API about evaluations: batches that compare models by a data set.
#pragma once

#include "gateway/admin/answers/answer_fields.h"
#include "gateway/datasets/comparison.h"

namespace gateway::admin::answers {

struct Evaluation {
  static constexpr std::string_view kSchema = "Evaluation";

  std::string id;  // of the batch
  std::string tenant;
  std::string set;  // the data set, as its maker calls it
  std::vector<std::string> models;
  std::string state;  // of the batch
  Time created;
  std::optional<Time> ended;
  uint64_t lines = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;
};

template <class O>
constexpr void Bind(O& o, Evaluation& of) {
  o.Required("id", of.id);
  o.Required("tenant", of.tenant);
  o.Required("set", of.set);
  o.Required("models", of.models);
  o.Required("state", of.state);
  o.Required("created", of.created);
  o.Optional("ended", of.ended);
  o.Required("lines", of.lines);
  o.Required("completed", of.completed);
  o.Required("failed", of.failed);
}

// An evaluation with a page of its examples; the models' figures are of all examples.
struct EvaluationPage {
  static constexpr std::string_view kSchema = "EvaluationPage";

  std::string object = "evaluation.page";
  Evaluation evaluation;
  std::vector<datasets::ModelSummary> models;
  std::vector<datasets::ComparedRow> data;
  uint64_t examples = 0;  // in all
  bool has_more = false;
  std::optional<std::string> next;  // what the next page begins after
};

template <class O>
constexpr void Bind(O& o, EvaluationPage& of) {
  o.Required("object", of.object);
  o.Required("evaluation", of.evaluation);
  o.Required("models", of.models);
  o.Required("data", of.data);
  o.Required("examples", of.examples);
  o.Required("has_more", of.has_more);
  o.Optional("next", of.next);
}

}  // namespace gateway::admin::answers
