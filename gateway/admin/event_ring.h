// EventRing: the last events of the admin API's feed, numbered, so that a follower resumes where it stopped.
// An id names the process, too: after a restart, ids of the earlier process are gone.
//
// Bounded: the oldest events are dropped. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/people/permissions.h"

namespace gateway::admin {

struct FeedEvent {
  // Whose permission counts.
  enum class Audience : uint8_t {
    kTenant,  // over the tenant; empty: over everything
    kModel,   // of those who see the model
    kAll,     // over anything
  };

  std::string type{};  // action, changed
  std::string data{};  // a JSON object on one line
  Permission needs = Permission::kSeeSelf;
  Audience audience = Audience::kAll;
  std::string tenant{};
  std::string model{};
};

class EventRing {
 public:
  EventRing(std::string process, size_t most) : process_(std::move(process)), most_(most) {}

  void Add(FeedEvent event);

  // The number of the last event; 0: there was none.
  uint64_t last() const { return dropped_ + events_.size(); }
  // Whether every event after that one is still here.
  bool HasAllAfter(uint64_t number) const { return number >= dropped_ && number <= last(); }
  // HasAllAfter(number - 1) and number <= last().
  const FeedEvent& At(uint64_t number) const { return events_[number - dropped_ - 1]; }

  std::string IdOf(uint64_t number) const;
  // The number of an id after which all is here; nothing: events are missing, or it is no id of this process.
  std::optional<uint64_t> PositionOf(std::string_view id) const;

 private:
  const std::string process_;
  const size_t most_;
  std::deque<FeedEvent> events_;
  uint64_t dropped_ = 0;
};

}  // namespace gateway::admin
