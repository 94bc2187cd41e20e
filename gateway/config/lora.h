// `lora` of a model: a LoRA adapter, which is a model of its own for clients, tenants, prices, limits and
// usage, and is served by the endpoints of its base.
#pragma once

#include <string>
#include <vector>

#include "conf/document.h"

namespace conf {
class Object;
}

namespace gateway::config {

struct Model;

struct Lora {
  std::string base;        // the model whose endpoints serve it
  std::string adapter;     // what the engines call it; when not given: the model's own name
  bool own_price = false;  // the model gives a price
};

void Bind(conf::Object& object, Lora& out);

// What adapters and their bases must agree on.
void CheckAdapters(conf::Document& document, const std::vector<Model>& models);

// Adapters take over what is said of their bases: how endpoints are chosen among and what is done when they
// fail, and, where they give none themselves, price, context and max_output_tokens. Of what was checked.
void TakeFromBases(std::vector<Model>& models);

}  // namespace gateway::config
