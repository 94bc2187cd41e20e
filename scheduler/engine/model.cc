#include "scheduler/engine/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace scheduler::engine {
namespace {

uint32_t BlocksFor(uint32_t tokens, uint32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

Duration ToDuration(Nanos nanos) {
  return Duration(std::llround(nanos.count()));
}

// The sum of `count` iterations: the first takes `first`, and each next one `growth` more.
Nanos Sum(Nanos first, Nanos growth, uint32_t count) {
  double n = count;
  return first * n + growth * (n * (n - 1) / 2);
}

}  // namespace

Profile SpeedUp(Profile profile, double factor) {
  profile.step_base /= factor;
  profile.step_per_sequence /= factor;
  profile.per_prefill_token /= factor;
  profile.per_context_token /= factor;
  profile.lora_load /= factor;
  profile.load_time = ToDuration(Nanos(profile.load_time) / factor);
  profile.move_time = ToDuration(Nanos(profile.move_time) / factor);
  profile.reload_time = ToDuration(Nanos(profile.reload_time) / factor);
  return profile;
}

void BlockHasher::Add(uint64_t token) {
  hash_ = (hash_ ^ token) * 0x9e3779b97f4a7c15u;
  hash_ ^= hash_ >> 32;
  if (++filled_ < block_size_) return;
  filled_ = 0;
  hash_ = hash_ * 0xd6e8feb86659fd93u + blocks_.size() + 1;
  blocks_.push_back(hash_);
}

Model::Model(Profile profile, TimePoint start)
    : profile_(std::move(profile)),
      kv_(profile_.kv_blocks, profile_.prefix_caching),
      adapters_(profile_.max_loras),
      ready_at_(start + profile_.load_time),
      wake_(ready_at_) {}

void Model::DropPrefixes() {
  KvBlocks all;
  if (sequences_.empty() && kv_.Reserve(kv_.capacity(), all)) kv_.Release(all);
}

Admission Model::Submit(Request request, TimePoint now) {
  uint64_t length = uint64_t{request.prompt_tokens} + request.output_tokens;
  uint64_t limit =
      std::min<uint64_t>(profile_.max_model_len, uint64_t{profile_.kv_blocks} * profile_.block_size);
  Admission admission = Admission::kAccepted;
  if (length > limit || request.prompt_tokens == 0) {
    admission = Admission::kTooLong;
  } else if (sequences_.contains(request.id)) {
    admission = Admission::kDuplicate;
  } else if (profile_.max_waiting > 0 && waiting_.size() >= profile_.max_waiting) {
    admission = Admission::kQueueFull;
  }
  if (admission != Admission::kAccepted) {
    ++counters_.rejected;
    return admission;
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  if (!flight_.active && sequences_.empty()) wake_ = std::max(ready_at_, now);
  if (flight_.active && running_.size() < profile_.max_running) CutShort(now);
  waiting_.push_back(sequence.get());
  sequences_.emplace(sequence->request.id, std::move(sequence));
  return Admission::kAccepted;
}

Phase Model::Cancel(uint64_t id, TimePoint now) {
  auto found = sequences_.find(id);
  if (found == sequences_.end()) return Phase::kUnknown;
  Sequence* sequence = found->second.get();
  if (flight_.active) CutShort(now);
  Phase phase = Phase::kWaiting;
  if (auto it = std::find(running_.begin(), running_.end(), sequence); it != running_.end()) {
    running_.erase(it);
    StopUsing(*sequence);
    // The running step computes the token of a request even after the request has left.
    uint32_t iterations = sequence->scheduled == sequence->Uncomputed() && sequence->request.output_tokens > 0
                              ? flight_.fused
                              : 0;
    phase = sequence->generated > 0 ? Phase::kDecode : Phase::kPrefill;
    counters_.generated_tokens += iterations;
    counters_.cancelled_tokens += iterations;
  } else {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), sequence));
  }
  ++(phase == Phase::kWaiting   ? counters_.cancelled_waiting
     : phase == Phase::kPrefill ? counters_.cancelled_prefill
                                : counters_.cancelled_decode);
  counters_.cancelled_tokens += sequence->generated;
  kv_.Release(sequence->holding);
  sequences_.erase(found);
  return phase;
}

