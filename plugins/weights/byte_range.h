// The field Range of a request for a file (RFC 9110, section 14). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plugins::weights {

struct AskedBytes {
  uint64_t first = 0;
  uint64_t count = 0;
  bool part = false;  // of the file: an answer 206
};

// The requested bytes of a file of `size` bytes: all of it where the field is empty, malformed or of several ranges,
// which a server may ignore. Absent: the file has no such bytes.
std::optional<AskedBytes> ReadRange(std::string_view field, uint64_t size);

}  // namespace plugins::weights
