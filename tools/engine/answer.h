// The answer of the engine to a prompt: text and tool calls, cut into tokens, all decided before the first
// token is due.
//
// Deterministic: the same prompt, seed and choice give the same answer. A tool is called when tool_choice
// demands it, or, with tool_choice "auto", when the user's last message contains a word of the tool's name. A
// schema is answered by an instance of it. Every other answer is prose of 16 to 200 tokens, unless an option
// or the request sets its length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/engine/request.h"

namespace tidegate_engine {

enum class Finish : uint8_t { kStop, kLength, kToolCalls };

struct Call {
  std::string id;  // call_…
  std::string name;
  uint32_t begin = 0;  // of its arguments in Answer::text
  uint32_t end = 0;
};

struct Answer {
  std::string text;            // content, then the arguments of every call
  uint32_t content = 0;        // bytes of content
  std::vector<uint32_t> ends;  // of each token in text; a token inside a stop string is empty
  std::vector<Call> calls;
  Finish finish = Finish::kStop;
  std::string stopped_by;  // the stop string that ended it, if any

  uint32_t tokens() const { return static_cast<uint32_t>(ends.size()); }
  std::string_view Token(uint32_t i) const {
    uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(text).substr(begin, ends[i] - begin);
  }
  std::string_view Content() const { return std::string_view(text).substr(0, content); }
  std::string_view Arguments(const Call& call) const {
    return std::string_view(text).substr(call.begin, call.end - call.begin);
  }
  // The call that token i belongs to; -1: content.
  int CallOf(uint32_t i) const;
};

struct AnswerOptions {
  uint64_t seed = 0;
  uint32_t fixed_tokens = 0;  // 0: drawn
  uint32_t context_left = 0;  // tokens that fit after the prompt
};

Answer MakeAnswer(const Generation& request, const Prompt& prompt, uint32_t choice,
                  const AnswerOptions& options);

}  // namespace tidegate_engine
