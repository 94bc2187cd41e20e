#include "tools/engine/job.h"

#include <fmt/format.h>

#include <iterator>

namespace tidegate_engine {

bool Job::HasUnsent() const {
  for (const Choice& choice : choices) {
    if (choice.sent < choice.generated) return true;
  }
  return false;
}

Usage Job::SentUsage() const {
  Usage usage;
  const Prompt* last = nullptr;
  for (const Choice& choice : choices) {
    usage.completion += choice.sent;
    if (choice.prompt == last) continue;  // further choices of the same prompt
    last = choice.prompt;
    usage.prompt += choice.prompt->tokens();
    usage.cached += choice.cached_tokens;
  }
  return usage;
}

void AppendUsage(const Usage& usage, std::string& out) {
  fmt::format_to(std::back_inserter(out),
                 R"("usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},)"
                 R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                 usage.prompt, usage.prompt + usage.completion, usage.completion, usage.cached);
}

}  // namespace tidegate_engine
