#include "bench/client/client.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "bench/client/answer_reader.h"
#include "gateway/net/clock.h"

namespace bench {
namespace {

namespace net = gateway::net;
namespace http = gateway::net::http;

constexpr size_t kMaxIdle = 20'000;

std::string RenderHead(const Target& target) {
  std::string head =
      fmt::format("POST {}{}{} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
                  target.url.path.empty() ? "/" : target.url.path, target.url.query.empty() ? "" : "?",
                  target.url.query, target.url.Authority());
  for (const auto& [name, value] : target.headers) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  }
  return head += "content-length: ";
}

net::Remote RemoteOf(const net::Url& url) {
  return {.host = url.host, .port = url.port, .tls = nullptr, .server_name = {}};
}

Ending EndingOf(http::ClientConnection::Status status, bool answered) {
  switch (status) {
    case http::ClientConnection::Status::kMalformed:
      return Ending::kMalformed;
    case http::ClientConnection::Status::kTimedOut:
      return Ending::kTimedOut;
    default:
      return answered ? Ending::kCut : Ending::kNotReached;
  }
}

class ConnectDeadline final : public net::Alarm {
 public:
  ConnectDeadline(net::Watchdog& watchdog, net::Connector& connector)
      : Alarm(watchdog), connector_(connector) {}

 private:
  void OnAlarm() override { connector_.Abort(); }
  net::Connector& connector_;
};

}  // namespace

absl::StatusOr<Target> MakeTarget(std::string_view base, std::string_view endpoint, std::string_view key) {
  while (base.ends_with('/')) base.remove_suffix(1);
  absl::StatusOr<net::Url> url = net::ParseUrl(fmt::format("{}/{}", base, endpoint));
  if (!url.ok()) return url.status();
  if (url->tls) return absl::InvalidArgumentError(fmt::format("{}: only http:// is measured", base));
  Target target{.url = *std::move(url), .headers = {}};
  if (!key.empty()) target.headers.emplace_back("authorization", fmt::format("Bearer {}", key));
  return target;
}

absl::StatusOr<std::string> ReadKey(const std::string& reference) {
  std::string key;
  if (reference.starts_with("env:")) {
    const char* value = std::getenv(reference.c_str() + 4);
    if (value == nullptr) return absl::NotFoundError(fmt::format("{}: the variable is not set", reference));
    key = value;
  } else if (reference.starts_with("file:")) {
    std::ifstream file(reference.substr(5));
    if (!std::getline(file, key)) return absl::NotFoundError(fmt::format("{}: cannot be read", reference));
  } else {
    return absl::InvalidArgumentError("a key is given by reference: env:NAME or file:PATH");
  }
  return key;
}

Client::Client(net::Loop& loop, Target target, conf::Duration timeout)
    : loop_(loop),
      timeout_(timeout),
      head_(RenderHead(target)),
      pool_(loop, RemoteOf(target.url), {.max_idle = kMaxIdle}) {}

net::Task<std::unique_ptr<http::ClientConnection>> Client::Connect(conf::TimePoint deadline) {
  net::Connector connector(loop_.io);
  ConnectDeadline alarm(loop_.watchdog, connector);
  alarm.Set(deadline);
  net::ConnectResult connected = co_await connector.Connect(pool_.remote());
  if (connected.error) co_return nullptr;
  co_return std::make_unique<http::ClientConnection>(loop_, std::move(connected.stream));
}

net::Task<bool> Client::Exchange(http::ClientConnection& connection, std::string_view id,
                                 std::string_view body, conf::TimePoint sent, Answer& answer) {
  using Status = http::ClientConnection::Status;
  AnswerReader reader(sent);
  connection.BeginExchange();
  connection.SetTimeoutAt(sent + timeout_);
  const std::string length = id.empty() ? fmt::format("{}\r\n\r\n", body.size())
                                        : fmt::format("{}\r\nx-request-id: {}\r\n\r\n", body.size(), id);
  const std::array<net::ConstBuffer, 3> parts{net::AsBuffer(head_), net::AsBuffer(length),
                                              net::AsBuffer(body)};
  const net::IoResult written = co_await connection.Write(parts);
  // A server that refuses early closes while the body is still on its way: its answer may be there to be
  // read.
  Status status = co_await connection.ReadHead(http::HeadLimits{});
  if (status != Status::kOk) {
    if (connection.reused() && !connection.answered() && status == Status::kClosed) co_return false;
    reader.OnFailure(EndingOf(status, connection.answered()), net::Now());
    answer = reader.Take();
    co_return true;
  }
  reader.OnHead(connection.head(), net::Now());
  while (true) {
    connection.Take(reader.OnPayload(connection.payload(), net::Now()));
    if (connection.done()) break;
    status = co_await connection.ReadSome();
    if (status != Status::kOk) {
      reader.OnFailure(EndingOf(status, true), net::Now());
      answer = reader.Take();
      co_return true;
    }
  }
  reader.OnEnd(net::Now());
  answer = reader.Take();
  if (!written && answer.ending == Ending::kDone) answer.ending = Ending::kCut;
  co_return true;
}

net::Task<Answer> Client::Call(std::string body, std::string id) {
  ++running_;
  const conf::TimePoint sent = net::Now();
  Answer answer;
  for (bool settled = false; !settled;) {
    std::unique_ptr<http::ClientConnection> connection = pool_.TakeIdle(net::Now());
    if (!connection) connection = co_await Connect(sent + timeout_);
    if (!connection) {
      answer.ending = Ending::kNotReached;
      answer.total = net::Now() - sent;
      break;
    }
    settled = co_await Exchange(*connection, id, body, sent, answer);
    if (connection->EndExchange()) pool_.Return(std::move(connection), net::Now());
  }
  --running_;
  co_return answer;
}

}  // namespace bench