TimePoint Model::NextStep() const {
  if (flight_.active) return flight_.end;
  return sequences_.empty() ? TimePoint::max() : wake_;
}

void Model::Step(TimePoint now, std::vector<Event>& events) {
  if (now < NextStep()) return;
  if (flight_.active) Complete(events);
  if (now >= ready_at_ && !sequences_.empty()) Begin(now);
}

void Model::Begin(TimePoint now) {
  for (Sequence* sequence : running_) sequence->scheduled = 0;
  adapter_loads_ = 0;
  bool preempted = false;
  uint32_t budget = ScheduleRunning(profile_.max_batched_tokens, preempted);
  // A request that was just preempted would be admitted only to be preempted again.
  if (!preempted) budget = ScheduleWaiting(budget);

  uint32_t decoding = 0;
  uint64_t prefill = 0;
  uint64_t context = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->scheduled == 0) continue;
    if (sequence->Decoding()) {
      ++decoding;
      context += sequence->Tokens();
    } else {
      prefill += sequence->scheduled;
    }
  }
  flight_ = Flight{.active = true, .start = now};
  flight_.first = profile_.step_base + profile_.step_per_sequence * decoding +
                  profile_.per_prefill_token * static_cast<double>(prefill) +
                  profile_.per_context_token * static_cast<double>(context) +
                  profile_.lora_load * adapter_loads_;
  flight_.growth = profile_.per_context_token * decoding;
  if (profile_.max_fused_steps > 1 && !preempted && budget > 0 && prefill == 0 && adapter_loads_ == 0) {
    uint32_t fused = Fusable();
    for (Sequence* sequence : running_) {
      if (!ReserveFor(*sequence, sequence->computed + fused)) fused = 1;
    }
    flight_.fused = fused;
  }
  flight_.end = now + ToDuration(Sum(flight_.first, flight_.growth, flight_.fused));
}

// Returns the rest of the budget.
uint32_t Model::ScheduleRunning(uint32_t budget, bool& preempted) {
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence* sequence = running_[i];
    uint32_t tokens = std::min(sequence->Uncomputed(), budget);
    while (!ReserveFor(*sequence, sequence->computed + tokens)) {
      preempted = true;
      PreemptYoungest();
      if (i >= running_.size()) return budget;  // it was the youngest itself
    }
    sequence->scheduled = tokens;
    budget -= tokens;
  }
  return budget;
}

uint32_t Model::ScheduleWaiting(uint32_t budget) {
  auto next = waiting_.begin();
  while (next != waiting_.end() && budget > 0 && running_.size() < profile_.max_running) {
    Sequence* sequence = *next;
    const uint32_t adapter = sequence->request.adapter;
    if (adapter != 0 && !adapters_.HasSlotFor(adapter)) {
      ++next;
      continue;
    }
    if (!AdmitToKv(*sequence, budget)) break;
    if (adapter != 0 && adapters_.Acquire(adapter)) ++adapter_loads_;
    budget -= sequence->scheduled;
    next = waiting_.erase(next);
    running_.push_back(sequence);
  }
  return budget;
}

bool Model::AdmitToKv(Sequence& sequence, uint32_t budget) {
  // At least one token must be computed before one can be sampled.
  std::span<const uint64_t> candidates = sequence.request.blocks;
  candidates =
      candidates.first(std::min<size_t>(candidates.size(), (sequence.Tokens() - 1) / profile_.block_size));
  size_t hits = profile_.prefix_caching ? kv_.Match(candidates) : 0;
  auto cached = static_cast<uint32_t>(hits) * profile_.block_size;
  const uint32_t there = std::max(cached, std::min(sequence.request.given_tokens, sequence.Tokens() - 1));
  uint32_t tokens = std::min(sequence.Tokens() - there, budget);
  uint32_t plain = BlocksFor(there + tokens, profile_.block_size) - static_cast<uint32_t>(hits);
  if (!kv_.Admit(candidates.first(hits), plain, sequence.holding)) return false;
  if (!std::exchange(sequence.looked_up, true) && profile_.prefix_caching) {
    sequence.cached_tokens = there;
    counters_.prefix_queries += sequence.request.prompt_tokens;
    counters_.prefix_hits += cached;
  }
  sequence.computed = there;
  sequence.scheduled = tokens;
  return true;
}

