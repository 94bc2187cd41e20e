// Hostlist: Slurm's short form of many node names, "gpu[001-003,7],login,rack[1-2]n[1-4]", and of numbers,
// "0-2,5". Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plugins::launchers::slurm {

inline constexpr size_t kMaxHosts = 65'536;  // limit of one list
inline constexpr size_t kMaxHostName =
    255;  // bytes; a short list can stand for many names, never for long ones

// In the order written; several brackets of one name count like digits, the last one fastest. Empty for an
// empty text.
absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view text);

// "0-2,5" as {0, 1, 2, 5}: places on a node, each below 256.
absl::StatusOr<std::vector<uint8_t>> ExpandPlaces(std::string_view text);

}  // namespace plugins::launchers::slurm
