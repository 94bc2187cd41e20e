// RunFolder: what is on disk of one run: `run.json`, `log`, `log.1`. RunStore: the folder of all of them,
// which one gateway at a time has.
//
//   DIR/lock, DIR/token, DIR/runs/ID/{run.json,log,log.1}
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
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string record() const { return path_ + "/run.json"; }
  std::string log() const { return path_ + "/log"; }

  absl::Status Make() const;
  absl::Status Save(const RunRecord& record) const;
  // NotFound: there is no record. DataLoss: what is there is none, or is another's.
  absl::StatusOr<RunRecord> Load() const;
  // Its record first: without one there is no run. What is not ours stays.
  absl::Status Remove() const;

 private:
  std::string path_;
};

// Whether a run may be called so.
bool IsRunId(std::string_view id);

class RunStore {
 public:
  // FailedPrecondition when another gateway has it.
  static absl::StatusOr<RunStore> Open(const std::string& dir);

  // Marks the processes of this store's runs.
  const std::string& token() const { return token_; }
  // Whoever has a copy of it has the store.
  int lock() const { return lock_.get(); }
  RunFolder Folder(std::string_view id) const { return RunFolder(dir_ + "/runs/" + std::string(id)); }
  // Names of the folders that are there, in order.
  absl::StatusOr<std::vector<std::string>> Ids() const;

 private:
  RunStore(std::string dir, gateway::net::Fd lock, std::string token)
      : dir_(std::move(dir)), lock_(std::move(lock)), token_(std::move(token)) {}

  std::string dir_;
  gateway::net::Fd lock_;
  std::string token_;
};

}  // namespace plugins::launchers
