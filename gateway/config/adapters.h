// LoRA adapters and the models that serve them: the checks between the two, and the settings that an adapter
// takes from its base.
#pragma once

#include <string>
#include <vector>

#include "conf/document.h"
#include "gateway/config/model.h"

namespace gateway::config {

// Reports to the document at the value that is wrong.
void CheckAdapters(conf::Document& document, const std::vector<Model>& models);

// Copies to each adapter the base's settings of routing and failures, and its price, context and
// max_output_tokens where the adapter has none. The models have passed CheckAdapters.
void TakeFromBases(std::vector<Model>& models);

// An adapter that was loaded at run time, for the models that are in force.
struct RunTimeAdapter {
  std::string base;  // the model whose engines load it
  std::string name;  // at those engines, and of the model unless the configuration names one for it

  friend bool operator==(const RunTimeAdapter&, const RunTimeAdapter&) = default;
};

// Adds a model for each, with the settings of its base; marks the configured model of it, where there is one. One
// whose base does not load adapters, or whose name another model has, is left out.
void AddRunTimeAdapters(std::vector<Model>& models, const std::vector<RunTimeAdapter>& adapters);

// The model's name that callers give for the adapter; empty: AddRunTimeAdapters leaves it out.
std::string ModelOfAdapter(const std::vector<Model>& configured, const RunTimeAdapter& adapter);

}  // namespace gateway::config
