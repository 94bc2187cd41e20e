// A small DNS server on loopback, by UDP, on a thread of its own: it answers A, AAAA and SRV questions from records
// that a test sets, with their time to live; names without records do not exist. It can be silent, and fail.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tests {

class DnsServer {
 public:
  struct Service {
    std::string host;
    uint16_t port = 0;
    uint16_t priority = 0;
  };

  DnsServer() {
    socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~DnsServer() {
    stopping_ = true;
    thread_.join();
    close(socket_);
  }
  DnsServer(const DnsServer&) = delete;
  DnsServer& operator=(const DnsServer&) = delete;

  // The address in the form of an endpoint's option `resolver`.
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  uint64_t questions() const { return questions_; }

  // No addresses: the name does not exist.
  void Set(const std::string& name, std::vector<std::string> addresses, uint32_t ttl = 1) {
    const std::scoped_lock lock(mutex_);
    addresses_[name] = std::move(addresses);
    ttl_ = ttl;
  }
  void SetServices(const std::string& name, std::vector<Service> services) {
    const std::scoped_lock lock(mutex_);
    services_[name] = std::move(services);
  }
  void Silence(bool silent) { silent_ = silent; }  // no answers at all
  void Fail(bool fails) { fails_ = fails; }        // SERVFAIL

 private:
  static constexpr uint16_t kA = 1;
  static constexpr uint16_t kAaaa = 28;
  static constexpr uint16_t kSrv = 33;

  static void Put16(std::string& out, unsigned value) {
    out += static_cast<char>(value >> 8 & 0xff);
    out += static_cast<char>(value & 0xff);
  }
  static void PutName(std::string& out, const std::string& name) {
    size_t at = 0;
    while (at < name.size()) {
      const size_t dot = std::min(name.find('.', at), name.size());
      out += static_cast<char>(dot - at);
      out += name.substr(at, dot - at);
      at = dot + 1;
    }
    out += '\0';
  }
  void PutRecord(std::string& out, unsigned type, const std::string& data) const {
    Put16(out, 0xc00c);  // the question's name
    Put16(out, type);
    Put16(out, 1);
    Put16(out, ttl_ >> 16);
    Put16(out, ttl_ & 0xffff);
    Put16(out, static_cast<unsigned>(data.size()));
    out += data;
  }

  void Serve() {
    while (!stopping_) {
      pollfd waits{socket_, POLLIN, 0};
      if (poll(&waits, 1, 20) <= 0) continue;
      char text[512];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t got = recvfrom(socket_, text, sizeof text, 0, reinterpret_cast<sockaddr*>(&from), &size);
      if (got < 17) continue;
      ++questions_;
      if (silent_) continue;
      const std::string answer = AnswerTo(std::string(text, static_cast<size_t>(got)));
      sendto(socket_, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }

  std::string AnswerTo(const std::string& question) {
    std::string name;
    size_t at = 12;
    while (at < question.size() && question[at] != 0) {
      const auto length = static_cast<unsigned char>(question[at]);
      name += (name.empty() ? "" : ".") + question.substr(at + 1, length);
      at += 1 + length;
    }
    const size_t end = at + 5;
    if (end > question.size()) return question;
    const auto type = static_cast<unsigned>(static_cast<unsigned char>(question[at + 1]) << 8 |
                                            static_cast<unsigned char>(question[at + 2]));
    const std::scoped_lock lock(mutex_);
    std::string records;
    unsigned count = 0;
    const auto add = [&](const std::string& data) {
      PutRecord(records, type, data);
      ++count;
    };
    const auto& addresses = addresses_[name];
    for (const std::string& address : addresses) {
      unsigned char bytes[16];
      if (type == kA && inet_pton(AF_INET, address.c_str(), bytes) == 1)
        add(std::string(reinterpret_cast<char*>(bytes), 4));
      if (type == kAaaa && inet_pton(AF_INET6, address.c_str(), bytes) == 1)
        add(std::string(reinterpret_cast<char*>(bytes), 16));
    }
    const auto& services = services_[name];
    for (const Service& service : services) {
      if (type != kSrv) break;
      std::string data;
      Put16(data, service.priority);
      Put16(data, 1);
      Put16(data, service.port);
      PutName(data, service.host);
      add(data);
    }
    const bool known = !addresses.empty() || !services.empty();
    std::string out = question.substr(0, 2);
    Put16(out, 0x8580U | (fails_ ? 2U : known ? 0U : 3U));
    Put16(out, 1);
    Put16(out, fails_ ? 0 : count);
    Put16(out, 0);
    Put16(out, 0);
    out += question.substr(12, end - 12);
    if (!fails_) out += records;
    return out;
  }

  int socket_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> addresses_;  // guarded by mutex_, as the next
  std::map<std::string, std::vector<Service>> services_;
  uint32_t ttl_ = 1;
  std::atomic<bool> silent_{false};
  std::atomic<bool> fails_{false};
  std::atomic<uint64_t> questions_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tests
