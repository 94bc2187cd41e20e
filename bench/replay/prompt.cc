#include "bench/replay/prompt.h"

#include <algorithm>
#include <cmath>

#include "scheduler/rng.h"

namespace bench {
namespace {

constexpr size_t kLetters = 5;
constexpr uint64_t kPrivate = uint64_t{1} << 63;  // ids of blocks that no trace has

}  // namespace

uint32_t Prompts::Scaled(uint32_t tokens) const {
  return static_cast<uint32_t>(std::max(1L, std::lround(tokens * scale_)));
}

uint32_t Prompts::InputTokens(const Call& call) const {
  if (call.blocks.empty()) return std::max(Scaled(call.input), kTemplateTokens + 1);
  // Whole blocks are scaled alike, so that what two prompts share stays shared.
  const uint32_t block = Scaled(router::sim::kTrafficBlockTokens);
  const auto before_last = static_cast<uint32_t>(call.blocks.size() - 1);
  const uint32_t last = Scaled(call.input - before_last * router::sim::kTrafficBlockTokens);
  return before_last * block + std::max(last, kTemplateTokens + 1);
}

std::string Prompts::Text(const Call& call, size_t index) const {
  uint32_t left = InputTokens(call) - kTemplateTokens;
  std::string text;
  text.reserve(left * (kLetters + 1));
  if (call.blocks.empty()) AppendBlock(kPrivate | index, left, text);
  for (size_t i = 0; i < call.blocks.size(); ++i) {
    const bool last = i + 1 == call.blocks.size();
    const uint32_t tokens = last ? left : Scaled(router::sim::kTrafficBlockTokens);
    AppendBlock(call.blocks[i], tokens, text);
    left -= tokens;
  }
  return text;
}

void Prompts::AppendBlock(uint64_t id, uint32_t tokens, std::string& out) const {
  scheduler::Rng rng(seed_ ^ id * 0x9e3779b97f4a7c15);
  for (uint32_t i = 0; i < tokens; ++i) {
    out += ' ';
    uint64_t bits = rng.Next();
    for (size_t k = 0; k < kLetters; ++k, bits /= 26) out += static_cast<char>('a' + bits % 26);
  }
}

}  // namespace bench
