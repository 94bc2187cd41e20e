#include "tools/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tidegate_engine {

using scheduler::engine::Admission;
using scheduler::engine::Event;
using scheduler::engine::Phase;

Engine::Engine(scheduler::engine::Profile profile, std::string model_name, conf::TimePoint start, bool log_kv)
    : model_(std::move(profile), start), metrics_(std::move(model_name), start) {
  if (!log_kv || !model_.profile().prefix_caching) return;
  kv_log_ = std::make_unique<KvLog>(model_.profile().block_size);
  model_.RecordKvChangesTo(&kv_log_->changes());
}

std::optional<ApiError> Engine::Start(Job& job, conf::TimePoint now) {
  job.submitted = now;
  job.unfinished = job.choices.size();
  for (size_t i = 0; i < job.choices.size(); ++i) {
    const Choice& choice = job.choices[i];
    uint64_t output = job.request.max_tokens.value_or(choice.answer.tokens());
    Admission admission =
        choice.prompt->tokens() + output > ContextLimit() ? Admission::kTooLong : Submit(job, i, now);
    if (admission == Admission::kAccepted) continue;
    Remove(job, now);
    return Refusal(admission, choice.prompt->tokens(), output);
  }
  return std::nullopt;
}

void Engine::Cancel(Job& job, conf::TimePoint now) {
  if (job.finished()) return;
  job.cancelled = true;
  Phase furthest = Remove(job, now);
  metrics_.Aborted();
  ++(furthest == Phase::kWaiting   ? ended_.waiting
     : furthest == Phase::kPrefill ? ended_.prefill
                                   : ended_.decode);
}

void Engine::Withdraw(Job& job, conf::TimePoint now) {
  if (!job.finished()) Remove(job, now);
}

void Engine::Continue(Job& job, conf::TimePoint now) {
  for (size_t i = 0; i < job.choices.size(); ++i) {
    Choice& choice = job.choices[i];
    if (sequences_.contains(choice.sequence) || choice.sent < choice.generated) continue;
    choice.sent = choice.generated = 0;
    if (Submit(job, i, now) != Admission::kAccepted)
      choice.sequence = 0;  // the next token of another sequence asks again
  }
}

Admission Engine::Submit(Job& job, size_t index, conf::TimePoint now) {
  Choice& choice = job.choices[index];
  choice.sequence = next_sequence_++;
  std::vector<uint64_t> blocks = Blocks(choice);
  // Blocks that an adapter computes have hashes of their own.
  for (uint64_t& block : blocks) block ^= job.adapter * 0x9e3779b97f4a7c15u;
  if (kv_log_) Log(choice, blocks);
  Admission admission = model_.Submit({.id = choice.sequence,
                                       .prompt_tokens = choice.prompt->tokens(),
                                       .output_tokens = choice.answer.tokens(),
                                       .adapter = job.adapter,
                                       .given_tokens = choice.given_tokens,
                                       .blocks = std::move(blocks)},
                                      now);
  if (admission != Admission::kAccepted) Forget(choice.sequence);
  if (admission == Admission::kAccepted) sequences_.emplace(choice.sequence, std::pair(&job, index));
  return admission;
}

// The most advanced phase of the choices.
Phase Engine::Remove(Job& job, conf::TimePoint now) {
  Phase furthest = Phase::kWaiting;
  for (Choice& choice : job.choices) {
    if (choice.generated > 0) furthest = Phase::kDecode;
    if (choice.done || sequences_.erase(choice.sequence) == 0) continue;
    furthest = std::max(furthest, model_.Cancel(choice.sequence, now));
    Forget(choice.sequence);
  }
  job.unfinished = 0;
  return furthest;
}

void Engine::Step(conf::TimePoint now, std::vector<Job*>& advanced) {
  events_.clear();
  model_.Step(now, events_);
  for (const Event& event : events_) {
    auto found = sequences_.find(event.id);
    auto [job, index] = found->second;
    Choice& choice = job->choices[index];
    if (event.first) {
      metrics_.FirstToken(now - job->submitted);
    } else if (event.tokens > 0) {
      metrics_.NextToken(now - choice.last_token);
    }
    choice.last_token = now;
    choice.generated = event.generated;
    choice.cached_tokens = event.cached_tokens;
    if (!std::exchange(job->advanced, true)) advanced.push_back(job);
    if (!event.finished) continue;
    Forget(event.id);
    sequences_.erase(found);
    if (job->endless) continue;
    choice.done = true;
    metrics_.Finished(now - job->submitted, choice.prompt->tokens(), event.generated,
                      choice.answer.finish == Finish::kLength);
    if (--job->unfinished == 0) ++ended_.completed;
  }
}

// The contents of the blocks that the choice may fill.
void Engine::Log(const Choice& choice, const std::vector<uint64_t>& blocks) {
  std::vector<uint64_t> tokens = choice.prompt->ids();
  for (uint32_t i = 0; i < choice.answer.tokens(); ++i) tokens.push_back(TokenId(choice.answer.Token(i)));
  kv_log_->Begin(choice.sequence, blocks, tokens);
}

void Engine::Forget(uint64_t sequence) {
  if (kv_log_) kv_log_->End(sequence);
}

uint64_t Engine::ContextLimit() const {
  const auto& profile = model_.profile();
  return std::min<uint64_t>(profile.max_model_len, uint64_t{profile.kv_blocks} * profile.block_size);
}

ApiError Engine::Refusal(Admission admission, uint64_t prompt, uint64_t output) const {
  ApiError error;
  if (admission == Admission::kQueueFull) {
    error.status = 503;
    error.message = fmt::format("The waiting queue is full ({} requests).", model_.waiting());
  } else {
    error.message = fmt::format(
        "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the "
        "messages, {} in "
        "the completion). Please reduce the length of the messages or completion.",
        ContextLimit(), prompt + output, prompt, output);
  }
  return error;
}

// The hashes of prompt and answer, so that the next turn of the conversation finds both in the prefix cache.
std::vector<uint64_t> Engine::Blocks(const Choice& choice) const {
  if (!model_.profile().prefix_caching) return {};
  if (kv_log_ && choice.prompt->ids().empty())
    return {};  // blocks that the log cannot describe are not cached
  scheduler::engine::BlockHasher hasher = choice.prompt->hasher();
  if (choice.answer.stopped_by.empty()) {
    for (uint32_t i = 0; i < choice.answer.tokens(); ++i) hasher.Add(TokenId(choice.answer.Token(i)));
  }
  return hasher.Take();
}

}  // namespace tidegate_engine
