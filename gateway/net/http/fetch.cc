#include "gateway/net/http/fetch.h"

#include <fmt/format.h>

#include <array>

#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"
#include "gateway/net/http/client_connection.h"

namespace gateway::net::http {
namespace {

absl::Status Failure(ClientConnection::Status status, const Url& url) {
  using Status = ClientConnection::Status;
  switch (status) {
    case Status::kTimedOut:
      return absl::DeadlineExceededError(fmt::format("{}: no complete answer in time", url.Authority()));
    case Status::kMalformed:
      return absl::DataLossError(fmt::format("{}: the answer is not HTTP", url.Authority()));
    default:
      return absl::DataLossError(fmt::format("{}: closed before the answer was complete", url.Authority()));
  }
}

std::string RenderRequest(const FetchRequest& request) {
  const Url& url = request.url;
  std::string head = fmt::format("{} {}{}{} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", request.method,
                                 url.path.empty() ? "/" : url.path, url.query.empty() ? "" : "?", url.query,
                                 url.Authority());
  for (const auto& [name, value] : request.headers)
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT") {
    fmt::format_to(std::back_inserter(head), "content-length: {}\r\n", request.body.size());
  }
  return head += "\r\n";
}

Task<absl::StatusOr<FetchResponse>> FetchAs(AbortGroup::Member& member, Loop& loop,
                                            const FetchRequest& request) {
  using Status = ClientConnection::Status;
  const conf::TimePoint deadline = Now() + request.timeout;
  Remote remote{request.url.host, request.url.port, request.tls, request.server_name, request.socket};
  if (request.url.tls && !remote.tls) {
    auto context = TlsContext::Client({});
    if (!context.ok()) co_return context.status();
    remote.tls = *std::move(context);
  }
  Connector connector(loop.io);
  ConnectDeadline connect_deadline(loop.watchdog, connector);
  connect_deadline.Set(deadline);
  if (!member.Begin(connector)) co_return absl::CancelledError();
  ConnectResult connected = co_await connector.Connect(remote);
  connect_deadline.Clear();
  if (connect_deadline.passed()) {
    co_return absl::DeadlineExceededError(fmt::format("{}: no connection in time", request.url.Authority()));
  }
  if (connected.error) {
    co_return absl::UnavailableError(
        fmt::format("{}: {}", request.url.Authority(), connected.error.message()));
  }

  ClientConnection connection(loop, std::move(connected.stream));
  connection.SetTimeoutAt(deadline);
  connection.BeginExchange();
  if (!member.Begin(connection)) co_return absl::CancelledError();
  const std::string head = RenderRequest(request);
  const std::array<ConstBuffer, 2> parts{AsBuffer(head), AsBuffer(request.body)};
  const IoResult written = co_await connection.Write(parts);
  if (connection.StatusOf(written.error) == Status::kTimedOut)
    co_return Failure(Status::kTimedOut, request.url);
  if (!written)
    co_return absl::UnavailableError(fmt::format("{}: {}", request.url.Authority(), written.error.message()));
  Status status = co_await connection.ReadHead(HeadLimits{}, request.method == "HEAD");
  if (status != Status::kOk) co_return Failure(status, request.url);

  FetchResponse response;
  response.status = connection.head().status;
  for (const Field& field : connection.head().fields) response.headers.emplace_back(field.name, field.value);
  while (true) {
    response.body.append(connection.payload());
    connection.Take(connection.payload().size());
    if (response.body.size() > request.max_response_bytes) {
      co_return absl::ResourceExhaustedError(fmt::format(
          "{}: the answer is larger than {} bytes", request.url.Authority(), request.max_response_bytes));
    }
    if (connection.done()) break;
    status = co_await connection.ReadSome();
    if (status != Status::kOk) co_return Failure(status, request.url);
  }
  co_return response;
}

}  // namespace

Task<absl::StatusOr<FetchResponse>> Fetch(Loop& loop, FetchRequest request, AbortGroup* group) {
  AbortGroup::Member member(group);
  absl::StatusOr<FetchResponse> response = co_await FetchAs(member, loop, request);
  if (!response.ok() && member.aborted()) {
    co_return absl::CancelledError(fmt::format("{}: given up, unanswered", request.url.Authority()));
  }
  co_return response;
}

}  // namespace gateway::net::http