void Model::StopUsing(const Sequence& sequence) {
  if (sequence.request.adapter != 0) adapters_.Release(sequence.request.adapter);
}

std::vector<uint32_t> Model::WaitingAdapters() const {
  std::vector<uint32_t> all;
  for (const Sequence* sequence : waiting_) {
    const uint32_t adapter = sequence->request.adapter;
    if (adapter != 0 && std::ranges::find(all, adapter) == all.end()) all.push_back(adapter);
  }
  return all;
}

void Model::PreemptYoungest() {
  Sequence* victim = running_.back();
  running_.pop_back();
  StopUsing(*victim);
  kv_.Release(victim->holding);
  victim->computed = 0;
  victim->request.given_tokens = 0;  // lost with its blocks
  victim->scheduled = 0;
  waiting_.push_front(victim);
  ++counters_.preemptions;
}

// How many iterations can be taken at once: no request finishes before the last one, and the free blocks
// suffice for all.
uint32_t Model::Fusable() const {
  uint32_t fused = profile_.max_fused_steps;
  for (const Sequence* sequence : running_) {
    fused = std::min(fused, sequence->request.output_tokens - sequence->generated);
  }
  uint64_t needed = 0;
  for (const Sequence* sequence : running_) {
    uint32_t blocks = BlocksFor(sequence->computed + fused, profile_.block_size);
    needed += blocks - std::min(blocks, sequence->holding.Blocks());
  }
  return needed > kv_.available() ? 1 : fused;
}

void Model::Complete(std::vector<Event>& events) {
  flight_.active = false;
  ++counters_.steps;
  size_t kept = 0;
  for (Sequence* sequence : running_) {
    if (sequence->scheduled == 0) {
      running_[kept++] = sequence;
      continue;
    }
    uint32_t fresh = sequence->scheduled == sequence->Uncomputed() ? flight_.fused : 0;
    sequence->computed += std::max(sequence->scheduled, fresh);
    sequence->scheduled = 0;
    bool prefilled = fresh > 0;
    if (sequence->request.output_tokens == 0) fresh = 0;
    bool first = fresh > 0 && sequence->generated == 0;
    sequence->generated += fresh;
    counters_.generated_tokens += fresh;
    bool finished = prefilled && sequence->generated >= sequence->request.output_tokens;
    if (first || (finished && sequence->generated == 0)) {
      counters_.prompt_tokens += sequence->request.prompt_tokens;
    }
    kv_.Publish(FullBlocks(*sequence), sequence->holding);
    if (fresh > 0 || finished) {
      events.push_back({.id = sequence->request.id,
                        .tokens = fresh,
                        .generated = sequence->generated,
                        .cached_tokens = sequence->cached_tokens,
                        .first = first,
                        .finished = finished});
    }
    if (!finished) {
      running_[kept++] = sequence;
      continue;
    }
    ++counters_.finished;
    StopUsing(*sequence);
    kv_.Release(sequence->holding);
    sequences_.erase(sequence->request.id);
  }
  running_.resize(kept);
  wake_ = flight_.end;
}

// A request that comes or leaves ends a run of fused iterations with the current one.
void Model::CutShort(TimePoint now) {
  if (flight_.fused == 1) return;
  flight_.fused = std::min(flight_.fused, IterationsBy(now));
  flight_.end = flight_.start + ToDuration(Sum(flight_.first, flight_.growth, flight_.fused));
}

uint32_t Model::IterationsBy(TimePoint now) const {
  uint32_t n = 1;
  while (n < flight_.fused && flight_.start + ToDuration(Sum(flight_.first, flight_.growth, n)) < now) ++n;
  return n;
}

bool Model::ReserveFor(Sequence& sequence, uint32_t tokens) {
  uint32_t blocks = BlocksFor(tokens, profile_.block_size);
  uint32_t held = sequence.holding.Blocks();
  return blocks <= held || kv_.Reserve(blocks - held, sequence.holding);
}

std::span<const uint64_t> Model::FullBlocks(const Sequence& sequence) const {
  std::span<const uint64_t> blocks = sequence.request.blocks;
  return blocks.first(std::min<size_t>(blocks.size(), sequence.computed / profile_.block_size));
}

}  // namespace scheduler::engine
