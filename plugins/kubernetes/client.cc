#include "plugins/kubernetes/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/backoff.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"
#include "gateway/net/off_loop.h"
#include "gateway/net/tls.h"

namespace plugins::kubernetes {
namespace {

using gateway::net::AbortGroup;
using gateway::net::AsBuffer;
using gateway::net::Now;
using gateway::net::Task;
using nlohmann::json;

constexpr conf::Duration kReadAgain = std::chrono::seconds(60);
constexpr conf::Duration kLeastPause = std::chrono::milliseconds(200);
constexpr conf::Duration kMostPause = std::chrono::seconds(5);
constexpr conf::Duration kMostRetryAfter = std::chrono::seconds(30);
constexpr size_t kMaxError = 64U << 10;  // of an error's body that is read
constexpr size_t kMaxLine = 16U << 20;   // an object is at most 1.5 MB in etcd; its JSON may be larger

std::string TextAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Its path in a sentence: "GET /api/v1/nodes".
std::string Asked(const Request& request) {
  return fmt::format("{} {}", request.method, request.path);
}

bool IsCalm(int status) {
  return status >= 200 && status < 300;
}

class Waiting final : public gateway::net::Abortable {
 public:
  explicit Waiting(gateway::net::Watchdog& watchdog) : sleep_(watchdog) {}
  auto For(conf::Duration pause) { return sleep_.For(pause); }
  void Abort() override { sleep_.Cancel(); }

