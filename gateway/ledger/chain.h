// The hash chain over the lines of all segments, and how a line carries its link.
//
//   line  = body ',"chain":"' HEX '"}' '\n'
//   HEX   = lower-case hex of SHA-256(previous link as 32 bytes, then the bytes of body)
//
// The link before the very first record is 32 zero bytes. One Hasher per thread; the functions are pure.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::ledger {

using Digest = std::array<uint8_t, 32>;

// SHA-256 through one EVP context that is used again and again. Not shared between threads.
class Hasher {
 public:
  Hasher();
  Digest Hash(std::string_view first, std::string_view second = {});
  Digest Link(const Digest& previous, std::string_view body) {
    return Hash({reinterpret_cast<const char*>(previous.data()), previous.size()}, body);
  }

 private:
  struct Free {
    void operator()(void* context) const;
    void operator()(const void* digest) const;
  };
  std::unique_ptr<void, Free> context_;
  std::unique_ptr<const void, Free> sha256_;
};

// Finishes the line whose body is out[begin, end): appends its link, which it returns.
Digest FinishLine(std::string* out, size_t begin, const Digest& previous, Hasher& hasher);

// The parts of any line that can be found without parsing it. Views into the line.
struct LineParts {
  uint64_t seq = 0;
  int64_t time_us = 0;
  std::string_view kind;
  std::string_view body;
  Digest link{};
};

// Nothing for bytes that are not a line of this format. `line` has no newline.
std::optional<LineParts> SplitLine(std::string_view line);

// The number or text of a field that the ledger itself writes without escapes, found in a line's body.
std::optional<uint64_t> FindUint(std::string_view body, std::string_view key);
std::optional<std::string_view> FindText(std::string_view body, std::string_view key);

}  // namespace gateway::ledger
