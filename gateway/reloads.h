// Reloads: reads the configuration file again, one time after the other, and offers it to whoever runs by it.
// What is refused, and why, is logged, recorded by who offered it, and kept for operators; the configuration
// that runs stays. Control loop's thread.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>
#include <string_view>

#include "gateway/admin/turns.h"
#include "gateway/config.h"
#include "gateway/ledger/record.h"
#include "gateway/net/loop.h"
#include "gateway/net/task.h"
#include "gateway/operations.h"

namespace gateway {

class Reloads {
 public:
  // Applies all of it, or nothing.
  using Replace = std::function<net::Task<absl::Status>(Config config, std::string_view actor)>;
  using Record = std::function<void(ledger::Event)>;

  Reloads(net::Loop& control, std::string config_path, Replace replace, Record record);

  net::Task<absl::Status> Reload(std::string actor);
  // The same, without waiting for it: what comes of it is logged.
  void Start(std::string actor);
  // From now on all are refused, those that wait for their turn, too.
  void Stop() { stopping_ = true; }

  size_t under_way() const { return under_way_; }  // or waiting for their turn
  const ReloadState& state() const { return state_; }

 private:
  // What was found of a configuration that is not taken.
  struct Offered {
    std::string file_sha256;  // empty: the file could not be read
    size_t problems = 1;
  };
  net::Task<absl::Status> InTurn(std::string actor);
  net::Task<absl::Status> LoadAndReplace(std::string_view actor, Offered& offered);
  LoadResult Load(Offered& offered) const;
  void RecordRefusal(std::string_view actor, const Offered& offered);

  net::Loop& control_;
  const std::string config_path_;
  const Replace replace_;
  const Record record_;
  admin::Turns turns_;
  ReloadState state_;
  size_t under_way_ = 0;
  bool stopping_ = false;
};

}  // namespace gateway
