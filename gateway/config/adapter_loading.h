// `adapters` of a model: LoRA adapters that operators load at run time: from where, and how many an engine holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"

namespace conf {
class Object;
}

namespace gateway::config {

struct AdapterLoading {
  // Folders on the engines' machines, or names of the Hugging Face hub: each stands for itself and for all below
  // it.
  std::vector<std::string> sources;
  uint32_t slots = 0;                                // that one engine holds at a time; 0: no bound of ours
  conf::Duration timeout = std::chrono::minutes(2);  // of one load
};

void Bind(conf::Object& object, AdapterLoading& out);

// Why it can be no source of an adapter or of several; empty: it can.
std::string WhyNoSource(std::string_view source);
// Why an adapter may not be loaded from there, with what would be right; empty: it may.
std::string WhyNotFrom(const AdapterLoading& loading, std::string_view source);

}  // namespace gateway::config
