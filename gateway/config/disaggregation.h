// Roles of endpoints, and section `disaggregation` of a model: prompts that are computed apart from answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "gateway/config/types.h"
#include "router/roles.h"

namespace gateway::config {

inline constexpr std::array<std::pair<std::string_view, router::Role>, 3> kRoles = {
    {{"both", router::Role::kBoth}, {"prefill", router::Role::kPrefill}, {"decode", router::Role::kDecode}}};

struct Disaggregation {
  uint32_t min_prompt = 1024;   // tokens; shorter prompts go to a decode endpoint whole
  uint32_t min_uncached = 512;  // tokens; so do prompts of which it lacks fewer
};

struct Model;

// How the model's endpoints hand prompts over; nothing where none has a role.
std::optional<router::HandoverSpec> HandoverOf(const Model& model);

void Bind(conf::Object& object, Disaggregation& out);

}  // namespace gateway::config
