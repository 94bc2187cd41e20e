#include "gateway/process/open_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/audit/stored_position.h"
#include "gateway/config/state_files.h"
#include "gateway/control/legacy_files.h"
#include "gateway/people/key_import.h"
#include "gateway/store/import.h"
#include "gateway/store/sqlite_store.h"

namespace gateway {
namespace {

// What earlier versions kept in files of their own.
store::Import (*const kImports[])(const std::string& state_dir) = {KeysOfVersion01, SinkPositionsOfVersion01};

net::Task<absl::Status> RunImports(store::Store& store, std::string state_dir) {
  for (const auto import : kImports) {
    if (absl::Status done = co_await store::RunImport(store, state_dir, import(state_dir)); !done.ok())
      co_return done;
  }
  co_return absl::OkStatus();
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The first entry of a folder with that ending; empty: there is none.
std::string FirstEntry(const std::string& folder, std::string_view ending) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().native().ends_with(ending)) return entry->path();
  }
  return {};
}

absl::Status Damaged(const absl::Status& why, const std::string& trace) {
  const std::string shown =
      trace.empty() ? "" : fmt::format(", and {} shows that a gateway has kept its state here", trace);
  return absl::DataLossError(
      fmt::format("{}{}. Nothing is started, since that file lists the keys and the workloads: restore "
                  "it from a backup, or run: tidegate state rebuild --config FILE",
                  conf::Std(why.message()), shown));
}

}  // namespace

// Version 0.1 had a ledger and no store.
std::vector<std::string> FilesBeforeStore(const std::string& state_dir) {
  std::vector<std::string> files = {control::kLegacyJobs, control::kLegacyReplicas};
  for (const auto import : kImports) {
    for (std::string& file : import(state_dir).files) files.push_back(std::move(file));
  }
  std::erase_if(files, [&](const std::string& file) { return !Exists(state_dir + "/" + file); });
  return files;
}

std::string TraceOfStore(const std::string& state_dir) {
  if (!FilesBeforeStore(state_dir).empty()) return {};
  if (std::string segment = FirstEntry(LedgerDir(state_dir), ".jsonl"); !segment.empty()) return segment;
  if (std::string run = FirstEntry(LauncherDir(state_dir) + "/runs", ""); !run.empty()) return run;
  const std::string token = LauncherDir(state_dir) + "/token";
  return Exists(token) ? token : std::string();
}

absl::StatusOr<std::unique_ptr<store::Store>> OpenState(net::Loop& loop, const std::string& state_dir,
                                                        bool keeps_room) {
  std::error_code error;
  std::filesystem::create_directories(state_dir, error);
  if (error) {
    return absl::FailedPreconditionError(fmt::format("state_dir {}: {}", state_dir, error.message()));
  }
  const std::string trace = TraceOfStore(state_dir);
  store::SqliteStoreOptions options;
  options.file.path = StorePath(state_dir);
  options.file.may_be_new = trace.empty();
  options.file.keeps_room = keeps_room;
  auto store = store::OpenSqliteStore(loop, std::move(options));
  if (absl::IsDataLoss(store.status())) return Damaged(store.status(), trace);
  if (!store.ok()) return store.status();
  if (absl::Status imported = net::Await(loop, RunImports(**store, state_dir)); !imported.ok())
    return imported;
  return store;
}

}  // namespace gateway
