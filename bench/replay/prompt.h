// Prompts of an exact number of tokens, which share prefixes as the trace says. The same block id gives the
// same text, and a block cut short is the begin of the whole one.
//
// A token is a space and five letters, which is one token for tidegate-engine's tokenizer; other tokenizers
// will count more. A chat's template adds kTemplateTokens, which are taken off the last block.
#pragma once

#include <cstdint>
#include <string>

#include "bench/replay/traffic_file.h"

namespace bench {

inline constexpr uint32_t kTemplateTokens = 3;

class Prompts {
 public:
  // `scale` shortens (or lengthens) prompts, their blocks and answers alike.
  Prompts(uint64_t seed, double scale) : seed_(seed), scale_(scale) {}

  // The text of the prompt of call number `index`.
  std::string Text(const Call& call, size_t index) const;
  uint32_t OutputTokens(const Call& call) const { return Scaled(call.output); }
  // The tokens that the engine will count, template included.
  uint32_t InputTokens(const Call& call) const;

 private:
  uint32_t Scaled(uint32_t tokens) const;
  void AppendBlock(uint64_t id, uint32_t tokens, std::string& out) const;

  uint64_t seed_;
  double scale_;
};

}  // namespace bench
