// Discovery: the sources of all models' endpoints, what they have found, and the endpoints that this makes.
//
// Models with the same source share it. A reload keeps the sources that stay, with what they have found. Changes are
// told in batches, at most ten times a second, so that a surge of a thousand addresses swaps few runtimes.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/config/config.h"
#include "gateway/discovery/source.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"

namespace gateway::discovery {

struct SourceStatus {
  std::string source;               // as config::SourceOf has it
  std::vector<std::string> models;  // that use it, by name
  bool found = false;               // it has answered since it is followed
  size_t addresses = 0;
  uint64_t changes = 0;  // of its addresses
  conf::TimePoint changed_at{};
  std::string trouble;  // why the last addresses stay; empty: none
};

class Discovery final : private net::Alarm {
 public:
  static constexpr conf::Duration kBatch = std::chrono::milliseconds(100);

  using MakeSource = std::function<std::shared_ptr<Source>(const config::Discovery&, Source::Listener)>;

  // `changed`: the addresses are others, so that Endpoints() is to be used anew.
  Discovery(net::Loop& loop, MakeSource make, std::function<void()> changed);
  ~Discovery() override;

  // Follows the sources of this configuration, and no others. It is the one in use until the next call.
  void Configure(const Config& config);
  void Stop();

  // The endpoints that are known now, by model. Those of the configuration in use stay the same objects while their
  // addresses do.
  Launched Endpoints(const Config& config) const;

  std::vector<SourceStatus> status() const;

 private:
  struct Followed {
    config::Discovery of;
    std::shared_ptr<Source> source;
    Targets targets;
    SourceStatus status;
  };
  using Made = std::map<std::string, std::shared_ptr<const config::Endpoint>>;  // by URL

  void OnAlarm() override;
  void Found(const std::string& key, Targets targets);
  void Trouble(const std::string& key, std::string why);
  void AddEndpoints(const config::Model& model, const Targets& targets, const config::Endpoint& from,
                    Made& known, std::vector<std::shared_ptr<const config::Endpoint>>& out) const;

  const MakeSource make_;
  const std::function<void()> changed_;
  std::map<std::string, Followed> followed_;                          // by KeyOf
  const Config* in_use_ = nullptr;                                    // only compared
  mutable std::map<std::pair<std::string, std::string>, Made> made_;  // of it, by model and endpoint
  conf::TimePoint told_at_{};
};

}  // namespace gateway::discovery
