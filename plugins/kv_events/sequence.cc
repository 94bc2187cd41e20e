#include "plugins/kv_events/sequence.h"

#include <xxhash.h>

namespace plugins::kv_events {
namespace {

uint64_t Print(std::string_view payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

}  // namespace

void Sequence::OnUp() {
  if (state_ != State::kDown) return;
  rounds_ = 0;
  if (!can_replay_) {
    Clear();
    state_ = State::kLive;
    return;
  }
  AskForMissed();
}

void Sequence::OnDown() {
  state_ = State::kDown;
  kept_.clear();
  kept_bytes_ = 0;
}

void Sequence::OnMessage(uint64_t number, std::string_view payload) {
  if (state_ == State::kDown) return;
  if (state_ == State::kReplaying) return Keep(number, payload);
  if (!next_ || number == *next_) return Apply(number, payload);
  if (IsHad(number, payload)) return;
  const bool back = number < *next_;
  if (!back) ++counts_.gaps;
  if (can_replay_ && rounds_ < kMaxRounds) {
    if (back) Clear();
    Keep(number, payload);
    return AskForMissed();
  }
  Clear();
  Apply(number, payload);
}

void Sequence::OnReplayed(uint64_t number, std::string_view payload) {
  if (state_ != State::kReplaying) return;
  if (!std::exchange(answered_, true) && proving_) {
    if (number == asked_from_ && IsHad(number, payload)) return;
    Clear();
    if (number <= asked_from_) return Ask(0, false);  // others than those that were had
  }
  if (next_ && number < *next_) return;
  if (next_ && number > *next_) {
    ++counts_.gaps;
    Clear();
  }
  Apply(number, payload);
}

void Sequence::OnReplayEnd() {
  if (state_ != State::kReplaying) return;
  if (!answered_ && proving_) {
    Clear();
    return Ask(0, false);
  }
  if (!next_) next_ = 0;
  GoLive();
}

void Sequence::OnReplayFailed() {
  if (state_ != State::kReplaying) return;
  ++counts_.failed_replays;
  Clear();
  rounds_ = kMaxRounds;
  GoLive();
}

bool Sequence::IsHad(uint64_t number, std::string_view payload) const {
  return next_ && number < *next_ && *next_ - number <= kPrints &&
         prints_[number % kPrints] == Print(payload);
}

void Sequence::Apply(uint64_t number, std::string_view payload) {
  next_ = number + 1;
  prints_[number % kPrints] = Print(payload);
  sink_.Apply(payload);
}

void Sequence::Clear() {
  if (next_.value_or(0) > 0) {
    ++counts_.clears;
    sink_.Clear();
  }
  next_.reset();
}

void Sequence::AskForMissed() {
  const bool proving = next_.value_or(0) > 0;
  Ask(proving ? *next_ - 1 : 0, proving);
}

void Sequence::Ask(uint64_t from, bool proving) {
  state_ = State::kReplaying;
  asked_from_ = from;
  proving_ = proving;
  answered_ = false;
  ++rounds_;
  ++counts_.replays;
  sink_.AskReplay(from);
}

void Sequence::Keep(uint64_t number, std::string_view payload) {
  if (kept_.size() >= kMaxKept || kept_bytes_ + payload.size() > kMaxKeptBytes) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  kept_.emplace_back(number, payload);
  kept_bytes_ += payload.size();
}

void Sequence::GoLive() {
  state_ = State::kLive;
  while (!kept_.empty()) {
    const uint64_t number = kept_.front().first;
    if (next_ && number > *next_ && rounds_ < kMaxRounds) {
      ++counts_.gaps;
      return AskForMissed();
    }
    const std::string payload = std::move(kept_.front().second);
    kept_.pop_front();
    kept_bytes_ -= payload.size();
    if (!next_ || number >= *next_) OnMessage(number, payload);  // else it came with the answer
  }
  rounds_ = 0;
}

}  // namespace plugins::kv_events
