#include "gateway/process/open_state.h"

#include <fmt/format.h>

#include <filesystem>

#include "gateway/audit/stored_position.h"
#include "gateway/config/state_files.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<store::Store>> OpenState(net::Loop& loop, const std::string& state_dir) {
  std::error_code error;
  std::filesystem::create_directories(state_dir, error);
  if (error) {
    return absl::FailedPreconditionError(fmt::format("state_dir {}: {}", state_dir, error.message()));
  }
  store::SqliteStoreOptions options;
  options.file.path = StorePath(state_dir);
  auto store = store::OpenSqliteStore(loop, std::move(options));
  if (!store.ok()) return store.status();
  if (absl::Status imported = net::Await(loop, RunImports(**store, state_dir)); !imported.ok())
    return imported;
  return store;
}

}  // namespace gateway
