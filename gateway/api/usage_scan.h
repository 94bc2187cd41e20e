// UsageScan: what an answer says of its tokens and of its end, read while its bytes pass.
//
// One pass over pieces of any size, wherever the members stand; no allocation. Only members of the document
// itself count (or of the `response` or `message` that an event wraps, of `x_groq`, or of a choice), never those of a tool's input or of
// log probabilities: the scan follows strings and brackets. It takes well-formed JSON for granted, and a
// broken document costs no more than its bytes. Blocks of 64 bytes that cannot hold such a member are only
// counted through. Owner: whoever reads the answer; not shared between threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/api/usage_counts.h"

namespace gateway::api {

class UsageScan {
 public:
  // `hide_cached`: Pass() overwrites what tells how many tokens came from a cache, with a zero of the same
  // length. Of an object that counts the cached tokens beside the others (Messages), the whole prompt becomes
  // input_tokens, so that sums hold; where the object comes in several pieces, zero.
  explicit UsageScan(bool hide_cached = false) : hide_cached_(hide_cached) {}

  // The next bytes.
  void Feed(std::string_view piece) { Scan(piece.data(), piece.size(), nullptr); }
  void Pass(char* data, size_t n) { Scan(data, n, hide_cached_ ? data : nullptr); }

  // The last usage that was whole; nothing before the first.
  const std::optional<Usage>& usage() const { return usage_; }
  Finish finish() const { return finish_; }
  bool whole() const { return ended_; }  // the document has come to its end

 private:
  static constexpr size_t kMaxKey = 32;
  static constexpr uint32_t kKnownDepth = 3;  // that of a choice's finish_reason and usage

  enum class Wanted : uint8_t { kNothing, kUsage, kTimings, kFinishReason, kStopReason };

  void Scan(const char* data, size_t n, char* writable);
  void Byte(char c, char* place);
  void InString(char c);
  void Open(bool object);
  void Close();
  void Colon();
  void EndString();
  void Capture(char c, char* place);
  void EndCapture(char* end);
  bool Hides() const;
  void HideBegun(char* begin);
  std::string_view key() const { return {key_.data(), key_size_}; }

  const bool hide_cached_;
  uint32_t depth_ = 0;
  uint32_t known_depth_ = 1;  // deeper than this nothing is wanted
  bool in_string_ = false;
  bool escaped_ = false;  // the next byte
  bool ended_ = false;    // the document
  bool wrapper_ = false;  // within the object that an event wraps
  bool keeps_text_ = false;
  bool at_key_ = false;
  std::array<bool, kKnownDepth + 1> object_{};  // by depth: braces, not brackets
  Wanted wanted_ = Wanted::kNothing;            // of the value that comes
  std::array<char, kMaxKey> key_;               // the last key, or the text of a wanted value
  size_t key_size_ = 0;

  bool capturing_ = false;
  uint32_t capture_depth_ = 0;  // below the object
  size_t captured_ = 0;
  size_t captured_now_ = 0;  // of this piece
  bool beside_ = false;      // the object counts cached tokens beside the others
  bool hides_number_ = false;
  bool hid_digit_ = false;
  std::array<char, 4096> object_text_;

  std::optional<Usage> usage_;
  bool of_document_ = false;  // usage_ is not that of a choice
  Finish finish_ = Finish::kNone;
};

}  // namespace gateway::api
