// A server of files over HTTP/1.1, as bad as a test wants: it cuts answers, knows no ranges, lies about lengths.
// Each connection has a thread and one exchange. Header only, for tests without the gateway.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tests {

class FileServer {
 public:
  struct Request {
    std::string method;
    std::string target;
    std::map<std::string, std::string> fields;  // names in lower case
    std::string body{};

    std::string Field(const std::string& name) const {
      const auto found = fields.find(name);
      return found == fields.end() ? std::string() : found->second;
    }
    std::string path() const { return target.substr(0, target.find('?')); }
  };
  struct Reply {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> fields{};
    std::string body{};
    std::optional<size_t> cut_after{};  // bytes of the body; then the connection is closed
  };
  using Handler = std::function<Reply(const Request&)>;

  explicit FileServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::jthread([this] { Accept(); });
  }
  ~FileServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    const std::vector<std::jthread> rest = [this] {
      const std::scoped_lock lock(mutex_);
      return std::move(connections_);
    }();
  }
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  std::string url(const std::string& path = "") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  std::string authority() const { return "127.0.0.1:" + std::to_string(port_); }
  std::vector<Request> seen() const {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }
  uint64_t sent() const { return sent_; }  // bytes of bodies

  // The answer of a server with ranges and a strong ETag for that content.
  static Reply Ranged(const Request& request, const std::string& content,
                      const std::string& etag = "\"v1\"") {
    Reply reply{.fields = {{"etag", etag}, {"accept-ranges", "bytes"}}, .body = content};
    const std::string range = request.Field("range");
    const std::string condition = request.Field("if-range");
    if (range.empty() || (!condition.empty() && condition != etag)) return reply;
    const size_t first = std::stoul(range.substr(std::string("bytes=").size()));
    if (first >= content.size()) {
      return {.status = 416, .fields = {{"content-range", "bytes */" + std::to_string(content.size())}}};
    }
    reply.status = 206;
    reply.body = content.substr(first);
    reply.fields.emplace_back("content-range", "bytes " + std::to_string(first) + "-" +
                                                   std::to_string(content.size() - 1) + "/" +
                                                   std::to_string(content.size()));
    return reply;
  }

 private:
  void Accept() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::scoped_lock lock(mutex_);
      connections_.emplace_back([this, fd] {
        Serve(fd);
        close(fd);
      });
    }
  }

  void Serve(int fd) {
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return;
      text.append(buffer, static_cast<size_t>(got));
    }
    Request request = Parse(text);
    if (const std::string length = request.Field("content-length"); !length.empty()) {
      std::string body = text.substr(text.find("\r\n\r\n") + 4);
      while (body.size() < std::stoul(length)) {
        const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0) return;
        body.append(buffer, static_cast<size_t>(got));
      }
      request.body = std::move(body);
    }
    {
      const std::scoped_lock lock(mutex_);
      seen_.push_back(request);
    }
    const Reply reply = handler_(request);
    if (reply.status == 0) return;
    std::string out = "HTTP/1.1 " + std::to_string(reply.status) + " x\r\nconnection: close\r\n";
    bool has_length = false;
    for (const auto& [name, value] : reply.fields) {
      has_length |= name == "content-length" || name == "transfer-encoding";
      out += name + ": " + value + "\r\n";
    }
    if (!has_length) out += "content-length: " + std::to_string(reply.body.size()) + "\r\n";
    out += "\r\n";
    if (request.method != "HEAD") {
      const std::string body = reply.body.substr(0, reply.cut_after.value_or(reply.body.size()));
      sent_ += body.size();
      out += body;
    }
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t wrote = send(fd, out.data() + done, out.size() - done, MSG_NOSIGNAL);
      if (wrote <= 0) return;
      done += static_cast<size_t>(wrote);
    }
  }

  static Request Parse(const std::string& text) {
    Request request;
    const size_t space = text.find(' ');
    request.method = text.substr(0, space);
    request.target = text.substr(space + 1, text.find(' ', space + 1) - space - 1);
    size_t at = text.find("\r\n") + 2;
    while (true) {
      const size_t end = text.find("\r\n", at);
      if (end == std::string::npos || end == at) return request;
      const std::string line = text.substr(at, end - at);
      const size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      request.fields[name] = line.substr(colon + 2);
      at = end + 2;
    }
  }

  const Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> seen_;
  std::atomic<uint64_t> sent_{0};
  std::vector<std::jthread> connections_;
  std::jthread acceptor_;
};

}  // namespace tests
