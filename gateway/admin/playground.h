// Playground: asks a model for a caller of the admin API, through the same pipeline as any request, and relays
// the answer.
//
// The request goes to a shard on one end of a pair of sockets inside the process (request/on_behalf.h). The
// stream passes event by event; behind its end comes the event `summary`, as the ledger has the request. The
// request ends when the client leaves, and when the caller's session or key ends.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "gateway/admin/answer.h"
#include "gateway/net/fd.h"
#include "gateway/net/loop.h"
#include "gateway/request/on_behalf.h"

namespace gateway::admin {

inline constexpr std::string_view kPlaygroundPath = "/admin/v1/playground";
inline constexpr size_t kMaxPlaygroundBody = 4u << 20;  // images take room

// The body of the call: the tenant, if it is named, and the text of the request as it stands there.
struct PlaygroundBody {
  std::string tenant = {};
  std::string request = {};
};
std::variant<PlaygroundBody, std::vector<FieldProblem>> ReadPlaygroundBody(std::string_view text);

class Playground {
 public:
  static constexpr size_t kMost = 64;         // that run at once
  static constexpr size_t kMostOfCaller = 8;  // ... for one caller

  // Has a shard serve the request that comes on this end.
  using Serve = std::function<void(net::Fd, OnBehalf)>;
  Playground(net::Loop& loop, Serve serve) : loop_(loop), serve_(std::move(serve)) {}

  struct Question {
    std::string tenant;  // a path, which the caller may use
    std::string actor;
    std::string address;
    std::string request;  // the body for the chat API
    std::string call_id;  // of the admin call: what the ledger has as the client's id
    std::function<void(std::function<void()>)> on_gone;  // of the client
    std::function<bool()> may_go_on;  // asked once a second: whether the caller's session or key still works
  };
  net::Task<Answer> Ask(Question question);

 private:
  class Relay;
  class Place;

  net::Loop& loop_;
  const Serve serve_;
  size_t running_ = 0;
  absl::flat_hash_map<std::string, size_t> running_of_;  // by actor
};

}  // namespace gateway::admin
