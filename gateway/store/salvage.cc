#include "gateway/store/salvage.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "gateway/net/files.h"
#include "gateway/store/sqlite.h"

namespace gateway::store {
namespace {

constexpr uint64_t kMostTries = 2'000'000;  // of numbers behind a page that cannot be read

// A copy that goes with it.
class Copy {
 public:
  explicit Copy(std::string path) : path_(std::move(path)) { Remove(); }
  ~Copy() { Remove(); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  absl::Status Take(const std::string& from) const {
    for (const char* part : {"", "-wal"}) {
      std::error_code error;
      if (!std::filesystem::exists(from + part, error)) continue;
      std::filesystem::copy_file(from + part, path_ + part, error);
      if (error) return net::SystemError("copy", from + part, error.value());
    }
    return absl::OkStatus();
  }
  const std::string& path() const { return path_; }

 private:
  void Remove() const {
    for (const char* part : {"", "-wal", "-shm"}) net::RemoveFile(path_ + part).IgnoreError();
  }

  const std::string path_;
};

class Reader {
 public:
  explicit Reader(sqlite::Database& db) : db_(db) {}

  void Read(Salvaged& out) {
    absl::StatusOr<sqlite::Statement> rows = db_.Prepare(
        "SELECT version, kind, id, body FROM objects NOT INDEXED WHERE version > ? ORDER BY version");
    if (!rows.ok()) return;
    const uint64_t last = LastOfSequence();
    out.last = std::max(out.last, last);
    const uint64_t until = last > 0 ? last : kMostTries;
    uint64_t after = 0;
    bool damaged = false;
    for (uint64_t tries = 0; tries < kMostTries; ++tries) {
      rows->Bind(1, static_cast<int64_t>(after));
      absl::StatusOr<bool> row = rows->Step();
      for (; row.ok() && *row; row = rows->Step()) after = Take(*rows);
      rows->Reset();
      if (row.ok()) break;
      damaged = true;
      if (++after > until) break;
    }
    out.last = std::max(out.last, last_seen_);
    out.complete = !damaged;
    std::vector<Object> objects;
    for (auto& [name, object] : objects_) objects.push_back(std::move(object));
    std::ranges::sort(objects, {}, &Object::version);
    out.objects = std::move(objects);
  }

 private:
  uint64_t Take(const sqlite::Statement& row) {
    const auto version = static_cast<uint64_t>(row.Int(0));
    last_seen_ = std::max(last_seen_, version);
    Object object{row.Text(1), row.Text(2), version, row.Text(3)};
    if (row.IsNull(3)) {
      objects_.erase({object.kind, object.id});
    } else {
      objects_[{object.kind, object.id}] = std::move(object);
    }
    return version;
  }

  uint64_t LastOfSequence() {
    const absl::StatusOr<int64_t> last = db_.QueryInt("SELECT max(last) FROM sequence");
    return last.ok() && *last > 0 ? static_cast<uint64_t>(*last) : 0;
  }

  sqlite::Database& db_;
  uint64_t last_seen_ = 0;
  std::map<std::pair<std::string, std::string>, Object> objects_;
};

}  // namespace

absl::StatusOr<Salvaged> Salvage(const std::string& path) {
  Salvaged out;
  std::error_code error;
  if (!std::filesystem::exists(path, error) || std::filesystem::file_size(path, error) == 0) return out;
  const Copy copy(path + ".salvage");
  if (absl::Status taken = copy.Take(path); !taken.ok()) return taken;
  const auto db = sqlite::Database::Open(copy.path(), sqlite::Database::Sync::kNormal);
  if (db.ok()) Reader(**db).Read(out);
  return out;
}

}  // namespace gateway::store
