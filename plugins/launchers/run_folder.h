// RunFolder: the files of one run. RunStore: the folder of all runs, which one gateway at a time holds.
//
//   DIR/lock, DIR/token, DIR/runs/ID/{run.json,result,log,log.1}
//
// `run.json` is the gateway's, `result` the wrapper's, and the logs are the run's own. Logs may lie in a
// folder of their own, on another disk: LOGS/ID.log and LOGS/ID.log.1.
//
// Blocks: off the loop, or before it runs.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "gateway/net/fd.h"
#include "plugins/launchers/run_record.h"

namespace plugins::launchers {

class RunFolder {
 public:
  explicit RunFolder(std::string path) : RunFolder(path, path + "/log") {}
  RunFolder(std::string path, std::string log) : path_(std::move(path)), log_(std::move(log)) {}

  const std::string& path() const { return path_; }
  std::string record() const { return path_ + "/run.json"; }
  std::string result() const { return path_ + "/result"; }
  const std::string& log() const { return log_; }

  absl::Status Make() const;
  absl::Status Save(const RunRecord& record) const;
  // NotFound: there is no record. DataLoss: the file is no record, or another run's.
  absl::StatusOr<RunRecord> Load() const;
  // The record first: a folder without one is no run. Files of others stay, and so does their folder.
  absl::Status Remove() const;

 private:
  std::string path_;
  std::string log_;
};

// Whether this can be the id of a run.
bool IsRunId(std::string_view id);

class RunStore {
 public:
  // FailedPrecondition when another gateway has it. `logs`: the folder of the runs' logs, which is made;
  // empty: each log lies in its run's folder.
  static absl::StatusOr<RunStore> Open(const std::string& dir, const std::string& logs = {});

  // Marks the processes of this store's runs.
  const std::string& token() const { return token_; }
  // A process that has a copy of this descriptor holds the store.
  int lock() const { return lock_.get(); }
  RunFolder Folder(std::string_view id) const;
  // Names of the existing folders, in order.
  absl::StatusOr<std::vector<std::string>> Ids() const;

 private:
  RunStore(std::string dir, std::string logs, gateway::net::Fd lock, std::string token)
      : dir_(std::move(dir)), logs_(std::move(logs)), lock_(std::move(lock)), token_(std::move(token)) {}

  std::string dir_;
  std::string logs_;
  gateway::net::Fd lock_;
  std::string token_;
};

}  // namespace plugins::launchers
