// The hash chain over the lines of all segments, and the form of a line with its link.
//
//   line  = body ',"chain":"' HEX '"}' '\n'
//   HEX   = lower-case hex of SHA-256(previous link as 32 bytes, then the bytes of body)
//
// The link before the very first record is 32 zero bytes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/auth/digest.h"

namespace gateway::ledger {

using plugins::auth::Digest;

// The link of a line with this body, after the line whose link is `previous`.
Digest Link(const Digest& previous, std::string_view body);

// Finishes the line whose body is out[begin, end): appends its link, and returns the link.
Digest FinishLine(std::string* out, size_t begin, const Digest& previous);

// The parts of any line that can be found without parsing it. Views into the line.
struct LineParts {
  uint64_t seq = 0;
  int64_t time_us = 0;
  std::string_view kind;
  std::string_view body;
  Digest link{};
};

// None for bytes that are not a line of this format. `line` has no newline.
std::optional<LineParts> SplitLine(std::string_view line);

// The number or text of a field that the ledger itself writes without escapes, found in a line's body.
std::optional<uint64_t> FindUint(std::string_view body, std::string_view key);
std::optional<std::string_view> FindText(std::string_view body, std::string_view key);

}  // namespace gateway::ledger
