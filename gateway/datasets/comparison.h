// A comparison of models by a data set: the requests of a batch that asks each model, and what came of them,
// side by side. What takes it to the gateway and back is the command's.
//
// Pure; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"

namespace gateway::datasets {

inline constexpr size_t kMostExamples = 20'000;  // of a set that models are compared by

// An example of a set: a conversation up to the answer, and the answer that the set has.
struct ComparedExample {
  std::string messages;   // JSON: what each model is asked
  std::string tools;      // JSON; empty: none
  std::string question;   // the text of the last message, for people
  std::string reference;  // the text of the set's answer; empty: it has none
};

// Reads a set in the form of OpenAI's fine-tuning. InvalidArgument names the line that is wrong.
absl::StatusOr<std::vector<ComparedExample>> ReadSet(std::string_view text, size_t most);

// The input of a batch that asks each model for each example; `max_tokens` 0: no bound.
std::string BatchInput(const std::vector<ComparedExample>& set, const std::vector<std::string>& models,
                       int64_t max_tokens);

struct ComparedAnswer {
  static constexpr std::string_view kSchema = "ComparedAnswer";

  std::string text;
  std::string error;  // empty: there is an answer
  std::optional<int64_t> input_tokens, output_tokens;
  std::optional<double> cost_usd;
  std::optional<double> latency_s;  // from its turn to the end of the answer, without the wait of a batch
};

template <class O>
constexpr void Bind(O& o, ComparedAnswer& of) {
  o.Required("text", of.text);
  o.Required("error", of.error);
  o.Optional("input_tokens", of.input_tokens);
  o.Optional("output_tokens", of.output_tokens);
  o.Optional("cost_usd", of.cost_usd);
  o.Optional("latency_s", of.latency_s);
}

struct ComparedRow {
  static constexpr std::string_view kSchema = "ComparedRow";

  std::string question;
  std::string reference;
  std::vector<ComparedAnswer> answers;  // in the order of the models
};

template <class O>
constexpr void Bind(O& o, ComparedRow& of) {
  o.Required("question", of.question);
  o.Required("reference", of.reference);
  o.Required("answers", of.answers);
}

// Of one model. Times in seconds, over the answers that have one.
struct ModelSummary {
  static constexpr std::string_view kSchema = "ModelSummary";

  std::string model;
  uint64_t answered = 0;
  uint64_t failed = 0;
  uint64_t as_reference = 0;  // answers that equal the set's, but for white space at the ends
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  double cost_usd = 0;
  std::optional<double> latency_mean_s, latency_p50_s, latency_p95_s;
};

template <class O>
constexpr void Bind(O& o, ModelSummary& of) {
  o.Required("model", of.model);
  o.Required("answered", of.answered);
  o.Required("failed", of.failed);
  o.Required("as_reference", of.as_reference);
  o.Required("input_tokens", of.input_tokens);
  o.Required("output_tokens", of.output_tokens);
  o.Required("cost_usd", of.cost_usd);
  o.Optional("latency_mean_s", of.latency_mean_s);
  o.Optional("latency_p50_s", of.latency_p50_s);
  o.Optional("latency_p95_s", of.latency_p95_s);
}

struct Comparison {
  std::string object = "tidegate.comparison";
  std::string set;    // the file
  std::string batch;  // its id
  std::vector<ModelSummary> models;
  std::vector<ComparedRow> rows;
};

template <class O>
constexpr void Bind(O& o, Comparison& of) {
  o.Required("object", of.object);
  o.Required("set", of.set);
  o.Required("batch", of.batch);
  o.Required("models", of.models);
  o.Required("rows", of.rows);
}

// `results`: the lines of the batch's output and error files.
Comparison Compare(const std::vector<ComparedExample>& set, const std::vector<std::string>& models,
                   std::string_view results);

// For a terminal: a table of the models, then each example with its answers, cut to `width` characters.
std::string ComparisonText(const Comparison& comparison, size_t width);
// One page without scripts; all texts are escaped.
std::string ComparisonHtml(const Comparison& comparison);

}  // namespace gateway::datasets
