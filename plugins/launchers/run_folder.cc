#include "plugins/launchers/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "conf/hex.h"
#include "gateway/net/files.h"
#include "plugins/launchers/run_log.h"

namespace plugins::launchers {
namespace {

namespace net = gateway::net;
using net::Fd;

constexpr size_t kMaxRecordBytes = size_t{4} << 20;
constexpr size_t kMaxIdSize = 63;
constexpr size_t kTokenBytes = 16;
constexpr mode_t kFileMode = 0600;
constexpr mode_t kFolderMode = 0700;
constexpr int kLockTries = 200;
constexpr std::chrono::milliseconds kLockPause{10};

absl::StatusOr<std::string> MakeToken(const std::string& path) {
  std::array<unsigned char, kTokenBytes> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return net::SystemError("make", path, errno);
  std::string token = conf::Hex(random);
  if (absl::Status saved = net::ReplaceFile(path, token + "\n", kFileMode); !saved.ok()) return saved;
  return token;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  absl::StatusOr<std::string> token = net::ReadFile(path, 256);
  if (absl::IsNotFound(token.status())) return MakeToken(path);
  if (!token.ok()) return token.status();
  while (token->ends_with('\n')) token->pop_back();
  std::array<uint8_t, kTokenBytes> value{};
  if (conf::ParseHex(*token, value)) return token;
  return absl::DataLossError(fmt::format(
      "{} does not hold {} hexadecimal digits. Runs are found again by this token: restore the file, "
      "or remove it when no run is left",
      path, 2 * kTokenBytes));
}

}  // namespace

bool IsRunId(std::string_view id) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  return !id.empty() && id.size() <= kMaxIdSize && kLetters.find(id.front()) != std::string_view::npos &&
         std::ranges::all_of(
             id, [&](char c) { return kLetters.find(c) != std::string_view::npos || c == '.' || c == '-'; });
}

absl::Status RunFolder::Make() const {
  return net::MakeDirectories(path_, kFolderMode);
}

absl::Status RunFolder::Save(const RunRecord& run) const {
  return net::ReplaceFile(record(), WriteRecord(run), kFileMode);
}

absl::StatusOr<RunRecord> RunFolder::Load() const {
  const absl::StatusOr<std::string> text = net::ReadFile(record(), kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return text.status();
  if (!text.ok()) return absl::DataLossError(text.status().message());
  absl::StatusOr<RunRecord> run = ReadRecord(*text);
  if (!run.ok())
    return absl::DataLossError(
        fmt::format("{} is not the record of a run: {}", record(), std::string(run.status().message())));
  const std::string name = std::filesystem::path(path_).filename();
  if (run->id != name)
    return absl::DataLossError(fmt::format("{} is the record of another run, {}", record(), run->id));
  return run;
}

absl::Status RunFolder::Remove() const {
  if (absl::Status removed = net::RemoveFile(record()); !removed.ok()) return removed;
  const std::string rotated = RotatedLog(log());
  for (const std::string& file : {result(), log(), rotated, log() + ".new", record() + ".new"})
    unlink(file.c_str());
  if (rmdir(path_.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY)
    return net::SystemError("remove", path_, errno);
  return absl::OkStatus();
}

absl::StatusOr<RunStore> RunStore::Open(const std::string& dir, const std::string& logs) {
  if (absl::Status made = net::MakeDirectories(dir + "/runs", kFolderMode); !made.ok()) return made;
  if (!logs.empty()) {
    if (absl::Status made = net::MakeDirectories(logs, kFolderMode); !made.ok()) return made;
  }
  absl::StatusOr<Fd> lock = net::OpenFile(dir + "/lock", O_RDWR | O_CREAT, kFileMode);
  if (!lock.ok()) return lock.status();
  // A process that a killed gateway was about to start holds the lock until it ends or runs: once the lock is
  // ours, each recorded run either runs or is gone.
  int tries = kLockTries;
  while (flock(lock->get(), LOCK_EX | LOCK_NB) != 0 && --tries > 0) std::this_thread::sleep_for(kLockPause);
  if (tries == 0) {
    return absl::FailedPreconditionError(
        fmt::format("another gateway starts processes by {}; each needs a directory of its own", dir));
  }
  absl::StatusOr<std::string> token = ReadToken(dir + "/token");
  if (!token.ok()) return token.status();
  return RunStore(dir, logs, std::move(*lock), std::move(*token));
}

RunFolder RunStore::Folder(std::string_view id) const {
  std::string path = fmt::format("{}/runs/{}", dir_, id);
  return logs_.empty() ? RunFolder(std::move(path))
                       : RunFolder(std::move(path), fmt::format("{}/{}.log", logs_, id));
}

absl::StatusOr<std::vector<std::string>> RunStore::Ids() const {
  std::vector<std::string> ids;
  std::error_code error;
  std::filesystem::directory_iterator entry(dir_ + "/runs", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (std::string name = entry->path().filename(); IsRunId(name)) ids.push_back(std::move(name));
  }
  if (error) return net::SystemError("read", dir_ + "/runs", error.value());
  std::ranges::sort(ids);
  return ids;
}

}  // namespace plugins::launchers
