// A hash of text that is the same in every process and every version. Not against attackers. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace conf {

// FNV-1a of 64 bits.
constexpr uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace conf
