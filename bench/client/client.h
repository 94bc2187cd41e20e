// Client: calls to one server that speaks OpenAI's API, each on a keep-alive connection of its own, as many
// at a time as are asked for. Owner: the program; outlives its calls. Thread: the loop's.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/client/answer.h"
#include "gateway/net/http/pool.h"
#include "gateway/net/loop.h"
#include "gateway/net/url.h"

namespace bench {

struct Target {
  gateway::net::Url url;  // of the endpoint, such as http://127.0.0.1:8080/v1/chat/completions
  std::vector<std::pair<std::string, std::string>> headers;
};

// The endpoint under a base address such as http://127.0.0.1:8080/v1, with a bearer key unless it is empty.
absl::StatusOr<Target> MakeTarget(std::string_view base, std::string_view endpoint, std::string_view key);

// The key that "env:NAME" or "file:PATH" names: other users could read a key on the command line.
absl::StatusOr<std::string> ReadKey(const std::string& reference);

class Client {
 public:
  Client(gateway::net::Loop& loop, Target target, conf::Duration timeout);

  // Sends `body` now, with `id` as x-request-id unless it is empty. Never throws; what went wrong is in the
  // answer.
  gateway::net::Task<Answer> Call(std::string body, std::string id = {});

  size_t running() const { return running_; }

 private:
  gateway::net::Task<std::unique_ptr<gateway::net::http::ClientConnection>> Connect(conf::TimePoint deadline);
  // False: the connection, kept alive from before, turned out to be gone; nothing has been answered.
  gateway::net::Task<bool> Exchange(gateway::net::http::ClientConnection& connection, std::string_view id,
                                    std::string_view body, conf::TimePoint sent, Answer& answer);

  gateway::net::Loop& loop_;
  conf::Duration timeout_;
  std::string head_;  // up to the value of content-length
  gateway::net::http::Pool pool_;
  size_t running_ = 0;
};

}  // namespace bench
