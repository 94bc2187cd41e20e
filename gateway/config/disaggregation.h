// Roles of endpoints, and section `disaggregation` of a model: some endpoints compute prompts, others
// generate answers.
#pragma once

#include <cstdint>
#include <string_view>

#include "conf/words.h"
#include "router/routes/roles.h"

namespace conf {
class Object;
}

namespace gateway::config {

inline constexpr conf::Word<router::Role> kRoles[] = {
    {"both", router::Role::kBoth}, {"prefill", router::Role::kPrefill}, {"decode", router::Role::kDecode}};

struct Disaggregation {
  uint32_t min_prompt = 1024;   // tokens; a decode endpoint computes shorter prompts itself
  uint32_t min_uncached = 512;  // tokens; likewise where it has all but fewer tokens cached
};

void Bind(conf::Object& object, Disaggregation& out);

}  // namespace gateway::config
