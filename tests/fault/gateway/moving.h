// While work moves: callers that ask all the time, and the devices that workloads hold.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/fault/gateway/scaling.h"

namespace tests {

// Asks without a pause until it ends, and counts the answers.
class Callers {
 public:
  explicit Callers(const GatewayProcess& gateway) {
    thread_ = std::thread([this, &gateway] {
      while (!end_) {
        const Answer answer = gateway.Ask(Chat({{"max_tokens", 8}}));
        if (answer.status != 200 && failed_ == 0) first_ = fmt::format("{} {}", answer.status, answer.body);
        ++(answer.status == 200 ? answered_ : failed_);
        Pause(milliseconds(20));
      }
    });
  }
  ~Callers() { End(); }
  void End() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int answered() const { return answered_; }
  int failed() const { return failed_; }
  const std::string& first_failure() const { return first_; }  // after End()

 private:
  std::atomic<bool> end_ = false;
  std::atomic<int> answered_ = 0;
  std::atomic<int> failed_ = 0;
  std::string first_;
  std::thread thread_;
};

// No two workloads hold one device.
inline void ExpectNoDeviceTwice(const Scaled& scaled) {
  const Json nodes = scaled.Admin("/admin/v1/nodes")["data"];
  for (const Json& node : nodes) {
    for (const Json& device : node["each"]) EXPECT_LE(device["held_by"].size(), 1u) << node;
  }
}

}  // namespace tests
