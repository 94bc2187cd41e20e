// What the operator's say makes of one request: whose replicas serve it (a canary's, by header or share),
// which one (its session's), whether its choice is kept for the routing log, and whether a copy of it goes
// elsewhere. A request to a model without any of this pays for a few comparisons.
//
// Part of an Exchange, on its shard.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "conf/time.h"
#include "router/pick.h"

namespace gateway {

struct Exchange;

namespace routing {

class Shadow;

class Traffic {
 public:
  Traffic();
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  // Before the first pick.
  void Steer(Exchange& x, router::PickFacts& facts, conf::TimePoint now);
  // A try goes to x.replica.
  void Sent(const Exchange& x, conf::TimePoint now) const;
  // What goes to the client.
  void Answer(std::string_view piece);
  // It is over, and nothing will be picked for it any more.
  void Ended(const Exchange& x);

 private:
  uint64_t session_ = 0;  // 0: it belongs to none, or nobody asks
  std::unique_ptr<router::PickLog> log_;
  std::shared_ptr<Shadow> shadow_;
};

}  // namespace routing
}  // namespace gateway
