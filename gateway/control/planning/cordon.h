// Cordon: an operator's order that a node, or one device, gets no new work; running work continues, unless the
// node is to be drained: then it moves elsewhere (node_drain.h).
// Kept in the store (kind `cordon`), by the name of the node or "NODE/DEVICE".
//
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/store/store.h"

namespace gateway::control {

struct Cordon {
  std::string node;
  std::optional<uint8_t> device{};  // its place on the node; absent: the whole node
  std::string reason{};             // for people; may be empty
  std::string by{};                 // an admin key's id
  conf::TimePoint since{};
  bool drains = false;  // running work leaves, too; only for whole nodes
};

// The ledger's words for setting and lifting one.
inline constexpr std::string_view kCordonAction = "node.cordon";
inline constexpr std::string_view kUncordonAction = "node.uncordon";
inline constexpr std::string_view kDrainAction = "node.drain";
inline constexpr std::string_view kUndrainAction = "node.undrain";

std::string IdOf(const Cordon& cordon);
// Reads the id of a stored object, which its ledger record has, too; absent where it names no cordon.
std::optional<Cordon> CordonOfId(std::string_view id);

// "node-7", "device 3 of node-7"; and "cordoned by ada: its fan is replaced".
std::string PlaceOf(const Cordon& cordon);
std::string WhyOf(const Cordon& cordon);

std::string BodyOf(const Cordon& cordon);
// DataLoss names the object.
absl::StatusOr<Cordon> ReadCordon(const std::string& id, const std::string& body);

}  // namespace gateway::control
