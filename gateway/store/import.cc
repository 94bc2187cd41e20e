#include "gateway/store/import.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/hex.h"
#include "conf/json_parse.h"
#include "gateway/net/files.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/digest.h"

namespace gateway::store {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = size_t{1} << 30;  // of a file

struct Found {
  std::string name;
  std::string path;
  bool empty = false;
  std::string sha256;
};

absl::StatusOr<std::vector<Found>> FindFiles(const std::string& folder,
                                             const std::vector<std::string>& names) {
  std::vector<Found> all;
  for (const std::string& name : names) {
    std::string path = folder + "/" + name;
    const absl::StatusOr<std::string> text = net::ReadFile(path, kMostBytes);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    all.push_back({name, std::move(path), text->empty(), conf::Hex(plugins::auth::Sha256(*text))});
  }
  return all;
}

// A rename that a power cut takes back is done again at the next start.
absl::Status Rename(const std::vector<Found>& files) {
  for (const Found& file : files) {
    const std::string to = file.path + kImportedSuffix;
    std::error_code error;
    // An empty one was made again by an older gateway that wrote nothing; the first one is kept.
    const bool again = file.empty && std::filesystem::exists(to, error);
    const absl::Status moved = again ? net::RemoveFile(file.path) : net::RenameFile(file.path, to);
    if (!moved.ok() && !absl::IsNotFound(moved)) return moved;
  }
  return absl::OkStatus();
}

// Compares the imported objects with the stored ones.
absl::Status CheckSame(const Object& record, const std::vector<Found>& files) {
  const json body = conf::ParseJson(record.body);
  for (const Found& file : files) {
    const bool same = body.is_object() && body.contains(file.name) && body[file.name] == file.sha256;
    if (same || file.empty) continue;
    return absl::FailedPreconditionError(
        fmt::format("{}: was imported into the store before, and has changed since: an older gateway has "
                    "written it. The changes are ignored; move the file away to continue without them",
                    file.path));
  }
  return absl::OkStatus();
}

}  // namespace

net::Task<absl::Status> RunImport(Store& store, std::string folder, Import import) {
  const absl::StatusOr<std::vector<Found>> files = FindFiles(folder, import.files);
  if (!files.ok()) co_return files.status();
  if (files->empty()) co_return absl::OkStatus();
  absl::StatusOr<std::optional<Object>> record = co_await store.Get(kImport, import.name);
  if (!record.ok()) co_return record.status();
  if (!*record) {
    absl::StatusOr<std::vector<Write>> writes = import.read(folder);
    if (!writes.ok()) co_return writes.status();
    json body = json::object();
    for (const Found& file : *files) body[file.name] = file.sha256;
    writes->push_back(Write::Create(kImport, import.name, body.dump()));
    const absl::StatusOr<Committed> committed = co_await store.Commit(*std::move(writes));
    if (committed.ok()) co_return Rename(*files);
    if (!absl::IsAborted(committed.status())) co_return committed.status();
    record = co_await store.Get(kImport, import.name);  // another process was first
    if (!record.ok()) co_return record.status();
    if (!*record) co_return committed.status();
  }
  if (absl::Status same = CheckSame(**record, *files); !same.ok()) co_return same;
  co_return Rename(*files);
}

}  // namespace gateway::store
