#include "tests/support/raw_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "conf/json_parse.h"

namespace tests {
namespace {

using Clock = std::chrono::steady_clock;

int Remaining(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(left, 0));
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return text;
}

}  // namespace

std::string Answer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

Json Answer::json() const {
  Json parsed = conf::ParseJson(body);
  return parsed.is_discarded() ? Json() : parsed;
}

std::string Answer::code() const {
  const Json parsed = json();
  if (!parsed.is_object() || !parsed.contains("error") || !parsed["error"].is_object()) return "";
  return parsed["error"].contains("code") && parsed["error"]["code"].is_string()
             ? parsed["error"]["code"].get<std::string>()
             : "";
}

RawClient::RawClient(uint16_t port) {
  Connect(port, 0);
}
RawClient::RawClient(uint16_t port, int receive_buffer) {
  Connect(port, receive_buffer);
}
RawClient::~RawClient() {
  Close();
}

RawClient::RawClient(RawClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      tls_(std::move(other.tls_)),
      in_(std::move(other.in_)),
      payload_(std::move(other.payload_)),
      chunked_(other.chunked_),
      until_close_(other.until_close_),
      left_(other.left_),
      whole_(other.whole_),
      closed_(other.closed_),
      reset_(other.reset_) {}

RawClient RawClient::Narrow(uint16_t port) {
  return RawClient(port, 4096);
}

void RawClient::Connect(uint16_t port, int receive_buffer) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Close();
}

RawClient::RawClient(uint16_t port, const TlsClient& tls) {
  Connect(port, 0);
  if (fd_ >= 0 && !Shake(tls, Clock::now() + kPatience)) Close();
}

bool RawClient::Shake(const TlsClient& tls, Clock::time_point until) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_load_verify_locations(context.get(), tls.ca.c_str(), nullptr);
  if (!tls.certificate.empty()) {
    SSL_CTX_use_certificate_file(context.get(), tls.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), tls.key.c_str(), SSL_FILETYPE_PEM);
  }
  if (tls.tls12) SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  tls_ = {SSL_new(context.get()), SSL_free};
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), tls.name.c_str()) != 1) {
    SSL_set1_host(tls_.get(), tls.name.c_str());
  }
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  SSL_set_fd(tls_.get(), fd_);
  while (true) {
    ERR_clear_error();
    const int done = SSL_connect(tls_.get());
    if (done == 1) return true;
    const int error = SSL_get_error(tls_.get(), done);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
    if (!WaitFor(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until)) return false;
  }
}

long RawClient::peer_serial() const {
  X509* certificate = tls_ ? SSL_get0_peer_certificate(tls_.get()) : nullptr;
  return certificate ? ASN1_INTEGER_get(X509_get0_serialNumber(certificate)) : 0;
}

bool RawClient::WaitFor(short events, Clock::time_point until) {
  pollfd waiting{fd_, events, 0};
  return poll(&waiting, 1, Remaining(until)) > 0;
}

ssize_t RawClient::Receive(char* into, size_t size) {
  if (!tls_) return recv(fd_, into, size, MSG_DONTWAIT);
  ERR_clear_error();
  const int n = SSL_read(tls_.get(), into, static_cast<int>(size));
  if (n > 0) return n;
  const int error = SSL_get_error(tls_.get(), n);
  errno = error == SSL_ERROR_WANT_READ ? EAGAIN : ECONNRESET;
  // The gateway ends a TLS connection like TCP, without a close_notify.
  const bool orderly = error == SSL_ERROR_ZERO_RETURN ||
                       ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  return orderly ? 0 : -1;
}

ssize_t RawClient::Write(std::string_view bytes) {
  if (!tls_) return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ERR_clear_error();
  const int n = SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()));
  if (n > 0) return n;
  errno = SSL_get_error(tls_.get(), n) == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
  return -1;
}