 private:
  gateway::net::Sleep sleep_;
};

absl::Status Cancelled() {
  return absl::CancelledError("the gateway no longer asks Kubernetes");
}

absl::StatusOr<json> Parsed(absl::StatusOr<std::string> body, const std::string& asked) {
  if (!body.ok()) return body.status();
  json value = conf::ParseJson(*body);
  if (value.is_discarded())
    return absl::UnavailableError(fmt::format("{}: the answer of Kubernetes is not JSON", asked));
  return value;
}

}  // namespace

absl::Status ErrorOf(int status, std::string_view body, std::string_view asked) {
  const json said = conf::ParseJson(body);
  std::string reason;
  std::string message;
  if (said.is_object()) {
    reason = TextAt(said, "reason");
    message = TextAt(said, "message");
  }
  constexpr size_t kMostMessage = 2000;
  if (message.size() > kMostMessage) message = message.substr(0, kMostMessage) + "...";
  const std::string text = message.empty()
                               ? fmt::format("{}: Kubernetes answered {} without a reason", asked, status)
                               : fmt::format("{}: Kubernetes answered {}: {}", asked, status, message);
  switch (status) {
    case 400:
    case 422:
      return absl::InvalidArgumentError(text);
    case 401:
      return absl::UnauthenticatedError(text);
    case 403:
      return absl::PermissionDeniedError(text);
    case 404:
      return absl::NotFoundError(text);
    case 409:
      return reason == "AlreadyExists" ? absl::AlreadyExistsError(text) : absl::AbortedError(text);
    case 410:
      return absl::OutOfRangeError(text);
    case 429:
      return absl::ResourceExhaustedError(text);
    default:
      return status >= 400 && status < 500 ? absl::FailedPreconditionError(text)
                                           : absl::UnavailableError(text);
  }
}

std::optional<conf::Duration> RetryAfter(std::string_view header, std::string_view body) {
  std::optional<int64_t> seconds = conf::ReadNumber<int64_t>(header);
  if (!seconds) {
    const json said = conf::ParseJson(body);
    if (said.is_object() && said.contains("details") && said["details"].is_object()) {
      const auto found = said["details"].find("retryAfterSeconds");
      if (found != said["details"].end() && found->is_number_integer()) seconds = found->get<int64_t>();
    }
  }
  if (!seconds || *seconds <= 0) return std::nullopt;
  return std::min<conf::Duration>(std::chrono::seconds(std::min<int64_t>(*seconds, 3600)), kMostRetryAfter);
}

struct Client::Answer {
  int status = 0;
  std::string body{};
  std::optional<conf::Duration> retry_after{};
};

Client::Client(gateway::net::Loop& loop, ReadAccess read, uint64_t seed)
    : loop_(loop), read_(std::move(read)), seed_(seed) {}

Client::~Client() = default;

void Client::Abort() {
  aborted_ = true;
  requests_.Abort();
}

std::string Client::Where() const {
  return fmt::format("Kubernetes' API server at {}", access_.server.Authority());
}

absl::Status Client::Use(absl::StatusOr<Access> access) {
  if (!access.ok()) {
    return absl::UnavailableError(
        fmt::format("access to Kubernetes: {}", conf::Std(access.status().message())));
  }
  const bool same = pool_ != nullptr && access->ca == access_.ca &&
                    access->certificate == access_.certificate &&
                    access->key.Reveal() == access_.key.Reveal() && access->verify == access_.verify &&
                    access->server.host == access_.server.host &&
                    access->server.port == access_.server.port && access->server_name == access_.server_name;
  if (!same) {
    std::shared_ptr<const gateway::net::TlsContext> tls;
    if (access->server.tls) {
      auto made = gateway::net::TlsContext::ClientOfPem({.ca = access->ca,
                                                         .certificate = access->certificate,
                                                         .key = std::string(access->key.Reveal()),
                                                         .verify = access->verify});
      if (!made.ok())
        return absl::UnavailableError(
            fmt::format("access to Kubernetes: {}", conf::Std(made.status().message())));
      tls = *std::move(made);
    }
    pool_ = std::make_unique<gateway::net::http::Pool>(
        loop_,
        gateway::net::Remote{access->server.host, access->server.port, std::move(tls), access->server_name},
        gateway::net::http::Pool::Options{.max_idle = 16, .idle_time = std::chrono::seconds(30)});
  }
  access_ = *std::move(access);
  read_at_ = Now();
  stale_ = false;
  return absl::OkStatus();
}

Task<absl::Status> Client::Prepare() {
  if (aborted_) co_return Cancelled();
  const bool due = stale_ || Now() - read_at_ >= kReadAgain;
  if (!due || (reading_ && pool_ != nullptr)) co_return absl::OkStatus();
  reading_ = true;
  absl::StatusOr<Access> access = co_await gateway::net::OffLoop(loop_, [this] { return read_(); });
  reading_ = false;
  absl::Status used = Use(std::move(access));
  if (!used.ok() && pool_ != nullptr) {
    read_at_ =
        Now();  // the known access may still be valid; a refusal is reported by the request that meets it
    stale_ = false;
    co_return absl::OkStatus();
  }
  co_return used;
}

Task<absl::StatusOr<std::unique_ptr<Client::Connection>>> Client::Connect(AbortGroup::Member& member,
                                                                          conf::TimePoint deadline,
                                                                          bool fresh) {
  if (!fresh) {
    if (std::unique_ptr<Connection> idle = pool_->TakeIdle(Now())) co_return idle;
  }
  const gateway::net::Remote remote = pool_->remote();
  gateway::net::Connector connector(loop_.io);
  gateway::net::ConnectDeadline alarm(loop_.watchdog, connector);
  alarm.Set(deadline);
  if (!member.Begin(connector)) co_return Cancelled();
  gateway::net::ConnectResult connected = co_await connector.Connect(remote);
  alarm.Clear();
  if (member.aborted()) co_return Cancelled();
  if (alarm.passed()) co_return absl::UnavailableError(fmt::format("{}: no connection in time", Where()));
  if (connected.error)
    co_return absl::UnavailableError(fmt::format("{}: {}", Where(), connected.error.message()));
  co_return std::make_unique<Connection>(loop_, std::move(connected.stream));
}

Task<absl::StatusOr<std::unique_ptr<Client::Connection>>> Client::Begin(AbortGroup::Member& member,
                                                                        const Request& request,
                                                                        conf::TimePoint deadline) {
  using Status = Connection::Status;
  std::string head = fmt::format("{} {}{}{}{} HTTP/1.1\r\nhost: {}\r\naccept: application/json\r\n",
                                 request.method, access_.server.path, request.path,
                                 request.query.empty() ? "" : "?", request.query, access_.server.Authority());
  if (!access_.token.empty())
    fmt::format_to(std::back_inserter(head), "authorization: Bearer {}\r\n", access_.token.Reveal());
  if (!request.body.empty() || request.method != "GET") {
    fmt::format_to(std::back_inserter(head), "content-type: {}\r\ncontent-length: {}\r\n", request.type,
                   request.body.size());
  }
  head += "\r\n";
  const std::array<gateway::net::ConstBuffer, 2> parts{AsBuffer(head), AsBuffer(request.body)};
  Status status = Status::kClosed;
  for (const bool fresh : {false, true}) {
    absl::StatusOr<std::unique_ptr<Connection>> connected = co_await Connect(member, deadline, fresh);
    if (!connected.ok()) {
      conf::Wipe(head);
      co_return connected.status();
    }
    std::unique_ptr<Connection> connection = *std::move(connected);
    connection->SetTimeoutAt(deadline);
    connection->BeginExchange();
    if (!member.Begin(*connection)) break;
    const gateway::net::IoResult written = co_await connection->Write(parts);
    status = connection->StatusOf(written.error);
    if (status == Status::kOk) status = co_await connection->ReadHead(gateway::net::http::HeadLimits{});
    if (member.aborted()) break;
    if (status == Status::kOk) {
      conf::Wipe(head);
      co_return connection;
    }
    // The server may close an idle connection at any time; nothing of the request was answered then.
    if (!connection->reused() || connection->answered() || status != Status::kClosed) break;
  }
  conf::Wipe(head);
  if (member.aborted()) co_return Cancelled();
  switch (status) {
    case Status::kTimedOut:
      co_return absl::UnavailableError(fmt::format("{}: no answer in time", Where()));
    case Status::kMalformed:
      co_return absl::UnavailableError(fmt::format("{}: the answer is not HTTP", Where()));
    default:
      co_return absl::UnavailableError(
          fmt::format("{}: the connection was closed without an answer", Where()));
  }
}

Task<absl::StatusOr<Client::Answer>> Client::Once(const Request& request, conf::TimePoint deadline) {
  using Status = Connection::Status;
  if (absl::Status ready = co_await Prepare(); !ready.ok()) co_return ready;
  AbortGroup::Member member(&requests_);
  absl::StatusOr<std::unique_ptr<Connection>> begun = co_await Begin(member, request, deadline);
  if (!begun.ok()) co_return begun.status();
  std::unique_ptr<Connection> connection = *std::move(begun);
  if (!member.Begin(*connection)) co_return Cancelled();
  Answer answer;
  answer.status = connection->head().status;
  const std::string retry(connection->head().Find("retry-after"));
  const size_t limit = IsCalm(answer.status) ? request.max_answer : kMaxError;
  while (true) {
    answer.body.append(connection->payload());
    connection->Take(connection->payload().size());
    if (request.keep_end > 0 && IsCalm(answer.status)) {
      if (answer.body.size() > 2 * request.keep_end)
        answer.body.erase(0, answer.body.size() - request.keep_end);
    } else if (answer.body.size() > limit) {
      if (!IsCalm(answer.status)) break;
      co_return absl::ResourceExhaustedError(
          fmt::format("{}: the answer of Kubernetes is larger than {} bytes", Asked(request), limit));
    }
    if (connection->done()) break;
    const Status status = co_await connection->ReadSome();
    if (member.aborted()) co_return Cancelled();
    if (status == Status::kTimedOut)
      co_return absl::UnavailableError(fmt::format("{}: no complete answer in time", Where()));
    if (status != Status::kOk)
      co_return absl::UnavailableError(fmt::format("{}: the answer was cut", Where()));
  }
  if (answer.status == 401) stale_ = true;
  if (!IsCalm(answer.status)) answer.retry_after = RetryAfter(retry, answer.body);
  if (connection->EndExchange()) pool_->Return(std::move(connection), Now());
  co_return answer;
}

Task<absl::StatusOr<std::string>> Client::Ask(Request request) {
  const conf::TimePoint deadline = Now() + request.timeout;
  gateway::net::Backoff backoff(kLeastPause, kMostPause, ++seed_);
  bool renewed = false;
  while (true) {
    absl::StatusOr<Answer> answer = co_await Once(request, deadline);
    if (!answer.ok()) {
      if (absl::IsCancelled(answer.status())) co_return answer.status();
      co_return absl::Status(answer.status().code(),
                             fmt::format("{}: {}", Asked(request), conf::Std(answer.status().message())));
    }
    if (IsCalm(answer->status)) co_return std::move(answer->body);
    if (answer->status == 401 && !std::exchange(renewed, true)) continue;  // with the token read anew
    // The reason for a refused eviction does not pass in a moment: such an answer has no Retry-After.
    const bool again = (answer->status == 429 && answer->retry_after) || answer->status >= 500;
    const conf::Duration pause = answer->retry_after.value_or(backoff.Next());
    if (!again || Now() + pause >= deadline) co_return ErrorOf(answer->status, answer->body, Asked(request));
    AbortGroup::Member member(&requests_);
    Waiting waiting(loop_.watchdog);
    if (!member.Begin(waiting)) co_return Cancelled();
    co_await waiting.For(pause);
    if (member.aborted()) co_return Cancelled();
  }
}

Task<absl::StatusOr<json>> Client::Get(std::string path, std::string query) {
  Request request{.path = std::move(path), .query = std::move(query)};
  const std::string asked = Asked(request);
  co_return Parsed(co_await Ask(std::move(request)), asked);
}

Task<absl::StatusOr<json>> Client::Create(std::string path, json object) {
  Request request{.method = "POST", .path = std::move(path), .body = object.dump()};
  const std::string asked = Asked(request);
  co_return Parsed(co_await Ask(std::move(request)), asked);
}

Task<absl::StatusOr<json>> Client::Patch(std::string path, json change, std::string_view type) {
  Request request{
      .method = "PATCH", .path = std::move(path), .body = change.dump(), .type = std::string(type)};
  const std::string asked = Asked(request);
  co_return Parsed(co_await Ask(std::move(request)), asked);
}

Task<absl::StatusOr<json>> Client::Delete(std::string path, json options) {
  Request request{.method = "DELETE", .path = std::move(path)};
  if (!options.is_null()) request.body = options.dump();
  const std::string asked = Asked(request);
  co_return Parsed(co_await Ask(std::move(request)), asked);
}

Task<absl::Status> Client::Follow(std::string path, std::string query, conf::Duration silence,
                                  std::function<void()> on_accepted,
                                  std::function<bool(std::string_view)> on_line) {
  using Status = Connection::Status;
  const Request request{.path = std::move(path), .query = std::move(query)};
  if (absl::Status ready = co_await Prepare(); !ready.ok()) co_return ready;
  AbortGroup::Member member(&requests_);
  absl::StatusOr<std::unique_ptr<Connection>> begun =
      co_await Begin(member, request, Now() + std::min(silence, request.timeout));
  if (!begun.ok()) co_return begun.status();
  std::unique_ptr<Connection> connection = *std::move(begun);
  connection->ClearTimeout();
  if (!member.Begin(*connection)) co_return Cancelled();
  const int code = connection->head().status;
  if (code == 401) stale_ = true;
  if (IsCalm(code)) on_accepted();
  std::string held;  // the start of a line, or the body of an error
  while (true) {
    std::string_view left = connection->payload();
    if (IsCalm(code)) {
      for (size_t end = left.find('\n'); end != std::string_view::npos; end = left.find('\n')) {
        held.append(left.substr(0, end));
        left.remove_prefix(end + 1);
        if (!held.empty() && !on_line(held)) co_return absl::OkStatus();
        held.clear();
      }
    }
    held.append(left);
    connection->Take(connection->payload().size());
    if (connection->done()) break;
    if (held.size() > (IsCalm(code) ? kMaxLine : kMaxError)) {
      co_return absl::ResourceExhaustedError(
          fmt::format("{}: Kubernetes sent a line of more than {} bytes", Asked(request), kMaxLine));
    }
    const Status status = co_await connection->ReadSome(Now() + silence);
    if (member.aborted()) co_return Cancelled();
    if (status == Status::kTimedOut)
      co_return absl::DeadlineExceededError(fmt::format("{}: silent for too long", Asked(request)));
    if (status != Status::kOk) {
      const std::string closed = fmt::format("{}: the connection was closed", Asked(request));
      co_return IsCalm(code) ? absl::AbortedError(closed) : absl::UnavailableError(closed);
    }
  }
  if (!IsCalm(code)) co_return ErrorOf(code, held, Asked(request));
  if (!held.empty()) on_line(held);
  co_return absl::OkStatus();
}

}  // namespace plugins::kubernetes
