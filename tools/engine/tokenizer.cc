#include "tools/engine/tokenizer.h"

#include <algorithm>

namespace tidegate_engine {
namespace {

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Bytes of the character that begins with `lead`; a stray continuation byte counts as one.
size_t CharacterLength(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

size_t TokenLength(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    char c = text[length];
    if (length > 0 && (c == '\0' || (IsSpace(c) && !IsSpace(text[length - 1])))) break;
    size_t next = std::min(length + CharacterLength(c), text.size());
    if (next > kMaxTokenBytes) break;
    length = next;
    if (c == '\0') break;
  }
  return length;
}

uint64_t TokenId(std::string_view token) {
  uint64_t id = 0;
  for (size_t i = token.size(); i-- > 0;) id = id << 8 | static_cast<unsigned char>(token[i]);
  return id;
}

std::string TokenText(uint64_t id) {
  if (id == 0) return std::string(1, '\0');
  switch (Mark{id}) {
    case Mark::kSystem:
      return "<|system|>";
    case Mark::kUser:
      return "<|user|>";
    case Mark::kAssistant:
      return "<|assistant|>";
    case Mark::kTool:
      return "<|tool|>";
    case Mark::kEnd:
      return "<|end|>";
    case Mark::kImage:
      return "<|image|>";
  }
  if (id >> 48 != 0) return {};
  std::string text;
  for (; id != 0; id >>= 8) text.push_back(static_cast<char>(id & 0xFF));
  return text;
}

size_t CountTokens(std::string_view text) {
  size_t count = 0;
  ForEachToken(text, [&count](std::string_view) { ++count; });
  return count;
}

}  // namespace tidegate_engine
