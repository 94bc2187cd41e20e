// Reloads: reads the configuration file again, one reload at a time, and passes it to `Replace`. A refused
// configuration is logged, recorded with its actor, and kept for operators with the reason; the running one
// stays. Control loop's thread.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>
#include <string_view>

#include "gateway/admin/operations.h"
#include "gateway/config/load.h"
#include "gateway/ledger/record.h"
#include "gateway/net/async_mutex.h"
#include "gateway/net/loop.h"
#include "gateway/net/task.h"

namespace gateway {

class Reloads {
 public:
  // Applies the whole configuration, or nothing.
  using Replace = std::function<net::Task<absl::Status>(Config config, std::string_view actor)>;
  using Record = std::function<void(ledger::Event)>;

  Reloads(net::Loop& control, std::string config_path, Replace replace, Record record);

  net::Task<absl::Status> Reload(std::string actor);
  // The same without waiting; the result is logged.
  void Start(std::string actor);
  // Refuses all reloads from now on, also those that wait for their turn.
  void Stop() { stopping_ = true; }

  size_t under_way() const { return under_way_; }  // or waiting for their turn
  const ReloadState& state() const { return state_; }

 private:
  // The facts of a configuration that was refused.
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
  net::AsyncMutex turns_;
  ReloadState state_;
  size_t under_way_ = 0;
  bool stopping_ = false;
};

}  // namespace gateway
