#include "plugins/weights/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/files.h"

namespace plugins::weights {
namespace {

namespace fs = std::filesystem;
using gateway::net::Fd;
using gateway::net::SystemError;

constexpr std::string_view kHidden = ".tidegate";
constexpr uint64_t kDiskFloor = uint64_t{64} << 20;  // that stays free
constexpr size_t kLongestRecord = 64U << 10;

bool IsEntry(std::string_view name) {
  return name.starts_with("sha256-") || name.starts_with("cache-");
}

conf::TimePoint TimeOf(const timespec& time) {
  return conf::TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

void SetTime(int fd, conf::TimePoint now) {
  const int64_t nanos = conf::ToUnixNanos(now);
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec at{.tv_sec = nanos / kSecond, .tv_nsec = nanos % kSecond};
  const timespec both[2] = {at, at};
  futimens(fd, both);
}

absl::Status StoreTrouble(std::string_view what, const std::string& path, const std::error_code& error) {
  return SystemError(what, path, error.value());
}

nlohmann::json AsJson(const StoreRecord& record) {
  return {{"model", record.model},          {"source", record.source},
          {"bytes", record.bytes},          {"files", record.files},
          {"pinned", record.pinned},        {"fetched_us", conf::ToUnixMicros(record.fetched)},
          {"neighbours", record.neighbours}};
}

// The record of an entry; an unreadable one becomes an empty record.
StoreRecord RecordOf(const std::string& path) {
  const absl::StatusOr<std::string> text = gateway::net::ReadFile(path, kLongestRecord);
  StoreRecord record;
  if (!text.ok()) return record;
  const nlohmann::json in = conf::ParseJson(*text);
  if (!in.is_object()) return record;
  try {
    record.model = in.value("model", std::string());
    record.source = in.value("source", std::string());
    record.bytes = in.value("bytes", uint64_t{0});
    record.files = in.value("files", uint32_t{0});
    record.neighbours = in.value("neighbours", uint64_t{0});
    record.pinned = in.value("pinned", false);
    record.fetched = conf::FromUnixMicros(in.value("fetched_us", int64_t{0}));
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return record;
}

}  // namespace

uint64_t TreeBytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator walk(folder, error);
  while (!error && walk != fs::recursive_directory_iterator()) {
    std::error_code gone;  // an engine may remove files of its cache meanwhile
    if (walk->is_regular_file(gone) && !walk->is_symlink(gone)) {
      const uintmax_t size = walk->file_size(gone);
      if (!gone) bytes += size;
    }
    walk.increment(error);
  }
  return bytes;
}

absl::StatusOr<Store> Store::Open(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  Store store(std::move(folder));
  absl::Status made = gateway::net::MakeDirectories(store.Hidden("parts"), 0775);
  if (!made.ok()) return made;
  return store;
}

absl::StatusOr<Store> Store::OpenExisting(std::string folder) {
  std::error_code error;
  if (!fs::is_directory(Store(folder).Hidden("parts"), error))
    return absl::FailedPreconditionError(
        fmt::format("{} is no store of weights; the first fetch into a folder makes it one", folder));
  return Open(std::move(folder));
}

std::string Store::Hidden(std::string_view name) const {
  return fmt::format("{}/{}/{}", folder_, kHidden, name);
}

std::string Store::FolderOf(std::string_view id) const {
  return fmt::format("{}/{}", folder_, id);
}

std::string Store::PartsOf(std::string_view id) const {
  return Hidden(fmt::format("parts/{}", id));
}

absl::StatusOr<Fd> Store::OpenLock(const std::string& path) const {
  return gateway::net::OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0660);
}

absl::StatusOr<std::optional<Fd>> Store::TryLock(const std::string& path) const {
  absl::StatusOr<Fd> fd = OpenLock(path);
  if (!fd.ok()) return fd.status();
  if (flock(fd->get(), LOCK_EX | LOCK_NB) == 0) return std::optional<Fd>(*std::move(fd));
  if (errno == EWOULDBLOCK) return std::optional<Fd>();
  return SystemError("lock", path, errno);
}

absl::StatusOr<std::optional<Lease>> Store::Hold(const std::string& id, conf::TimePoint now) const {
  const std::string path = Hidden(id + ".lease");
  absl::StatusOr<Fd> fd = OpenLock(path);
  if (!fd.ok()) return fd.status();
  if (flock(fd->get(), LOCK_SH) != 0) return SystemError("lock", path, errno);
  // Under the lock: it cannot leave from here on.
  std::error_code error;
  if (!fs::is_directory(FolderOf(id), error)) return std::optional<Lease>();
  SetTime(fd->get(), now);
  return std::optional<Lease>(Lease{FolderOf(id), *std::move(fd)});
}

absl::StatusOr<std::optional<Lease>> Store::TryHold(const std::string& id, conf::TimePoint now) const {
  std::error_code error;
  if (!fs::is_directory(FolderOf(id), error)) return std::optional<Lease>();
  const std::string path = Hidden(id + ".lease");
  absl::StatusOr<Fd> fd = OpenLock(path);
  if (!fd.ok()) return fd.status();
  if (flock(fd->get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return absl::UnavailableError(fmt::format("{} is locked", path));
    return SystemError("lock", path, errno);
  }
  if (!fs::is_directory(FolderOf(id), error)) return std::optional<Lease>();
  SetTime(fd->get(), now);
  return std::optional<Lease>(Lease{FolderOf(id), *std::move(fd)});
}

absl::StatusOr<Lease> Store::HoldCache(const std::string& id, conf::TimePoint now) const {
  const std::string path = Hidden(id + ".lease");
  absl::StatusOr<Fd> fd = OpenLock(path);
  if (!fd.ok()) return fd.status();
  if (flock(fd->get(), LOCK_SH) != 0) return SystemError("lock", path, errno);
  absl::Status made = gateway::net::MakeDirectories(FolderOf(id), 0770);
  if (!made.ok()) return made;
  SetTime(fd->get(), now);
  return Lease{FolderOf(id), *std::move(fd)};
}

absl::StatusOr<std::optional<Fd>> Store::TryFetch(const std::string& id) const {
  return TryLock(Hidden(id + ".fetch"));
}

uint64_t Store::FreeBytes() const {
  struct statvfs info{};
  if (statvfs(folder_.c_str(), &info) != 0) return 0;
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  return free > kDiskFloor ? free - kDiskFloor : 0;
}

// An entry whose fetch is under way counts as much as it will take.
absl::StatusOr<StoredEntry> Store::Describe(const std::string& id, bool complete) const {
  StoredEntry out;
  out.entry.id = id;
  out.entry.complete = complete;
  out.record = RecordOf(Hidden(id + ".json"));
  out.entry.pinned = complete && out.record.pinned;
  const std::string lock = Hidden(id + (complete ? ".lease" : ".fetch"));
  absl::StatusOr<std::optional<Fd>> free = TryLock(lock);
  if (!free.ok()) return free.status();
  out.entry.held = !free->has_value();
  struct stat info{};
  if (stat(complete ? lock.c_str() : PartsOf(id).c_str(), &info) == 0) out.entry.used = TimeOf(info.st_mtim);
  if (!complete) {
    out.entry.bytes = TreeBytes(PartsOf(id));
    const absl::StatusOr<std::string> need = gateway::net::ReadFile(PartsOf(id) + "/need", 64);
    if (out.entry.held && need.ok())
      out.entry.bytes = std::max(out.entry.bytes, conf::ReadNumber<uint64_t>(*need).value_or(0));
  } else if (out.record.bytes != 0) {
    out.entry.bytes = out.record.bytes;
  } else {
    out.entry.bytes = TreeBytes(FolderOf(id));
  }
  return out;
}

absl::StatusOr<Fd> Store::LockStore(int how) const {
  const std::string path = Hidden("lock");
  absl::StatusOr<Fd> lock = OpenLock(path);
  if (lock.ok() && flock(lock->get(), how) != 0) return SystemError("lock", path, errno);
  return lock;
}

// Listing tries the lock of each entry. A process that makes room at that moment would see the entry as used.
absl::StatusOr<std::vector<StoredEntry>> Store::List() const {
  const absl::StatusOr<Fd> lock = LockStore(LOCK_SH);
  if (!lock.ok()) return lock.status();
  return ListLocked();
}

absl::StatusOr<std::vector<StoredEntry>> Store::ListLocked() const {
  std::vector<StoredEntry> entries;
  const auto walk = [&](const std::string& folder, bool complete) -> absl::Status {
    std::error_code error;
    for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      const std::string id = it->path().filename().string();
      std::error_code kind;
      if (!IsEntry(id) || !it->is_directory(kind)) continue;
      absl::StatusOr<StoredEntry> entry = Describe(id, complete);
      if (!entry.ok()) return entry.status();
      entries.push_back(*std::move(entry));
    }
    return error ? StoreTrouble("list", folder, error) : absl::OkStatus();
  };
  if (absl::Status listed = walk(folder_, true); !listed.ok()) return listed;
  if (absl::Status listed = walk(Hidden("parts"), false); !listed.ok()) return listed;
  std::ranges::sort(entries, {}, [](const StoredEntry& e) { return e.entry.id; });
  return entries;
}

absl::Status Store::RemoveTree(const std::string& folder) const {
  std::error_code error;
  fs::remove_all(folder, error);
  return error ? StoreTrouble("remove", folder, error) : absl::OkStatus();
}

absl::StatusOr<bool> Store::RemoveUnused(const StoreEntry& entry) const {
  absl::StatusOr<std::optional<Fd>> lock = TryLock(Hidden(entry.id + (entry.complete ? ".lease" : ".fetch")));
  if (!lock.ok()) return lock.status();
  if (!lock->has_value()) return false;
  if (!entry.complete) {
    if (absl::Status removed = RemoveTree(PartsOf(entry.id)); !removed.ok()) return removed;
    return true;
  }
  // The entry disappears at once; after a kill, its rest is among the parts, which no process uses.
  const std::string gone = PartsOf(entry.id + ".removed");
  if (absl::Status removed = RemoveTree(gone); !removed.ok()) return removed;
  const absl::Status moved = gateway::net::RenameFile(FolderOf(entry.id), gone);
  if (!moved.ok()) return moved;
  if (absl::Status removed = RemoveTree(gone); !removed.ok()) return removed;
  for (const char* const of : {".json", ".files", ".manifest"})
    gateway::net::RemoveFile(Hidden(entry.id + of)).IgnoreError();
  return true;
}

absl::StatusOr<std::vector<std::string>> Store::MakeRoom(const std::string& id, const Need& need) const {
  const absl::StatusOr<Fd> lock = LockStore(LOCK_EX);
  if (!lock.ok()) return lock.status();
  std::vector<std::string> left;
  // An entry of the plan may be taken into use before it is removed; then the removal is planned again.
  constexpr int kTries = 5;
  for (int tries = 0; tries < kTries; ++tries) {
    absl::StatusOr<std::vector<StoredEntry>> listed = ListLocked();
    if (!listed.ok()) return listed.status();
    std::vector<StoreEntry> others;
    uint64_t free = FreeBytes();
    for (StoredEntry& stored : *listed) {
      StoreEntry& entry = stored.entry;
      const bool own = entry.id == id && !entry.complete;
      const uint64_t there = entry.complete ? entry.bytes : TreeBytes(PartsOf(entry.id));
      if (own) {
        free += there;
        continue;
      }
      const uint64_t to_come = entry.bytes > there ? entry.bytes - there : 0;
      free -= std::min(free, to_come);
      if (entry.complete && std::ranges::find(need.pinned, entry.id) != need.pinned.end())
        entry.pinned = true;
      others.push_back(std::move(entry));
    }
    const Eviction plan =
        PlanEviction(others, {.bytes = need.bytes, .limit = need.limit, .free = free, .now = need.now});
    if (!plan.why.empty()) return absl::ResourceExhaustedError(fmt::format("{}: {}", folder_, plan.why));
    bool all = true;
    for (const std::string& victim : plan.ids) {
      const auto entry = std::ranges::find(others, victim, &StoreEntry::id);
      const absl::StatusOr<bool> removed = RemoveUnused(*entry);
      if (!removed.ok()) return removed.status();
      all &= *removed;
      if (*removed) left.push_back(victim);
    }
    if (!all) continue;
    if (absl::Status made = gateway::net::MakeDirectories(PartsOf(id), 0770); !made.ok()) return made;
    const absl::Status noted =
        gateway::net::WriteFile(PartsOf(id) + "/need", std::to_string(need.bytes), 0660);
    if (!noted.ok()) return noted;
    return left;
  }
  return absl::UnavailableError(
      fmt::format("{}: the weights that should make room came into use each time; try again", folder_));
}

absl::StatusOr<std::string> Store::ListingOf(const std::string& id) const {
  constexpr size_t kLongestListing = 64U << 20;
  return gateway::net::ReadFile(Hidden(id + ".files"), kLongestListing);
}

std::string Store::ManifestOf(const std::string& id) const {
  constexpr size_t kLongestManifest = 4U << 20;
  return gateway::net::ReadFile(Hidden(id + ".manifest"), kLongestManifest).value_or(std::string());
}

absl::Status Store::Publish(const std::string& id, const std::string& from, const StoreRecord& record,
                            const std::string& listing, const std::string& manifest) const {
  absl::Status done = gateway::net::ReplaceFile(Hidden(id + ".json"), AsJson(record).dump(), 0660);
  if (done.ok()) done = gateway::net::ReplaceFile(Hidden(id + ".files"), listing, 0660);
  if (done.ok() && !manifest.empty())
    done = gateway::net::ReplaceFile(Hidden(id + ".manifest"), manifest, 0660);
  if (done.ok()) {
    // The time of the lease file is the last use, and the entry was not used yet.
    absl::StatusOr<Fd> lease = OpenLock(Hidden(id + ".lease"));
    if (!lease.ok()) return lease.status();
    SetTime(lease->get(), record.fetched);
    done = gateway::net::RenameFile(from, FolderOf(id));
  }
  if (!done.ok()) return done;
  return RemoveTree(PartsOf(id));
}

absl::Status Store::RemoveParts(const std::string& id) const {
  return RemoveTree(PartsOf(id));
}

absl::Status Store::SetPinned(const std::string& id, bool pinned) const {
  std::error_code error;
  if (!IsEntry(id) || !fs::is_directory(FolderOf(id), error))
    return absl::NotFoundError(fmt::format("{} has no {}; see tidegate weights list", folder_, id));
  StoreRecord record = RecordOf(Hidden(id + ".json"));
  record.pinned = pinned;
  return gateway::net::ReplaceFile(Hidden(id + ".json"), AsJson(record).dump(), 0660);
}

absl::Status Store::Remove(const std::string& id) const {
  const absl::StatusOr<Fd> lock = LockStore(LOCK_EX);
  if (!lock.ok()) return lock.status();
  bool found = false;
  for (const bool complete : {true, false}) {
    std::error_code error;
    if (!IsEntry(id) || !fs::is_directory(complete ? FolderOf(id) : PartsOf(id), error)) continue;
    found = true;
    const absl::StatusOr<bool> removed = RemoveUnused({.id = id, .complete = complete});
    if (!removed.ok()) return removed.status();
    if (!*removed) {
      return absl::FailedPreconditionError(fmt::format(
          "{} is {}; end that first", id, complete ? "held by a running replica" : "being fetched"));
    }
  }
  return found ? absl::OkStatus()
               : absl::NotFoundError(fmt::format("{} has no {}; see tidegate weights list", folder_, id));
}

}  // namespace plugins::weights
