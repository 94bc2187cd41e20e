// Client: the requests to slurmrestd, over HTTP with a token or over its Unix socket.
//
// Thread: the loop's. Errors are those of ErrorOf(), and Unavailable where slurmrestd cannot be reached or does not
// answer in time: a submission with that error may still have been made. Slurm answers in the same way to an expired
// token and while its controller is away, so after such an answer the token is read again for the next request.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/net/abort_group.h"
#include "gateway/net/http/fetch.h"
#include "gateway/net/loop.h"
#include "plugins/launchers/slurm/answers.h"
#include "plugins/launchers/slurm/submission.h"

namespace plugins::launchers::slurm {

class Client {
 public:
  struct Options {
    gateway::net::Url url{};  // its path, if any, stands before /slurm/v0.0.38
    std::string socket{};     // path of a Unix socket that leads there
    std::string user{};       // the user of submitted jobs
    // May block; called on a thread of its own. Absent: slurmrestd knows this user by the socket.
    std::function<absl::StatusOr<std::string>()> token{};
    std::shared_ptr<const gateway::net::TlsContext> tls{};
    std::string server_name{};
    conf::Duration timeout = std::chrono::seconds(15);  // Slurm's own patience with slurmctld is 10 s
    size_t max_answer = 128U << 20;
  };

  Client(gateway::net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // All jobs; absent where none has changed since that time, by Slurm's clock (0: always all).
  gateway::net::Task<absl::StatusOr<std::optional<JobList>>> Jobs(int64_t since);
  gateway::net::Task<absl::StatusOr<std::vector<Node>>> Nodes();
  gateway::net::Task<absl::StatusOr<uint32_t>> Submit(std::string body);
  // SIGKILL cancels the job: its processes get SIGTERM, and SIGKILL after the cluster's KillWait.
  gateway::net::Task<absl::Status> Signal(uint32_t job, int signal);

  // Requests under way end with Cancelled, and so do all later ones.
  void Abort() { requests_.Abort(); }

  const Options& options() const { return options_; }

 private:
  using Answer = absl::StatusOr<gateway::net::http::FetchResponse>;
  gateway::net::Task<Answer> Ask(std::string method, std::string path, std::string query, std::string body);
  gateway::net::Task<absl::Status> ReadToken();

  gateway::net::Loop& loop_;
  const Options options_;
  gateway::net::AbortGroup requests_;
  std::string token_;
  bool token_is_stale_ = true;
};

}  // namespace plugins::launchers::slurm
