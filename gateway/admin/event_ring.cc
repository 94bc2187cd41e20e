#include "gateway/admin/event_ring.h"

#include <fmt/format.h>

#include <utility>

#include "conf/text.h"

namespace gateway::admin {

void EventRing::Add(FeedEvent event) {
  events_.push_back(std::move(event));
  if (events_.size() <= most_) return;
  events_.pop_front();
  ++dropped_;
}

std::string EventRing::IdOf(uint64_t number) const {
  return fmt::format("{}-{}", process_, number);
}

std::optional<uint64_t> EventRing::PositionOf(std::string_view id) const {
  const size_t dash = id.rfind('-');
  if (dash == std::string_view::npos || id.substr(0, dash) != process_) return std::nullopt;
  const std::optional<uint64_t> number = conf::ReadNumber<uint64_t>(id.substr(dash + 1));
  if (!number || !HasAllAfter(*number)) return std::nullopt;
  return number;
}

}  // namespace gateway::admin
