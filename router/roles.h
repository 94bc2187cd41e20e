// Which part of a request a replica is there for, in a pool where prompts are computed apart from answers.
//
// A prefill replica computes long prompts and hands their KV caches over; a decode replica takes them and
// generates the answer. vLLM's decode replicas can also serve whole requests, SGLang's cannot.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace router {

enum class Role : uint8_t { kBoth, kPrefill, kDecode };
std::string_view RoleName(Role role);

// A set of roles.
using Roles = uint8_t;
constexpr Roles RoleBit(Role role) {
  return static_cast<Roles>(1U << static_cast<unsigned>(role));
}
inline constexpr Roles kAnswerers = RoleBit(Role::kBoth) | RoleBit(Role::kDecode);

// What a replica is looked for to do.
enum class Part : uint8_t {
  kWhole,    // all of it
  kPrefill,  // compute the prompt and hand it over
  kDecode,   // generate the answer, the prompt being handed over where that is worth it
};

// How a model's replicas hand prompts over.
struct HandoverSpec {
  int64_t min_prompt = 1024;  // shorter prompts are not worth a hop, in tokens
  int64_t min_uncached =
      512;                    // nor is computing fewer tokens than these beyond what the decode replica holds
  bool decodes_whole = true;  // decode replicas can compute prompts themselves
  bool at_once = false;       // both are sent their requests at the same time (SGLang's way)
};

// Whose turn it is for a part; everybody's where the pool hands nothing over.
Roles RolesFor(Part part, const std::optional<HandoverSpec>& spec);

}  // namespace router
