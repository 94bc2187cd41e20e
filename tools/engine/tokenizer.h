// A deterministic tokenizer with about four characters a token. Every count of the engine is in its tokens.
//
// A token is up to six bytes of whole UTF-8 characters; white space after any other character begins a new
// one, so an English word of up to five letters with the space before it is one token. Ids are the bytes
// themselves, little-endian in 48 bits, so they can be reversed without a vocabulary; a NUL byte is a token
// of its own with id 0. Ids from 2^48 on are the marks of the chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidegate_engine {

inline constexpr size_t kMaxTokenBytes = 6;

enum class Mark : uint64_t { kSystem = uint64_t{1} << 48, kUser, kAssistant, kTool, kEnd, kImage };

// The bytes of the token at the head of `text`, which must not be empty.
size_t TokenLength(std::string_view text);

uint64_t TokenId(std::string_view token);
// Empty for an id that has no text.
std::string TokenText(uint64_t id);

template <class F>
void ForEachToken(std::string_view text, F&& f) {
  while (!text.empty()) {
    size_t length = TokenLength(text);
    f(text.substr(0, length));
    text.remove_prefix(length);
  }
}

size_t CountTokens(std::string_view text);

}  // namespace tidegate_engine
