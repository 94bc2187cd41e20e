// A blocking HTTP client that does exactly what a test says: it sends any bytes, in any pieces, and reads
// answers with a deadline. Not shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/child_process.h"

typedef struct ssl_st SSL;

namespace tests {

using Json = nlohmann::json;

struct Answer {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool whole = false;  // its end has come, according to its framing

  std::string header(const std::string& name) const;
  Json json() const;         // the body as JSON; null if it is none
  std::string code() const;  // of an OpenAI error object, or ""
};

// The client's side of TLS: the authority that it trusts, and its own certificate. PEM files.
struct TlsClient {
  std::string ca;
  std::string certificate = {};
  std::string key = {};
  std::string name = "127.0.0.1";  // expected name of the server's certificate
  bool tls12 = false;              // at most TLS 1.2
};

class RawClient {
 public:
  // The system tries to connect again after 1, 3, 7 and 15 s.
  static constexpr milliseconds kPatience{30'000};

  explicit RawClient(uint16_t port);
  // Over TLS. Without a handshake it is not connected.
  RawClient(uint16_t port, const TlsClient& tls);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  // False when the peer does not take it, or not all of it in time.
  bool Send(std::string_view bytes, milliseconds patience = kPatience);

  // The next answer, whole. Of a cut answer, the received part, with whole == false.
  Answer Read(milliseconds patience = kPatience);
  Answer Ask(std::string_view request) { return Send(request), Read(); }

  // Its head alone; the two below read the rest.
  Answer ReadHead(milliseconds patience = kPatience);
  // The next server-sent event, without its blank line; absent when the stream or the time has ended.
  std::optional<std::string> ReadEvent(milliseconds patience = kPatience);
  bool ended() const { return whole_; }  // the answer's body has ended properly

  // True when the peer closes without sending anything more.
  bool WaitClosed(milliseconds patience = kPatience);
  bool reset() const { return reset_; }  // the close was not orderly
  long peer_serial() const;              // of the server's certificate

  void ShutdownWrite();  // nothing more will be sent; the client can still read
  void Close();
  void Reset();  // closes with an RST
  // Closes with the last of `bytes`: when the peer has read them, it can know that this side is gone.
  bool SendAndClose(std::string_view bytes);
  // A window so small that a peer that writes much must wait; call it first of all.
  static RawClient Narrow(uint16_t port);

 private:
  RawClient(uint16_t port, int receive_buffer);
  void Connect(uint16_t port, int receive_buffer);
  // Reads some bytes; false at the end of the connection or of the time.
  bool Fill(std::chrono::steady_clock::time_point until);
  void Decode();
  bool Shake(const TlsClient& tls, std::chrono::steady_clock::time_point until);
  // The result of recv and send, also through TLS: -1 with EAGAIN when it must wait.
  ssize_t Receive(char* into, size_t size);
  ssize_t Write(std::string_view bytes);
  bool WaitFor(short events, std::chrono::steady_clock::time_point until);

  int fd_ = -1;
  std::unique_ptr<SSL, void (*)(SSL*)> tls_{nullptr, nullptr};
  std::string in_;       // not parsed yet
  std::string payload_;  // of the body, not yet taken
  bool chunked_ = false;
  bool until_close_ = false;
  uint64_t left_ = 0;  // of the body, or of the chunk
  bool whole_ = true;
  bool closed_ = false;
  bool reset_ = false;
};

// "POST PATH" with a JSON body; `headers` are whole lines with CRLF.
std::string Post(std::string_view path, std::string_view body, std::string_view headers = {});
std::string Get(std::string_view path, std::string_view headers = {});

// POST /v1/chat/completions of one short question to chat-small. `more` are further members, such as
// {{"stream", true}}.
std::string Chat(const Json& more = Json::object(), std::string_view headers = {});
Json ChatBody(const Json& more = Json::object());

}  // namespace tests
