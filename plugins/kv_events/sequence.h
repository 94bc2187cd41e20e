// Sequence: finds gaps in an engine's event stream, and fills them. vLLM numbers its batches from 0 and, if
// it is configured to, keeps the last ones for a second socket that sends them again.
//
//   a missing number    ask for the missing batches; if they are gone, clear and continue with live ones
//   a lower number      the engine was restarted: clear, and ask from its beginning
//   connected again     ask from the last received batch on. If that batch comes first, it is the same engine
//                       and nothing was missed; else clear and ask from 0
//   incomplete answer   clear and continue with live batches
//
// While an answer is pending, live batches are kept up to a bound; beyond it they are a gap again. A live
// batch that an answer contained already is recognized by its fingerprint and skipped.
//
// Sans I/O: events in, calls of the sink out. One thread. The sink may not call back into it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plugins::kv_events {

class Sequence {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void Apply(std::string_view payload) = 0;  // the next batch
    virtual void Clear() = 0;                          // forget everything that was applied
    // Batches from this number on, to OnReplayed and OnReplayEnd; an earlier request is void.
    virtual void AskReplay(uint64_t from) = 0;
  };

  enum class State : uint8_t {
    kDown,       // not connected
    kReplaying,  // an answer is waited for
    kLive,       // everything that was received is applied
  };

  struct Counts {
    uint64_t gaps = 0;
    uint64_t replays = 0;
    uint64_t failed_replays = 0;
    uint64_t clears = 0;
  };

  static constexpr size_t kMaxKept = 1024;
  static constexpr size_t kMaxKeptBytes = size_t{4} << 20;
  static constexpr size_t kPrints = 512;
  static constexpr uint32_t kMaxRounds = 4;  // of replay, without having caught up

  Sequence(Sink& sink, bool can_replay) : sink_(sink), can_replay_(can_replay) {}

  void OnUp();
  void OnDown();
  void OnMessage(uint64_t number, std::string_view payload);
  void OnReplayed(uint64_t number, std::string_view payload);
  void OnReplayEnd();
  void OnReplayFailed();

  State state() const { return state_; }
  const Counts& counts() const { return counts_; }

 private:
  bool IsHad(uint64_t number, std::string_view payload) const;
  void Apply(uint64_t number, std::string_view payload);
  void Clear();
  void Ask(uint64_t from, bool proving);
  void AskForMissed();
  void Keep(uint64_t number, std::string_view payload);
  void GoLive();

  Sink& sink_;
  const bool can_replay_;
  State state_ = State::kDown;
  Counts counts_;
  std::optional<uint64_t> next_;                                   // none: whatever comes first
  std::vector<uint64_t> prints_ = std::vector<uint64_t>(kPrints);  // of the last batches, by number
  uint64_t asked_from_ = 0;
  bool proving_ = false;  // the first answer should be the last batch that was had
  bool answered_ = false;
  uint32_t rounds_ = 0;
  std::deque<std::pair<uint64_t, std::string>> kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace plugins::kv_events
