#include "gateway/process/open_state.h"

#include <fmt/format.h>

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/audit/stored_position.h"
#include "gateway/config/sources.h"
#include "gateway/config/state_files.h"
#include "gateway/control/workloads/legacy_files.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/people/key_import.h"
#include "gateway/process/state_owner.h"
#include "gateway/store/gateway_view.h"
#include "gateway/store/import.h"
#include "gateway/store/sqlite_store.h"

namespace gateway {
namespace {

constexpr size_t kGatewayIdDigits = 16;

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
  GiveToOwner(state_dir);
  if (absl::Status imported = net::Await(loop, RunImports(**store, state_dir)); !imported.ok())
    return imported;
  return store;
}

absl::StatusOr<std::string> GatewayId(const std::string& state_dir) {
  const std::string path = GatewayIdPath(state_dir);
  absl::StatusOr<std::string> kept = net::ReadFile(path, kGatewayIdDigits + 1);
  if (kept.ok()) {
    while (kept->ends_with('\n')) kept->pop_back();
    std::array<uint8_t, kGatewayIdDigits / 2> bytes{};
    if (conf::ParseHex(*kept, bytes)) return kept;
    return absl::DataLossError(
        fmt::format("{}: does not have {} hexadecimal digits; restore it, since the shared store knows this "
                    "gateway by it",
                    path, kGatewayIdDigits));
  }
  if (!absl::IsNotFound(kept.status())) return kept;
  std::array<uint8_t, kGatewayIdDigits / 2> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return absl::UnavailableError("the system has no random bytes for the id of the gateway");
  std::string id = conf::Hex(random);
  if (absl::Status written = net::ReplaceFile(path, id, 0600); !written.ok()) return written;
  GiveToOwner(state_dir);
  return id;
}

absl::StatusOr<std::optional<UsageOfOthers>> FindUsageOfOthers(const Config& config) {
  if (!config.state) return std::nullopt;
  constexpr size_t kMostPem = 4096;
  const absl::StatusOr<std::string> gateway = GatewayId(config.server.state_dir);
  if (!gateway.ok()) return gateway.status();
  const absl::StatusOr<std::string> key = net::ReadFile(LedgerDir(config) + "/signing.pub", kMostPem);
  if (!key.ok()) return key.status();
  absl::StatusOr<std::string> source = UsageSource(*gateway, *key);
  if (!source.ok()) return source.status();
  return UsageOfOthers{.copy_path = UsageCopyPath(config.server.state_dir), .source = *std::move(source)};
}

absl::StatusOr<store::PostgresStoreOptions> PostgresOptions(const config::State& state) {
  if (const auto name = MissingVariable(state.password.Reveal())) {
    return absl::FailedPreconditionError(
        fmt::format("state.password: the environment variable {} is not set; set it for this command as for "
                    "the gateway",
                    *name));
  }
  store::PostgresStoreOptions options;
  options.server.url = state.full_url();
  options.server.password = state.password.Reveal();
  options.server.ca = state.ca;
  options.server.certificate = state.certificate;
  options.server.key = state.key;
  options.patience = state.timeout;
  options.connect_patience = state.timeout;
  options.seed = static_cast<uint64_t>(net::Now().time_since_epoch().count());
  options.on_restored = [](const std::string& what) {
    log::Error("the state is of another server than before", {{"what", what}});
  };
  return options;
}

absl::StatusOr<std::unique_ptr<store::Store>> OpenBareState(net::Loop& loop, const Config& config,
                                                            std::optional<conf::Duration> patience) {
  if (!config.state) {
    store::SqliteStoreOptions options;
    options.file.path = StorePath(config.server.state_dir);
    options.file.may_be_new = TraceOfStore(config.server.state_dir).empty();
    if (patience) options.patience = *patience;
    auto store = store::OpenSqliteStore(loop, std::move(options));
    GiveToOwner(config.server.state_dir);
    return store;
  }
  absl::StatusOr<store::PostgresStoreOptions> options = PostgresOptions(*config.state);
  if (!options.ok()) return options.status();
  if (patience) options->patience = *patience;
  auto store = std::make_unique<store::PostgresStore>(loop, *std::move(options));
  const auto checked = net::Await(loop, store->Check());
  if (!checked.ok()) return checked.status();
  return store;
}

absl::StatusOr<std::unique_ptr<store::Store>> OpenState(net::Loop& loop, const Config& config,
                                                        bool keeps_room) {
  const std::string& state_dir = config.server.state_dir;
  if (!config.state) return OpenState(loop, state_dir, keeps_room);
  std::error_code error;
  std::filesystem::create_directories(state_dir, error);
  if (error)
    return absl::FailedPreconditionError(fmt::format("state_dir {}: {}", state_dir, error.message()));
  absl::StatusOr<std::string> gateway = GatewayId(state_dir);
  if (!gateway.ok()) return gateway.status();
  auto shared = OpenBareState(loop, config);
  if (!shared.ok()) return shared.status();
  auto store = std::make_unique<store::GatewayView>(*std::move(shared), *std::move(gateway));
  if (absl::Status imported = net::Await(loop, RunImports(*store, state_dir)); !imported.ok())
    return imported;
  return store;
}

}  // namespace gateway
