// Replayer: sends the calls of a trace at their times, whatever is still running (an open loop).
//
// The next call's body is made while its time is waited for, so that making it does not make it late. Thread:
// the loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/client/client.h"
#include "bench/replay/prompt.h"
#include "bench/replay/report.h"
#include "bench/replay/traffic_file.h"
#include "scheduler/rng.h"

namespace bench {

// One time that a call was sent, which has its own x-request-id ("CALL.ATTEMPT").
struct Attempt {
  std::string id;
  std::string model;
  const Answer& answer;
};

struct ReplayOptions {
  double speed_up = 1;
  bool stream = true;
  std::vector<std::string> models;  // taken in turn
  uint32_t retries = 0;             // of one call, as the official SDKs make them
  std::function<void(const Attempt&)> on_attempt = [](const Attempt&) {};
};

class Replayer {
 public:
  Replayer(gateway::net::Loop& loop, Client& client, const std::vector<Call>& calls, const Prompts& prompts,
           ReplayOptions options);

  // Returns when every call has ended. `on_progress` is called about five times a second.
  void Run(std::function<void()> on_progress);

  const std::vector<Call>& calls() const { return calls_; }
  size_t sent() const { return sent_; }
  size_t running() const { return client_.running(); }
  // Until the last call is sent.
  conf::Duration TimeLeft() const;
  Report& report() { return report_; }

 private:
  gateway::net::Task<void> Send();
  gateway::net::Task<void> CallOne(size_t index, std::string body, conf::Duration late);
  gateway::net::Task<Answer> Try(size_t index, std::string body);
  const std::string& ModelOf(size_t index) const { return options_.models[index % options_.models.size()]; }
  gateway::net::Task<void> Progress(std::function<void()> on_progress);
  std::string MakeBody(size_t index) const;
  conf::TimePoint TimeOf(size_t index) const;

  gateway::net::Loop& loop_;
  Client& client_;
  const std::vector<Call>& calls_;
  const Prompts& prompts_;
  const ReplayOptions options_;
  conf::TimePoint begin_;
  size_t sent_ = 0;
  size_t ended_ = 0;
  scheduler::Rng rng_{1};
  gateway::net::Sleep progress_sleep_;
  Report report_;
};

}  // namespace bench
