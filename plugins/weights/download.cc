#include "plugins/weights/download.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/net/backoff.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "plugins/weights/growing_file.h"
#include "plugins/weights/store_law.h"

namespace plugins::weights {
namespace {

using gateway::net::Now;
using gateway::net::Task;
using ReadStatus = gateway::net::http::ClientConnection::Status;

constexpr size_t kLongestTag = 1024;

struct ByteRange {
  uint64_t first = 0;
  std::optional<uint64_t> whole{};
};
// "bytes 100-199/1000".
std::optional<ByteRange> ReadContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  const std::optional<uint64_t> first = conf::ReadNumber<uint64_t>(text.substr(0, dash));
  if (!first) return std::nullopt;
  return ByteRange{*first, conf::ReadNumber<uint64_t>(text.substr(slash + 1))};
}

// The size in "bytes */1000", from an answer to a range that the file does not have.
std::optional<uint64_t> WholeOfRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes */";
  return text.starts_with(kUnit) ? conf::ReadNumber<uint64_t>(text.substr(kUnit.size())) : std::nullopt;
}

// One file on its way, and the server's validator for what is there.
class PartialFile {
 public:
  PartialFile(const DownloadFile& file, const DownloadHooks& hooks)
      : file_(file), hooks_(hooks), content_(file.path) {}

  // With what an earlier process left.
  absl::Status Open() {
    if (absl::Status opened = content_.Open(); !opened.ok()) return opened;
    if (file_.by_hash) {
      if (absl::Status removed = gateway::net::RemoveFile(file_.tag); !removed.ok()) return removed;
    } else if (absl::StatusOr<std::string> tag = gateway::net::ReadFile(file_.tag, kLongestTag); tag.ok()) {
      tag_ = *std::move(tag);
    }
    hooks_.on_bytes(static_cast<int64_t>(size()));
    resumed_ = size() > 0;
    return absl::OkStatus();
  }

  uint64_t size() const { return content_.size(); }
  const std::string& tag() const { return tag_; }
  // Whether a continuation can be distinguished from the end of another file.
  bool may_resume() const { return size() > 0 && (!tag_.empty() || !file_.sha256.empty()); }
  bool resumed() const { return resumed_; }
  void NoteResumed() { resumed_ = true; }

  absl::Status Restart() {
    hooks_.on_bytes(-static_cast<int64_t>(size()));
    resumed_ = false;
    tag_.clear();
    if (absl::Status restarted = content_.Restart(); !restarted.ok()) return restarted;
    return gateway::net::RemoveFile(file_.tag);
  }

  // For later attempts. A weak validator does not promise the same bytes.
  absl::Status SetTag(std::string_view etag, std::string_view modified) {
    if (file_.by_hash) return absl::OkStatus();
    std::string tag(etag.starts_with("W/") ? std::string_view() : etag);
    if (tag.empty()) tag = modified;
    if (tag == tag_ || tag.size() > kLongestTag) return absl::OkStatus();
    tag_ = std::move(tag);
    return tag_.empty() ? gateway::net::RemoveFile(file_.tag) : gateway::net::WriteFile(file_.tag, tag_);
  }

  absl::Status Add(std::string_view bytes) {
    hooks_.on_bytes(static_cast<int64_t>(bytes.size()));
    return content_.Add(bytes);
  }
  absl::Status Flush() { return content_.Flush(); }
  absl::StatusOr<std::string> Finish() { return content_.Finish(); }

 private:
  const DownloadFile& file_;
  const DownloadHooks& hooks_;
  GrowingFile content_;
  std::string tag_;
  bool resumed_ = false;
};

