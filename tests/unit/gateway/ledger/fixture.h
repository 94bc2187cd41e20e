// Shared by the ledger's tests: a temporary directory, records that look real, and a disk that fails on demand.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "conf/text.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/ledger.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/segment.h"
#include "gateway/ledger/verify.h"
#include "gateway/net/files.h"

namespace gateway::ledger {

class TempDir {
 public:
  TempDir() {
    // In memory if possible: these tests make thousands of syncs.
    const std::filesystem::path shared = "/dev/shm";
    const std::filesystem::path base =
        std::filesystem::is_directory(shared) ? shared : std::filesystem::temp_directory_path();
    std::string pattern = (base / "ledger-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string Sub(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline OpenRecord SomeOpen(std::string_view request) {
  return {.time_us = 1'763'676'000'000'000,
          .request = request,
          .client_request = "client-1",
          .tenant = "acme/search",
          .key = "key_7",
          .model = "chat-small",
          .api = "chat.completions",
          .client = "10.0.0.9",
          .stream = true};
}

inline CloseRecord SomeClose(EndReason reason = EndReason::kDone) {
  CloseRecord record;
  record.time_us = 1'763'676'001'000'000;
  record.reason = reason;
  record.status = 200;
  record.counts = {.input = 100,
                   .cached = 40,
                   .output = 20,
                   .cost_micro_usd = 27,
                   .bytes_in = 512,
                   .bytes_out = 2048,
                   .ttft_us = 9000,
                   .attempts = 1,
                   .source = TokenSource::kUpstream};
  record.total_us = 120'000;
  record.replica = "http://10.0.0.5:8000";
  return record;
}

inline Options SmallOptions(const std::string& dir) {
  Options options;
  options.dir = dir;
  options.open_requests_per_shard = 16;
  options.ring_bytes = 64 << 10;
  options.commit_interval = std::chrono::milliseconds(1);
  options.version = "test";
  return options;
}

inline std::unique_ptr<Ledger> MustOpen(Options options) {
  absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Open(std::move(options));
  EXPECT_TRUE(ledger.ok()) << ledger.status();
  return ledger.ok() ? *std::move(ledger) : nullptr;
}

inline VerifyReport MustVerify(const std::string& dir, const VerifyOptions& options = {}) {
  absl::StatusOr<PublicKey> key = PublicKey::Load(dir + "/signing.pub");
  EXPECT_TRUE(key.ok()) << key.status();
  absl::StatusOr<VerifyReport> report = Verify(dir, *key, options);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : VerifyReport{};
}

inline std::string Why(const VerifyReport& report) {
  if (report.ok()) return "ok";
  const Problem& bad = *report.first_bad;
  return bad.segment + ":" + std::to_string(bad.line) + " record " + std::to_string(bad.seq) + ": " + bad.why;
}

inline std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void Spill(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

inline std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

inline std::vector<std::string> SegmentFiles(const std::string& dir) {
  std::vector<std::string> paths;
  const absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir);
  for (const SegmentName& segment : *segments) paths.push_back(segment.path);
  return paths;
}

inline std::vector<Record> AllRecords(const std::string& dir) {
  std::vector<Record> records;
  RecordParser parser;
  for (const std::string& path : SegmentFiles(dir)) {
    for (const std::string& line : Lines(Slurp(path))) {
      Record record;
      EXPECT_TRUE(parser.Parse(line, &record).ok()) << line;
      records.push_back(record);
    }
  }
  return records;
}

inline std::vector<Record> OfKind(const std::string& dir, Kind kind) {
  std::vector<Record> records = AllRecords(dir);
  std::erase_if(records, [kind](const Record& record) { return record.kind != kind; });
  return records;
}

// Every open has exactly one close, and every close has an open.
inline void ExpectReconciled(const std::string& dir) {
  std::map<std::string, int> opens;
  std::map<std::string, int> closes;
  for (const Record& record : AllRecords(dir)) {
    if (record.kind == Kind::kOpen) ++opens[record.request];
    if (record.kind == Kind::kClose && record.open_seq != 0) ++closes[record.request];
  }
  EXPECT_EQ(opens, closes);
  for (const auto& [request, count] : opens) EXPECT_EQ(count, 1) << request;
}

// A disk that is full while `full`, and whose sync fails while `bad_sync`.
class FailingDisk : public FileOps {
 public:
  absl::StatusOr<net::Fd> Create(const std::string& path) override {
    if (full) return net::SystemError("create", path, ENOSPC);
    return FileOps::Create(path);
  }
  absl::StatusOr<size_t> WriteAt(int fd, const char* data, size_t size, uint64_t offset) override {
    ++writes;
    constexpr size_t kLast = 7;  // a disk that becomes full first takes a part of a write
    if (!full) return FileOps::WriteAt(fd, data, size, offset);
    if (size <= kLast || took_last_.exchange(true)) return net::SystemError("write", "segment", ENOSPC);
    return FileOps::WriteAt(fd, data, kLast, offset);
  }
  absl::Status Sync(int fd) override {
    if (bad_sync) return net::SystemError("sync", "segment", EIO);
    return full ? net::SystemError("sync", "segment", ENOSPC) : FileOps::Sync(fd);
  }
  std::atomic<bool> full{false};
  std::atomic<bool> bad_sync{false};
  std::atomic<int> writes{0};

 private:
  std::atomic<bool> took_last_{false};
};

// Kills its own process at one of its operations.
class DeadlyDisk : public FileOps {
 public:
  explicit DeadlyDisk(int operations) : left_(operations) {}

  absl::StatusOr<net::Fd> Create(const std::string& path) override {
    Count();
    return FileOps::Create(path);
  }
  absl::StatusOr<size_t> WriteAt(int fd, const char* data, size_t size, uint64_t offset) override {
    Count();
    return FileOps::WriteAt(fd, data, size, offset);
  }
  absl::Status Sync(int fd) override {
    Count();
    return FileOps::Sync(fd);
  }

 private:
  void Count() {
    if (left_.fetch_sub(1) == 0) raise(SIGKILL);
  }
  std::atomic<int> left_;
};

}  // namespace gateway::ledger
