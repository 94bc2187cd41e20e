#include "gateway/net/http/server.h"

#include <fmt/format.h>

#include <array>

namespace gateway::net::http {
namespace {

std::string RenderHead(int status, const Headers& headers, bool chunked, uint64_t length, bool close) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, ReasonPhrase(status));
  for (const auto& [name, value] : headers) head.append(name).append(": ").append(value).append("\r\n");
  if (chunked) {
    head += "transfer-encoding: chunked\r\n";
  } else if (status != 204 && status != 304) {
    fmt::format_to(std::back_inserter(head), "content-length: {}\r\n", length);
  }
  if (close) head += "connection: close\r\n";
  return head += "\r\n";
}

int StatusFor(HeadError error) {
  switch (error) {
    case HeadError::kTooLarge:
    case HeadError::kTooManyFields:
      return 431;
    case HeadError::kBadVersion:
      return 505;
    case HeadError::kUnknownCoding:
      return 501;
    case HeadError::kBadExpectation:
      return 417;
    default:
      return 400;
  }
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 402:
      return "Payment Required";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

std::string_view Exchange::path() const {
  return head().target.substr(0, head().target.find('?'));
}

std::string_view Exchange::query() const {
  const size_t mark = head().target.find('?');
  return mark == std::string_view::npos ? std::string_view() : head().target.substr(mark + 1);
}

Task<bool> Exchange::Send(int status, const Headers& headers, std::string_view body) {
  answered_ = true;
  const std::string head = RenderHead(status, headers, false, body.size(), close_);
  const std::array<ConstBuffer, 2> parts{AsBuffer(head), AsBuffer(bodiless() ? std::string_view() : body)};
  co_return static_cast<bool>(co_await connection_.Write(parts));
}

Task<bool> Exchange::Start(int status, const Headers& headers) {
  answered_ = true;
  const std::string head = RenderHead(status, headers, true, 0, close_);
  co_return static_cast<bool>(co_await connection_.Write(AsBuffer(head)));
}

Task<bool> Exchange::Write(std::string_view piece) {
  if (piece.empty() || bodiless()) co_return !gone();
  std::array<char, 24> size;
  const auto end = fmt::format_to_n(size.data(), size.size(), "{:x}\r\n", piece.size()).out;
  const std::array<ConstBuffer, 3> parts{ConstBuffer(size.data(), static_cast<size_t>(end - size.data())),
                                         AsBuffer(piece), AsBuffer("\r\n")};
  co_return static_cast<bool>(co_await connection_.Write(parts));
}

Task<bool> Exchange::Finish() {
  if (bodiless()) co_return !gone();
  co_return static_cast<bool>(co_await connection_.Write(AsBuffer("0\r\n\r\n")));
}

Task<bool> Exchange::StartSized(int status, const Headers& headers, uint64_t length) {
  answered_ = true;
  const std::string head = RenderHead(status, headers, false, length, close_);
  co_return static_cast<bool>(co_await connection_.Write(AsBuffer(head)));
}

Task<bool> Exchange::WriteSized(std::string_view piece) {
  if (piece.empty() || bodiless()) co_return !gone();
  co_return static_cast<bool>(co_await connection_.Write(AsBuffer(piece)));
}

void Exchange::Reset() {
  close_ = true;
  connection_.stream().ResetOnClose();
  connection_.Close();
}

Server::Server(Loop& loop, Options options, Handler handler)
    : options_(std::move(options)), handler_(std::move(handler)), listener_(loop, options_.limits, *this) {
  listener_.SetMaxConnections(options_.max_connections);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(Loop& loop, Options options, Handler handler) {
  std::unique_ptr<Server> server(new Server(loop, std::move(options), std::move(handler)));
  const absl::StatusOr<uint16_t> port = server->listener_.Listen(server->options_.acceptor);
  if (!port.ok()) return port.status();
  server->port_ = *port;
  return server;
}

Task<bool> Server::Serve(Listener::Client& client, ServerConnection::Status status) {
  using Status = ServerConnection::Status;
  ServerConnection& connection = client.connection;
  Exchange exchange(connection, client.address);
  if (status == Status::kOk) {
    status = co_await connection.ReadBody(options_.body_limit ? options_.body_limit(connection.head())
                                                              : options_.limits.body_bytes);
  }
  if (status == Status::kClosed) co_return false;
  if (status != Status::kOk) {
    exchange.close_ = true;
    const int code = status == Status::kBadHead    ? StatusFor(connection.bad_head())
                     : status == Status::kTimedOut ? 408
                     : status == Status::kTooLarge ? 413
                                                   : 400;
    const Refusal refusal = options_.refuse ? options_.refuse(code)
                                            : Refusal{"text/plain", std::string(ReasonPhrase(code)) + "\n"};
    Headers headers = {{"content-type", refusal.content_type}};
    headers.insert(headers.end(), refusal.headers.begin(), refusal.headers.end());
    co_await exchange.Send(code, headers, refusal.body);
    co_await connection.Linger();
    co_return false;
  }
  co_await handler_(exchange);
  if (!exchange.answered_ && !exchange.close_) {
    co_await exchange.Send(500, {{"content-type", "text/plain"}}, "no answer\n");
  }
  co_return connection.EndRequest() && !exchange.close_;
}

}  // namespace gateway::net::http