// One attempt. Unavailable: another may get further.
Task<absl::Status> Attempt(Web& web, const DownloadFile& file, const DownloadHooks& hooks,
                           PartialFile& partial) {
  if (partial.size() > 0 && !partial.may_resume()) {
    if (absl::Status restarted = partial.Restart(); !restarted.ok()) co_return restarted;
  }
  if (file.size && partial.size() == *file.size && (partial.size() > 0 || !file.sha256.empty()))
    co_return absl::OkStatus();
  WebRequest request = file.request;
  const uint64_t offset = partial.size();
  if (offset > 0) {
    request.fields.emplace_back("range", fmt::format("bytes={}-", offset));
    if (!partial.tag().empty()) request.fields.emplace_back("if-range", partial.tag());
  }
  absl::StatusOr<std::unique_ptr<Web::Connection>> opened = co_await web.Open(request);
  if (!opened.ok()) co_return opened.status();
  Web::Connection& connection = **opened;
  const gateway::net::http::Head& head = connection.head();
  const int status = head.status;
  std::optional<uint64_t> whole = head.content_length;
  bool continues = false;
  if (status == 206) {
    const std::optional<ByteRange> range = ReadContentRange(head.Find("content-range"));
    continues = offset > 0 && range && range->first == offset;
    whole = range ? range->whole : std::nullopt;
    if (!continues) {
      co_return absl::FailedPreconditionError(
          fmt::format("{}: the server sent another range than it was asked for", file.name));
    }
  }
  // Nothing is left to send: the hash decides whether the bytes on disk are the file.
  if (status == 416 && !file.sha256.empty() && WholeOfRange(head.Find("content-range")) == offset)
    co_return absl::OkStatus();
  const bool other_size = file.size && whole && *whole != *file.size;
  if (status == 416 || (continues && other_size)) {
    // The bytes on disk are more than the file has, or belong to another file.
    if (absl::Status restarted = partial.Restart(); !restarted.ok()) co_return restarted;
    co_return absl::UnavailableError(fmt::format("{}: it has changed; it is fetched again", file.name));
  }
  if (other_size) {
    co_return absl::DataLossError(fmt::format("{}: it has {}, and should have {}", file.name,
                                              conf::Counted(*whole, "byte"), *file.size));
  }
  if (connection.coded()) {
    co_return absl::FailedPreconditionError(
        fmt::format("{}: the server sent it in a content coding, which was not asked for", file.name));
  }
  if (continues) {
    partial.NoteResumed();
  } else if (offset > 0) {
    if (absl::Status restarted = partial.Restart(); !restarted.ok()) co_return restarted;
  }
  if (absl::Status kept = partial.SetTag(head.Find("etag"), head.Find("last-modified")); !kept.ok())
    co_return kept;
  if (whole) {
    if (absl::Status room = hooks.on_size(*whole); !room.ok()) co_return room;
  }
  while (true) {
    const std::string_view payload = connection.payload();
    if (!payload.empty()) {
      if (absl::Status stopped = hooks.on_transfer(payload.size()); !stopped.ok()) co_return stopped;
      if (absl::Status added = partial.Add(payload); !added.ok()) co_return added;
      connection.Take(payload.size());
    }
    if (connection.done()) break;
    const ReadStatus read = co_await connection.ReadSome(Now() + web.options().silence);
    if (read == ReadStatus::kOk) continue;
    if (absl::Status flushed = partial.Flush(); !flushed.ok()) co_return flushed;
    co_return absl::UnavailableError(fmt::format(
        "{}: {} after {}", file.name,
        read == ReadStatus::kTimedOut ? "the server was silent for too long" : "the connection was cut",
        InBytes(partial.size())));
  }
  co_return absl::OkStatus();
}

}  // namespace

Task<absl::StatusOr<std::string>> Download(Web& web, DownloadFile file, DownloadHooks hooks) {
  PartialFile partial(file, hooks);
  if (absl::Status opened = partial.Open(); !opened.ok()) co_return opened;
  gateway::net::Backoff backoff(web.options().least_pause, web.options().most_pause,
                                static_cast<uint64_t>(conf::ToUnixNanos(Now())));
  gateway::net::Sleep pause(web.loop().watchdog);
  int in_vain = 0;
  int mixed = 0;
  while (true) {
    const uint64_t before = partial.size();
    const absl::Status attempt = co_await Attempt(web, file, hooks, partial);
    if (absl::IsUnavailable(attempt)) {
      if (partial.size() > before) {
        in_vain = 0;
        backoff.Reset();
      } else if (++in_vain >= web.options().tries) {
        co_return attempt;
      }
      co_await pause.For(backoff.Next());
      continue;
    }
    if (!attempt.ok()) {
      (void)partial.Flush();  // for a later attempt
      co_return attempt;
    }
    const bool resumed = partial.resumed();
    absl::StatusOr<std::string> sha256 = partial.Finish();
    if (!sha256.ok()) co_return sha256;
    const bool right =
        (!file.size || partial.size() == *file.size) && (file.sha256.empty() || *sha256 == file.sha256);
    if (right) co_return sha256;
    const uint64_t got = partial.size();
    if (absl::Status restarted = partial.Restart(); !restarted.ok()) co_return restarted;
    // Its parts may be of two versions. A server that breaks off each answer is not believed for ever.
    if (resumed && (!file.by_hash || mixed++ == 0)) continue;
    if (file.size && got != *file.size) {
      co_return absl::DataLossError(fmt::format("{}: it has {}, and should have {}", file.name,
                                                conf::Counted(got, "byte"), *file.size));
    }
    co_return absl::DataLossError(
        fmt::format("{}: its SHA-256 is {}, and should be {}", file.name, *sha256, file.sha256));
  }
}

}  // namespace plugins::weights
