// Which part of a request a replica serves, in a pool that computes prompts apart from answers (disaggregated
// prefill).
//
// A prefill replica computes long prompts and transfers their KV caches; a decode replica receives them and
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

// The part of a request that a replica is looked for.
enum class Part : uint8_t {
  kWhole,    // prompt and answer
  kPrefill,  // compute the prompt and transfer it
  kDecode,   // generate the answer; the prompt is transferred to it where that pays
};

// How a model's replicas transfer prompts.
struct PrefillTransferSpec {
  int64_t min_prompt = 1024;   // tokens; a shorter prompt is never transferred
  int64_t min_uncached = 512;  // tokens that the decode replica must lack for a transfer to pay
  bool decodes_whole = true;   // decode replicas can compute prompts themselves
  bool at_once = false;        // both replicas get their requests at the same time (SGLang)
};

// The roles that may serve `part`; all that answer where the pool transfers nothing.
Roles RolesFor(Part part, const std::optional<PrefillTransferSpec>& spec);

}  // namespace router
