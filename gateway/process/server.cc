#include "gateway/process/server.h"

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/request/answer.h"
#include "gateway/request/pipeline.h"

namespace gateway {

using net::http::HeadError;
using net::http::ServerConnection;

namespace {

api::Code CodeOf(HeadError error) {
  switch (error) {
    case HeadError::kTooLarge:
    case HeadError::kTooManyFields:
      return api::Code::kHeaderTooLarge;
    case HeadError::kBadVersion:
      return api::Code::kUnsupportedVersion;
    case HeadError::kUnknownCoding:
      return api::Code::kUnsupportedCoding;
    case HeadError::kBadExpectation:
      return api::Code::kExpectationFailed;
    case HeadError::kNone:
    case HeadError::kMalformed:
    case HeadError::kBadHost:
    case HeadError::kBadTarget:
    case HeadError::kBadFraming:
      break;
  }
  return api::Code::kBadRequest;
}

}  // namespace

bool ConnectionCounts::Admit(const std::string& ip, const config::ServerLimits& limits) {
  const std::lock_guard lock(mutex_);
  uint32_t& of_address = by_address_[ip];
  if (open_ >= limits.connections || of_address >= limits.connections_per_address) {
    if (of_address == 0) by_address_.erase(ip);
    return false;
  }
  ++open_;
  ++of_address;
  return true;
}

void ConnectionCounts::Leave(const std::string& ip) {
  const std::lock_guard lock(mutex_);
  --open_;
  const auto it = by_address_.find(ip);
  if (--it->second == 0) by_address_.erase(it);
}

void ConnectionCounts::EnterOwn() {
  const std::lock_guard lock(mutex_);
  ++open_;
}

void ConnectionCounts::LeaveOwn() {
  const std::lock_guard lock(mutex_);
  --open_;
}

size_t ConnectionCounts::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

Server::Server(Shard& shard, ConnectionCounts& counts, const net::TlsHolder* tls)
    : shard_(shard), counts_(counts), tls_(tls) {}

absl::Status Server::Listen(std::shared_ptr<net::ListeningSocket> socket, bool accepts) {
  net::Acceptor::Options options;
  options.socket = std::move(socket);
  options.accepts = accepts;
  if (tls_) options.tls = [this] { return tls_->Get(); };
  options.admit = [this](const std::string& ip) {
    const bool admitted = counts_.Admit(ip, shard_.runtime()->config().server.limits);
    if (!admitted) shard_.metrics.cells.connections_refused.Add();
    return admitted;
  };
  options.on_end = [this](const std::string& ip) { counts_.Leave(ip); };
  return listener_.Listen(std::move(options)).status();
}

// Connections keep a reference to the limits, so a reload reaches open connections, too.
void Server::UpdateLimits() {
  const config::ServerLimits& limits = shard_.runtime()->config().server.limits;
  limits_.head = {limits.head_bytes, limits.headers};
  limits_.body_bytes = limits.body_bytes;
  limits_.idle = limits.idle_timeout;
  limits_.head_time = limits.header_timeout;
  limits_.body_time = limits.body_timeout;
}

void Server::OnOpen() {
  UpdateLimits();
  shard_.metrics.cells.connections_accepted.Add();
  shard_.metrics.cells.connections_open.Add();
  memory_.Opened();
}

void Server::OnClosed(const Client& client) {
  shard_.metrics.cells.connections_open.Sub();
  counts_.Leave(client.address);
  memory_.Closed();
}

net::Task<bool> Server::Serve(Client& client, ServerConnection::Status head) {
  using Status = ServerConnection::Status;
  ServerConnection& connection = client.connection;
  switch (head) {
    case Status::kOk:
      break;
    case Status::kBadHead:
      shard_.metrics.cells.bad_heads.Add();
      co_await RefuseHead(connection, CodeOf(connection.bad_head()), Describe(connection.bad_head()));
      co_return false;
    case Status::kTimedOut:
      co_await RefuseHead(connection, api::Code::kRequestTimeout,
                          "the request's head did not arrive in time");
      co_return false;
    default:
      co_return false;
  }
  ShardCells& cells = shard_.metrics.cells;
  cells.requests_active.Add();
  bool reuse;
  {
    Exchange x(shard_, connection, net::Now());
    x.identity.client_address = client.address;
    x.client.SetReusable(!listener_.draining());
    co_await RunPipeline(x);
    reuse = x.keeps_client() && x.outcome.answer_whole && !x.client.gone();
  }
  cells.requests_active.Sub();
  if (connection.EndRequest() && reuse) co_return true;
  if (!connection.peer_gone()) co_await connection.Linger();
  co_return false;
}

void Server::ServeOwn(net::Fd connection, OnBehalf caller) {
  auto stream = net::StreamOf(shard_.loop.io, std::move(connection), caller.address);
  if (!stream.ok()) return caller.Tell(std::nullopt);  // the other end sees that it was closed
  shard_.loop.tasks.Spawn(AnswerOwn(*std::move(stream), std::move(caller)));
}

net::Task<void> Server::AnswerOwn(std::unique_ptr<net::Stream> stream, OnBehalf caller) {
  UpdateLimits();
  counts_.EnterOwn();
  ServerConnection connection(shard_.loop, std::move(stream), limits_);
  own_.insert(&connection);
  if (co_await connection.ReadHead() == ServerConnection::Status::kOk) {
    shard_.metrics.cells.requests_active.Add();
    {
      Exchange x(shard_, connection, net::Now());
      x.identity.client_address = caller.address;
      x.identity.on_behalf = &caller;
      x.client.SetReusable(false);
      co_await RunPipeline(x);
    }
    shard_.metrics.cells.requests_active.Sub();
    connection.EndRequest();
    if (!connection.peer_gone()) co_await connection.Linger();
  }
  own_.erase(&connection);
  co_await connection.Shutdown();
  counts_.LeaveOwn();
  caller.Tell(std::nullopt);
}

void Server::CloseAll() {
  listener_.CloseAll();
  for (ServerConnection* const connection : own_) connection->Close();
}

// A head that cannot be trusted: answered without a pipeline, and the connection ends.
net::Task<void> Server::RefuseHead(ServerConnection& connection, api::Code code, std::string_view why) {
  std::array<char, 36> id;
  const std::string_view request_id = shard_.NewRequestId(net::Now(), id);
  const api::ApiError error = api::Make(code, std::string(why));
  const std::string body = api::RenderError(api::Protocol::kOpenAi, error, request_id);
  const std::string head = RenderRefusalHead(error, request_id, body.size());
  const bool bodiless = connection.is_head_request();
  const std::array<net::ConstBuffer, 2> parts{net::AsBuffer(head),
                                              net::AsBuffer(bodiless ? std::string_view() : body)};
  if (co_await connection.Write(parts)) co_await connection.Linger();
}

}  // namespace gateway
