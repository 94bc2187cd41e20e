// An engine's event sockets, scripted: it publishes what the test says, with the numbers that the test gives,
// and replays what the test allows.
#pragma once

#include <gtest/gtest.h>
#include <zmq.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

namespace tests {

class KvPeer {
 public:
  KvPeer() {
    live_ = Bind(ZMQ_XPUB, url_);
    replay_ = Bind(ZMQ_ROUTER, replay_url_);
    const int patience = 50;  // until the next check for the end
    zmq_setsockopt(replay_, ZMQ_RCVTIMEO, &patience, sizeof patience);
    replaying_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) Replay();
      zmq_close(replay_);
    });
  }
  ~KvPeer() {
    replaying_ = {};
    zmq_close(live_);
    zmq_ctx_term(context_);
  }
  KvPeer(const KvPeer&) = delete;
  KvPeer& operator=(const KvPeer&) = delete;

  const std::string& url() const { return url_; }
  const std::string& replay_url() const { return replay_url_; }

  // Waits for a subscriber.
  void AwaitSubscriber() {
    const int patience = 15'000;
    zmq_setsockopt(live_, ZMQ_RCVTIMEO, &patience, sizeof patience);
    std::array<char, 64> message{};
    while (message[0] != 1) {  // 0: a subscriber has left
      ASSERT_GT(zmq_recv(live_, message.data(), message.size(), 0), 0) << "nobody subscribed";
    }
  }

  // Adds a batch to those that Replay sends from now on.
  void Keep(uint64_t number, const nlohmann::json& batch) {
    const std::lock_guard lock(mutex_);
    kept_[number] = Pack(batch);
  }
  void Send(uint64_t number, const nlohmann::json& batch) { SendBytes(Number(number), Pack(batch)); }
  void SendBytes(std::string_view number, std::string_view batch) {
    zmq_send(live_, "kv", 2, ZMQ_SNDMORE);
    zmq_send(live_, number.data(), number.size(), ZMQ_SNDMORE);
    zmq_send(live_, batch.data(), batch.size(), 0);
  }

  static std::string Number(uint64_t number) {
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * (7 - i)));
    return bytes;
  }

 private:
  static std::string Pack(const nlohmann::json& batch) {
    std::string bytes;
    nlohmann::json::to_msgpack(batch, bytes);
    return bytes;
  }

  void* Bind(int type, std::string& url) {
    void* const socket = zmq_socket(context_, type);
    const int none = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    EXPECT_EQ(zmq_bind(socket, "tcp://127.0.0.1:*"), 0);
    std::array<char, 128> bound{};
    size_t size = bound.size();
    zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound.data(), &size);
    url = bound.data();
    return socket;
  }

  void Replay() {
    std::array<std::array<char, 64>, 3> frames{};
    std::array<int, 3> sizes{};
    for (size_t i = 0; i < frames.size(); ++i) {
      sizes[i] = zmq_recv(replay_, frames[i].data(), frames[i].size(), 0);
      if (sizes[i] < 0) return;
    }
    uint64_t from = 0;
    for (size_t i = 0; i < 8; ++i) from = from << 8 | static_cast<unsigned char>(frames[2][i]);
    const auto answer = [&](const std::string& number, const std::string& batch) {
      zmq_send(replay_, frames[0].data(), static_cast<size_t>(sizes[0]), ZMQ_SNDMORE);
      zmq_send(replay_, "", 0, ZMQ_SNDMORE);
      zmq_send(replay_, number.data(), number.size(), ZMQ_SNDMORE);
      zmq_send(replay_, batch.data(), batch.size(), 0);
    };
    const std::lock_guard lock(mutex_);
    for (auto it = kept_.lower_bound(from); it != kept_.end(); ++it) answer(Number(it->first), it->second);
    answer(Number(UINT64_MAX), "");
  }

  void* const context_ = zmq_ctx_new();
  std::string url_;
  std::string replay_url_;
  void* live_ = nullptr;
  void* replay_ = nullptr;
  std::mutex mutex_;
  std::map<uint64_t, std::string> kept_;
  std::jthread replaying_;
};

}  // namespace tests
