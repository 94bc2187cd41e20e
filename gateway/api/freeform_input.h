// The text that a model gives to a tool which takes text, read out of the arguments of the function that
// stands for the tool in chat: `{"input":"…"}`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gateway::api {

// Reads arguments piece by piece. Owner: one call. What it appends is UTF-8 when the pieces are.
class FreeformInput {
 public:
  // Appends to `input` what the arguments so far say of it.
  void Feed(std::string_view piece, std::string& input);
  // The arguments are complete. Where they have another form, all of them are the input.
  void Finish(std::string& input);

 private:
  enum class State : uint8_t { kOpening, kText, kEscape, kUnicode, kClosed, kOtherForm };

  void Open(char c);
  void Escape(char c, std::string& input);
  void Unicode(char c, std::string& input);
  void EndSurrogate(std::string& input);

  State state_ = State::kOpening;
  size_t opened_ = 0;     // characters of the opening that were seen
  std::string held_;      // the arguments, while they may have another form
  uint32_t code_ = 0;     // of a \u escape
  int digits_ = 0;        // of it that are to come
  uint32_t leading_ = 0;  // a leading surrogate that waits for its partner
};

}  // namespace gateway::api
