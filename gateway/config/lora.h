// `lora` of a model: a LoRA adapter. For clients, tenants, prices, limits and usage it is a model of its own;
// the endpoints of its base serve it.
#pragma once

#include <string>

namespace conf {
class Object;
}

namespace gateway::config {

struct Lora {
  std::string base;        // the model whose endpoints serve it
  std::string adapter;     // its name at the engines; default: the model's own name
  bool own_price = false;  // the model gives a price
  bool at_run_time =
      false;  // in force: operators have the gateway load it; else engines know it from the start
};

void Bind(conf::Object& object, Lora& out);

}  // namespace gateway::config
