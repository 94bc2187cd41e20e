#include "gateway/store/import.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "conf/text.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/digest.h"

namespace gateway::store {
namespace {

using nlohmann::json;

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
    Found found{name, folder + "/" + name, false, ""};
    std::error_code error;
    if (!std::filesystem::exists(found.path, error)) continue;
    std::ifstream file(found.path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (!file) return absl::UnavailableError(fmt::format("{}: cannot be read", found.path));
    found.empty = text.empty();
    found.sha256 = plugins::auth::ToHex(plugins::auth::Sha256(text));
    all.push_back(std::move(found));
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
    if ((again ? unlink(file.path.c_str()) : std::rename(file.path.c_str(), to.c_str())) != 0 &&
        errno != ENOENT) {
      return absl::UnavailableError(
          fmt::format("{}: cannot be renamed to {}: {}", file.path, to, std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

// Compares the imported objects with the stored ones.
absl::Status CheckSame(const Object& record, const std::vector<Found>& files) {
  const json body = json::parse(record.body, nullptr, false);
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
