// Many clients at once, each with its own random habits: whole answers and streams, some read to the end,
// some left in the middle.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "conf/json_parse.h"
#include "scheduler/rng.h"
#include "tests/support/gateway_process.h"

namespace tests {

// The figures that a client with a complete answer was told.
struct Seen {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

struct HammerOptions {
  int clients = 8;
  uint64_t seed = 1;
  uint64_t leave_percent = 20;  // of the requests, whose clients leave in the middle
  int max_tokens = 12;
};

class Hammer {
 public:
  Hammer(uint16_t port, HammerOptions options) : port_(port), options_(options) {
    for (int i = 0; i < options.clients; ++i) {
      threads_.emplace_back([this, i] { Run(options_.seed * 1000 + static_cast<uint64_t>(i)); });
    }
  }
  ~Hammer() { Stop(); }

  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  // Until so many requests have been sent and so many answers have come whole; false when that takes a
  // minute.
  bool Sends(uint64_t requests, size_t answers = 0) {
    return Within(milliseconds(60'000), [&] {
      const std::lock_guard lock(mutex_);
      return sent_ >= requests && whole_.size() >= answers;
    });
  }

  // After Stop(): answers that came whole, by request id, and how many came with each status.
  const std::map<std::string, Seen>& whole() const { return whole_; }
  const std::map<int, uint64_t>& statuses() const { return statuses_; }
  uint64_t sent() const { return sent_; }

 private:
  void Run(uint64_t seed) {
    scheduler::Rng rng(seed);
    auto client = std::make_unique<RawClient>(port_);
    while (!stopping_) {
      if (!client->connected()) Pause(milliseconds(5));
      const bool stream = rng.Uniform(2) == 0;
      const bool leave = rng.Uniform(100) < options_.leave_percent;
      Json more{{"stream", stream},
                {"max_tokens", 1 + rng.Uniform(static_cast<uint64_t>(options_.max_tokens))}};
      if (stream) more["stream_options"] = {{"include_usage", true}};
      ++sent_;
      bool reuse = client->Send(Chat(more));
      if (reuse && leave) {
        Pause(milliseconds(static_cast<int64_t>(rng.Uniform(15))));
        rng.Uniform(2) == 0 ? client->Reset() : client->Close();
        reuse = false;
      } else if (reuse) {
        const Answer answer = client->Read(milliseconds(20'000));
        Note(answer, stream);
        reuse = answer.whole && answer.header("connection") != "close";
      }
      if (!reuse) client = std::make_unique<RawClient>(port_);
    }
  }

  void Note(const Answer& answer, bool stream) {
    const std::lock_guard lock(mutex_);
    ++statuses_[answer.status];
    if (answer.status != 200 || !answer.whole) return;
    Json last = answer.json();
    if (stream) {
      const size_t end = answer.body.rfind("data: [DONE]");
      if (end == std::string::npos) return;
      const size_t data = answer.body.rfind("data: ", end - 1) + 6;
      last = conf::ParseJson(answer.body.substr(data, end - data));
    }
    if (!last.is_object() || !last.contains("usage") || !last["usage"].is_object()) return;
    whole_[answer.header("x-request-id")] = {last["usage"]["prompt_tokens"],
                                             last["usage"]["completion_tokens"]};
  }

  const uint16_t port_;
  const HammerOptions options_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> sent_{0};
  std::mutex mutex_;
  std::map<std::string, Seen> whole_;
  std::map<int, uint64_t> statuses_;
  std::vector<std::thread> threads_;
};

}  // namespace tests