bool RawClient::Send(std::string_view bytes, milliseconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  while (!bytes.empty()) {
    if (fd_ < 0) return false;
    if (!WaitFor(POLLOUT, until)) return false;
    const ssize_t sent = Write(bytes);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool RawClient::Fill(Clock::time_point until) {
  if (fd_ < 0 || closed_) return false;
  std::string piece(64 * 1024, '\0');
  ssize_t n = 0;
  while ((n = Receive(piece.data(), piece.size())) < 0 && errno == EAGAIN) {
    if (!WaitFor(POLLIN, until)) return false;
  }
  if (n <= 0) {
    closed_ = true;
    reset_ = n < 0;
    return false;
  }
  in_.append(piece, 0, static_cast<size_t>(n));
  return true;
}

// Moves what in_ holds of the body to payload_.
void RawClient::Decode() {
  while (!whole_) {
    if (until_close_) {
      payload_ += in_;
      in_.clear();
      whole_ = closed_ && !reset_;
      return;
    }
    const size_t take = static_cast<size_t>(std::min<uint64_t>(left_, in_.size()));
    payload_.append(in_, 0, take);
    in_.erase(0, take);
    left_ -= take;
    if (left_ > 0) return;
    if (!chunked_) {
      whole_ = true;
      return;
    }
    // At a chunk's size line, or at the CRLF that ends the chunk before it.
    const size_t from = in_.starts_with("\r\n") ? 2 : 0;
    const size_t end = in_.find("\r\n", from);
    if (end == std::string::npos) return;
    const uint64_t size = std::strtoull(in_.c_str() + from, nullptr, 16);
    if (size == 0) {
      if (in_.size() < end + 4) return;
      in_.erase(0, end + 4);
      whole_ = true;
      return;
    }
    in_.erase(0, end + 2);
    left_ = size;
  }
}

Answer RawClient::ReadHead(milliseconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  size_t end;
  while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill(until)) return {};
  }
  Answer answer;
  const std::string head = in_.substr(0, end + 2);
  in_.erase(0, end + 4);
  answer.status = std::atoi(head.substr(std::min(head.size(), head.find(' ') + 1)).c_str());
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t line_end = head.find("\r\n", at);
    const size_t colon = head.find(':', at);
    const size_t value = head.find_first_not_of(' ', colon + 1);
    answer.headers[Lower(head.substr(at, colon - at))] = head.substr(value, line_end - value);
    at = line_end + 2;
  }
  payload_.clear();
  chunked_ = answer.header("transfer-encoding") == "chunked";
  const std::string length = answer.header("content-length");
  const bool none = answer.status < 200 || answer.status == 204 || answer.status == 304;
  until_close_ = !none && !chunked_ && length.empty();
  left_ = none || chunked_ || length.empty() ? 0 : std::strtoull(length.c_str(), nullptr, 10);
  whole_ = none || (!chunked_ && !until_close_ && left_ == 0);
  return answer;
}

Answer RawClient::Read(milliseconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  Answer answer = ReadHead(patience);
  if (answer.status == 0) return answer;
  Decode();
  while (!whole_) {
    const bool more = Fill(until);
    Decode();
    if (!more) break;
  }
  answer.body = std::move(payload_);
  payload_.clear();
  answer.whole = whole_;
  return answer;
}

std::optional<std::string> RawClient::ReadEvent(milliseconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  while (true) {
    Decode();
    if (const size_t end = payload_.find("\n\n"); end != std::string::npos) {
      std::string event = payload_.substr(0, end);
      payload_.erase(0, end + 2);
      return event;
    }
    if (whole_ || !Fill(until)) return std::nullopt;
  }
}

bool RawClient::WaitClosed(milliseconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  while (in_.empty() && Fill(until)) {
  }
  return closed_ && in_.empty();
}

void RawClient::ShutdownWrite() {
  shutdown(fd_, SHUT_WR);
}

void RawClient::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void RawClient::Reset() {
  const linger now{1, 0};
  if (fd_ >= 0) setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  Close();
}

bool RawClient::SendAndClose(std::string_view bytes) {
  const int together = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_CORK, &together, sizeof together);
  const bool sent = Send(bytes);
  Close();
  return sent;
}

std::string Post(std::string_view path, std::string_view body, std::string_view headers) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
      path, body.size(), headers, body);
}

std::string Get(std::string_view path, std::string_view headers) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: gateway\r\n{}\r\n", path, headers);
}

Json ChatBody(const Json& more) {
  Json body =
      Json::parse(R"({"model":"chat-small","messages":[{"role":"user","content":"Say something."}]})");
  if (more.is_object()) body.update(more);  // a bare {} is null
  return body;
}

std::string Chat(const Json& more, std::string_view headers) {
  return Post("/v1/chat/completions", ChatBody(more).dump(), headers);
}

}  // namespace tests
