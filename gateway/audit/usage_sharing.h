// UsageSharing: reports to the other gateways of a store what this one's ledger has counted, and keeps a copy
// of their reports (usage_copy.h), so that each answers usage queries for all.
//
// What is told follows from the ledger's index: the hours that have changed since the record that the own mark in the
// store names, each whole. So a gateway that was killed goes on where the store has it, nothing is counted twice, and
// nothing is lost that the ledger has. While the store does not answer, nothing is told, and the copy stays.
//
// Owner: the Process; destroyed after the loop's tasks have ended. Thread: the control loop's; files are read and
// written on others.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/audit/usage_copy.h"
#include "gateway/net/loop.h"
#include "gateway/store/store.h"

namespace gateway {

class UsageSharing {
 public:
  struct Options {
    std::string source;   // of this gateway's ledger; usage_rollup.h
    std::string gateway;  // its name
    std::string ledger_dir;
    std::string copy_path;
    std::optional<conf::Duration> retention = {};  // of the ledger; also of what gateways told that are gone
    conf::Duration interval = std::chrono::seconds(15);  // between two times of telling
    conf::Duration follow_interval = std::chrono::seconds(5);
  };

  // All must outlive it. `flush`: what was recorded before the call is in the ledger's files; blocks.
  UsageSharing(net::Loop& loop, store::Store& store, Options options, std::function<absl::Status()> flush);

  void Start();
  // Tells the rest, if the store answers, and that this gateway has stopped.
  net::Task<void> Stop();
  // Without Stop().
  void Abandon();

  // When all that was recorded until then was told; nothing: not yet in this process.
  std::optional<conf::TimePoint> told_at() const { return told_at_; }
  const std::string& trouble() const { return trouble_; }

 private:
  // One time of telling, in as many transactions as it takes.
  struct Telling {
    bool closed = false;
    std::optional<UsageMark> mark = {};     // of when it began; the last transaction has it
    std::optional<int64_t> told_hour = {};  // all up to this one are told
  };
  // What one transaction tells.
  struct Plan {
    std::vector<store::Write> writes;
    bool more = false;  // another transaction follows
  };

  net::Task<void> Run();
  net::Task<absl::Status> Once();
  net::Task<absl::Status> Follow();
  net::Task<absl::Status> Load();
  net::Task<absl::Status> Tell(bool closed);
  net::Task<absl::Status> RemoveGone();
  absl::StatusOr<Plan> MakePlan(Telling& telling);
  absl::Status AddHour(ledger::Index& index, int64_t hour, std::vector<store::Write>& writes);
  absl::StatusOr<std::vector<store::Write>> Outdated(conf::TimePoint now);
  void Note(const absl::Status& status);

  net::Loop& loop_;
  store::Store& store_;
  const Options options_;
  const std::function<absl::Status()> flush_;
  std::unique_ptr<UsageCopy> copy_;
  std::optional<uint64_t> number_;  // that the copy shows
  uint64_t noted_ = 0;              // that its file says
  conf::TimePoint tell_at_{};
  conf::TimePoint remove_at_{};
  std::optional<conf::TimePoint> told_at_;
  std::string trouble_;
  net::Sleep pause_;
  bool running_ = false;
  bool stopped_ = false;
};

}  // namespace gateway
