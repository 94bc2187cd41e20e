// ServedElsewhere: reports to the leader, through the store, which tenants this gateway has served. The leader reads
// the reports of the others: it shares device time by the tokens of all gateways, not of its own alone.
//
// A follower writes sums that only grow, in an object of the kind store::kServed by its name, at most every two
// seconds and only when they have changed. The leader takes the differences; reports from before its term belong to
// its predecessor. Sums that would fall begin anew, with another `start`; sums of replicas that are gone are dropped.
//
// Owner: the ControlPlane of a gateway that shares its store; destroyed after the loop's tasks have ended. Thread: the
// control loop's; the ledger works on another thread. Bounded: kMostSums and half of an object of a gateway, gateways
// as in Gateways.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/control/metering/metering.h"
#include "gateway/net/loop.h"
#include "gateway/store/follower.h"

namespace gateway::control {

// Weights of tokens, by tenant and replica.
using ServedSums = std::map<std::pair<std::string, std::string>, uint64_t>;

struct ServedRecord {
  std::string start{};  // sums of different starts are not compared
  ServedSums sums{};

  bool operator==(const ServedRecord&) const = default;
};
std::string BodyOf(const ServedRecord& record);
// DataLoss: the body is no such record.
absl::StatusOr<ServedRecord> ReadServed(std::string_view gateway, std::string_view body);

class ServedElsewhere {
 public:
  static constexpr size_t kMostSums = 4'000;
  static constexpr size_t kMostGateways = 256;

  struct Options {
    std::string name;   // of this gateway
    std::string start;  // unique for each process
    conf::Duration interval = std::chrono::seconds(2);
    // Whether the replica exists. Sums of replicas that are gone are dropped after `prune`.
    std::function<bool(const std::string& replica)> knows = [](const std::string&) { return true; };
    conf::Duration prune = std::chrono::minutes(1);
  };

  // Both must outlive it. Only the served tokens of `ledger` are taken, and only while `leads` is false.
  ServedElsewhere(net::Loop& loop, store::Store& store, Options options, std::unique_ptr<MeterLedger> ledger,
                  std::function<bool()> leads);

  net::Task<absl::Status> Start();
  void Stop();
  // No task of it is under way.
  bool idle() const { return !running_; }

  // A term of this gateway begins: earlier reports do not belong to it.
  void BeginTerm();
  // The reports of others since the last call, or since the term began.
  std::vector<ledger::Served> TakeNew();
  // Removes the reports of gateways that are not `known` any more. The leader calls it now and then.
  net::Task<void> RemoveGone(uint64_t epoch, std::set<std::string> known);

 private:
  struct Told {
    uint64_t version = 0;
    ServedRecord record;
    ServedSums news;  // since TakeNew(); only a leader fills it
  };

  net::Task<void> Run();
  net::Task<absl::Status> Tell();
  net::Task<absl::Status> Write();
  void AddWaiting();
  void Prune(conf::TimePoint now);
  void Take(const std::string& gateway, uint64_t version, const std::string& body);

  net::Loop& loop_;
  store::Store& store_;
  const Options options_;
  const std::unique_ptr<MeterLedger> ledger_;
  const std::function<bool()> leads_;
  store::Follower follower_;
  std::map<std::string, Told> told_;     // by gateway
  std::vector<ledger::Served> waiting_;  // for room in the sums
  ServedRecord own_;
  size_t bytes_ = 0;            // estimated size of `own_`
  std::set<std::string> gone_;  // replicas that were not there at the last look
  conf::TimePoint next_prune_{};
  uint64_t begun_ = 0;    // times that the own sums began anew
  uint64_t version_ = 0;  // of the own object; 0: it is not there
  bool untold_ = false;
  net::Sleep pause_;
  bool running_ = false;
  bool stopped_ = false;
};

}  // namespace gateway::control
