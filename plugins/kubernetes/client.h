// Client: requests to a Kubernetes API server, over connections that are kept.
//
// The access (token, certificates) is read again every minute and after an answer 401, off the loop. An
// answer 429, and one of 5xx to what may be repeated, is tried again after its Retry-After or with a growing
// pause, as long as the request's time limit allows. Every request here may be repeated: what is created has
// a name, so that a second creation is AlreadyExists.
//
// Errors say what was asked and what Kubernetes said. By its reason: InvalidArgument (400, 422),
// Unauthenticated, PermissionDenied, NotFound, AlreadyExists, Aborted (409: changed by another meanwhile),
// OutOfRange (410: expired), ResourceExhausted (429, still; also an answer that is too large) and Unavailable
// (not reached, no answer in time, 5xx). Cancelled after Abort().
//
// Thread: the loop's. It outlives its requests: Abort(), and wait for them.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/http/pool.h"
#include "gateway/net/loop.h"
#include "plugins/kubernetes/access.h"

namespace plugins::kubernetes {

inline constexpr std::string_view kMergePatch = "application/merge-patch+json";

struct Request {
  std::string method = "GET";
  std::string path{};   // "/api/v1/nodes"
  std::string query{};  // encoded, without '?'
  std::string body{};
  std::string type = "application/json";  // of the body
  conf::Duration timeout = std::chrono::seconds(15);
  size_t max_answer = 64U << 20;
  // Keeps only the last bytes of the answer, at least this many; 0: all.
  size_t keep_end = 0;
};

class Client {
 public:
  // Blocks; it is called on a thread of its own.
  using ReadAccess = std::function<absl::StatusOr<Access>()>;

  Client(gateway::net::Loop& loop, ReadAccess read, uint64_t seed);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The body of an answer 2xx.
  gateway::net::Task<absl::StatusOr<std::string>> Ask(Request request);

  gateway::net::Task<absl::StatusOr<nlohmann::json>> Get(std::string path, std::string query = {});
  gateway::net::Task<absl::StatusOr<nlohmann::json>> Create(std::string path, nlohmann::json object);
  gateway::net::Task<absl::StatusOr<nlohmann::json>> Patch(std::string path, nlohmann::json change,
                                                           std::string_view type = kMergePatch);
  // `options`: DeleteOptions, or null.
  gateway::net::Task<absl::StatusOr<nlohmann::json>> Delete(std::string path, nlohmann::json options);

  // Calls `on_line` for each line of an answer without end, until it ends (OK), is silent for longer than
  // `silence` (DeadlineExceeded), fails, or `on_line` returns false (OK). Not tried again. `on_accepted` is
  // called when the answer has begun with 2xx; after that, Aborted: the connection was closed.
  gateway::net::Task<absl::Status> Follow(std::string path, std::string query, conf::Duration silence,
                                          std::function<void()> on_accepted,
                                          std::function<bool(std::string_view)> on_line);

  // The namespace of the access, as last read; empty before the first request.
  const std::string& name_space() const { return access_.name_space; }
  // Reads the access if it has not been read.
  gateway::net::Task<absl::Status> Prepare();

  // Requests under way end with Cancelled, and so do all later ones.
  void Abort();

 private:
  using Connection = gateway::net::http::ClientConnection;
  struct Answer;

  gateway::net::Task<absl::StatusOr<std::unique_ptr<Connection>>> Connect(
      gateway::net::AbortGroup::Member& member, conf::TimePoint deadline, bool fresh);
  // Writes the request and reads the head of its answer.
  gateway::net::Task<absl::StatusOr<std::unique_ptr<Connection>>> Begin(
      gateway::net::AbortGroup::Member& member, const Request& request, conf::TimePoint deadline);
  gateway::net::Task<absl::StatusOr<Answer>> Once(const Request& request, conf::TimePoint deadline);
  absl::Status Use(absl::StatusOr<Access> access);
  std::string Where() const;

  gateway::net::Loop& loop_;
  const ReadAccess read_;
  gateway::net::AbortGroup requests_;
  Access access_;
  std::unique_ptr<gateway::net::http::Pool> pool_;
  conf::TimePoint read_at_{};
  bool stale_ = true;  // it was refused, or never read
  bool reading_ = false;
  bool aborted_ = false;
  uint64_t seed_;
};

// The error for an answer of that status; `asked` begins its sentence.
absl::Status ErrorOf(int status, std::string_view body, std::string_view asked);

// How long an answer asks to wait; absent where it does not.
std::optional<conf::Duration> RetryAfter(std::string_view header, std::string_view body);

}  // namespace plugins::kubernetes
