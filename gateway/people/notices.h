// Notices: what people are told of by the configured webhook: requests, grants, used budgets. One POST each, as JSON:
//
//   x-tidegate-event: request.make
//   idempotency-key: …                         the same when a notice is sent again
//   x-tidegate-timestamp: 1767225600           Unix seconds, and
//   x-tidegate-signature: v1=HEX               HMAC-SHA256 of `TIMESTAMP.BODY`, when a secret is configured
//
// A notice is tried kAttempts times, over about half a minute, and then given up; at most kMaxWaiting wait, and
// further ones are dropped. The log says so. The ledger has the same facts. Redirects are not followed.
//
// Owner: the process. Thread: the loop's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "gateway/config/people.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/people/grants.h"

namespace gateway {

class Notices {
 public:
  static constexpr size_t kMaxWaiting = 256;
  static constexpr int kAttempts = 5;

  // `webhook` is asked for each notice; nothing: nobody is told.
  Notices(net::Loop& loop, std::function<std::optional<config::Webhook>()> webhook);

  void Add(const Grants::Notice& notice);
  // `body`: the members of a JSON object, to which the event and the time are added.
  void Add(std::string_view event, std::string body);
  void Stop();

  uint64_t dropped() const { return dropped_; }

 private:
  struct Waiting {
    std::string event;
    std::string id;
    std::string body;
  };

  net::Task<void> Send();
  net::Task<absl::Status> Post(const Waiting& notice, const config::Webhook& webhook);

  net::Loop& loop_;
  const std::function<std::optional<config::Webhook>()> webhook_;
  net::Sleep pause_;
  net::AbortGroup posts_;
  std::deque<Waiting> waiting_;
  uint64_t dropped_ = 0;
  bool sending_ = false;
  bool stopped_ = false;
};

}  // namespace gateway
