#include "gateway/ledger/verify.h"

#include <absl/container/flat_hash_set.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/ledger/record.h"
#include "gateway/ledger/segment.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

constexpr uint64_t kProgressEvery = 4 << 20;

class Verification {
 public:
  Verification(const PublicKey& key, const VerifyOptions& options);

  absl::StatusOr<VerifyReport> Run(const std::string& dir);

 private:
  absl::Status ReadSegment(const SegmentName& segment, bool last);
  void CheckLine(std::string_view line);
  void CheckSegmentRecord(const LineParts& parts);
  void CompareKept(const LineParts& parts);
  void CheckEnd(const std::string& dir);
  void Bad(uint64_t seq, std::string why) {
    if (!report_.first_bad) report_.first_bad = Problem{segment_, line_, seq, std::move(why)};
  }
  bool bad() const { return report_.first_bad.has_value(); }

  const PublicKey& key_;
  const VerifyOptions& options_;
  VerifyReport report_;
  std::string segment_;
  uint64_t line_ = 0;
  uint64_t named_seq_ = 0;  // from the segment's name
  uint64_t next_seq_ = 0;
  Digest link_{};
  bool sealed_ = false;
  absl::flat_hash_set<uint64_t> open_;
  std::string first_previous_;  // the link that the first segment continues
  uint64_t retained_to_ = 0;    // from the last retention record
  std::string retained_link_;
  uint64_t head_seq_ = 0;
  Digest head_link_{};
  bool head_reached_ = false;
  struct Kept {
    KeptCheckpoints::Checkpoint checkpoint;
    size_t place;  // in VerifyOptions::kept
  };
  std::vector<Kept> kept_;  // by number
  size_t next_kept_ = 0;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

Verification::Verification(const PublicKey& key, const VerifyOptions& options)
    : key_(key), options_(options) {
  for (size_t place = 0; place < options.kept.size(); ++place) {
    report_.compared.push_back({.where = options.kept[place].where});
    for (const KeptCheckpoints::Checkpoint& checkpoint : options.kept[place].checkpoints)
      kept_.push_back({checkpoint, place});
  }
  std::ranges::sort(kept_, {}, [](const Kept& kept) { return kept.checkpoint.seq; });
}

// The same record may be kept in several places.
void Verification::CompareKept(const LineParts& parts) {
  for (; next_kept_ < kept_.size() && kept_[next_kept_].checkpoint.seq <= parts.seq; ++next_kept_) {
    const auto& [checkpoint, place] = kept_[next_kept_];
    Compared& compared = report_.compared[place];
    if (checkpoint.seq < report_.first_seq) {
      ++compared.removed;
    } else if (checkpoint.link == link_) {
      ++compared.found;
      compared.newest = checkpoint.seq;
    } else {
      return Bad(parts.seq, fmt::format("it is not the record that {} has under this number: the ledger was "
                                        "replaced, or rewritten up to here",
                                        compared.where));
    }
  }
}

void Verification::CheckSegmentRecord(const LineParts& parts) {
  const std::string_view previous = FindText(parts.body, "previous").value_or("");
  if (parts.kind != Name(Kind::kSegment)) return Bad(parts.seq, "a segment must begin with a segment record");
  if (parts.seq != named_seq_)
    return Bad(parts.seq, fmt::format("it begins a file whose name says {}", named_seq_));
  if (next_seq_ == 0) {
    if (!conf::ParseHex(previous, link_))
      return Bad(parts.seq, "it does not name the chain that it continues");
    next_seq_ = parts.seq;
    report_.first_seq = parts.seq;
    first_previous_ = previous;
    if (parts.seq == 1 && link_ != Digest{}) Bad(1, "the first record of a ledger must not continue a chain");
  } else if (previous != conf::Hex(link_)) {
    Bad(parts.seq, "it does not continue the previous segment");
  }
}

void Verification::CheckLine(std::string_view line) {
  const std::optional<LineParts> parts = SplitLine(line);
  if (!parts)
    return Bad(next_seq_, "the line is not a record: it has no sequence number, time, kind or chain");
  if (line_ == 1) CheckSegmentRecord(*parts);
  if (bad()) return;
  if (parts->seq != next_seq_) {
    return Bad(parts->seq,
               fmt::format("its number is {}, but {} is expected: records are missing, out of order or added",
                           parts->seq, next_seq_));
  }
  if (sealed_) return Bad(parts->seq, "it comes after the seal of its segment");
  if (Link(link_, parts->body) != parts->link) {
    return Bad(parts->seq, "its content does not match its chain hash: it was changed");
  }
  if (parts->kind == Name(Kind::kCheckpoint)) {
    if (!CheckpointIsSigned(*parts, link_, key_)) {
      return Bad(parts->seq,
                 "its signature was not made with this key for this place: the chain before it was "
                 "rewritten, or this is another key");
    }
    ++report_.checkpoints;
    report_.last_checkpoint_seq = parts->seq;
    sealed_ = parts->body.find(",\"sealed\":true,") != std::string_view::npos;
  } else if (parts->kind == Name(Kind::kOpen)) {
    open_.insert(parts->seq);
  } else if (parts->kind == Name(Kind::kClose)) {
    const uint64_t open_seq = FindUint(parts->body, "open_seq").value_or(0);
    if (open_seq >= report_.first_seq && open_.erase(open_seq) == 0) {
      return Bad(parts->seq, fmt::format("it closes record {}, which is not an open request", open_seq));
    }
  } else if (parts->kind == Name(Kind::kRetention)) {
    retained_to_ = FindUint(parts->body, "to_seq").value_or(0);
    retained_link_ = FindText(parts->body, "last_chain").value_or("");
  } else if (parts->kind == Name(Kind::kRecovery) &&
             FindText(parts->body, "action") == "signed_records_missing") {
    return Bad(
        parts->seq,
        "when the gateway started, records before this one were gone, although a signed checkpoint covered "
        "them");
  }
  link_ = parts->link;
  if (parts->seq == head_seq_) head_reached_ = link_ == head_link_;
  CompareKept(*parts);
  if (bad()) return;
  report_.last_seq = parts->seq;
  ++report_.records;
  ++next_seq_;
}

absl::Status Verification::ReadSegment(const SegmentName& segment, bool last) {
  segment_ = std::filesystem::path(segment.path).filename().string();
  line_ = 0;
  named_seq_ = segment.first_seq;
  if (next_seq_ != 0 && segment.first_seq != next_seq_) {
    Bad(next_seq_, fmt::format("records {} to {} are missing between the previous segment and this one",
                               next_seq_, segment.first_seq - 1));
    return absl::OkStatus();
  }
  sealed_ = false;
  absl::StatusOr<LineReader> reader = LineReader::Open(segment.path);
  if (!reader.ok()) return reader.status();
  uint64_t reported = 0;
  while (!bad()) {
    absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
    ++line_;
    if (!line.ok()) {
      if (!absl::IsDataLoss(line.status())) return line.status();
      Bad(next_seq_, "the line is longer than any record");
      break;
    }
    if (!*line) break;
    CheckLine(**line);
    if (reader->offset() - reported >= kProgressEvery) {
      reported = reader->offset();
      if (options_.progress) options_.progress(done_ + reported, total_);
      if (options_.stop && options_.stop()) return absl::CancelledError("the verification was stopped");
    }
  }
  done_ += reader->offset();
  if (bad()) return absl::OkStatus();
  if (last) {
    report_.partial_bytes = reader->partial();
  } else if (reader->partial() > 0) {
    Bad(next_seq_, "the record is cut off");
  } else if (!sealed_) {
    Bad(next_seq_, "the segment ends without a seal: records after it are missing");
  }
  ++report_.segments;
  return absl::OkStatus();
}

void Verification::CheckEnd(const std::string& dir) {
  if (report_.partial_bytes > 0 && !InUse(dir)) {
    return Bad(
        next_seq_,
        fmt::format("the ledger ends with {} bytes of an incomplete record, and no gateway is running; its "
                    "next start moves them to another file",
                    report_.partial_bytes));
  }
  line_ = 0;
  if (head_seq_ == 0) {
    return Bad(0, "head.json is missing or is not a checkpoint: without it, a cut tail cannot be detected");
  }
  // Beside a running gateway the head may be newer than the records that were read.
  if (!head_reached_) {
    return Bad(
        head_seq_,
        fmt::format("head.json names checkpoint {}, which is not in the chain: the tail is cut", head_seq_));
  }
  if (next_kept_ < kept_.size()) {
    const Kept& missing = kept_[next_kept_];
    return Bad(
        missing.checkpoint.seq,
        fmt::format("{} has checkpoint {}, but the ledger ends with record {}: the tail is cut, or the "
                    "ledger was replaced",
                    report_.compared[missing.place].where, missing.checkpoint.seq, report_.last_seq));
  }
  // After a crash between the record and the removal, some segments are still there.
  const uint64_t removed_to = report_.first_seq - 1;
  if (report_.first_seq > 1 &&
      (retained_to_ < removed_to || (retained_to_ == removed_to && retained_link_ != first_previous_))) {
    Bad(removed_to, fmt::format("records before {} are missing, and no retention record accounts for them",
                                report_.first_seq));
  }
}

absl::StatusOr<VerifyReport> Verification::Run(const std::string& dir) {
  // Reads the head before the segments, so that its checkpoint is already in them.
  if (absl::StatusOr<std::string> head = net::ReadFile(dir + "/head.json", LineReader::kMaxLine);
      head.ok() && !head->empty()) {
    head->pop_back();
    if (const std::optional<LineParts> parts = SplitLine(*head);
        parts && parts->kind == Name(Kind::kCheckpoint)) {
      head_seq_ = parts->seq;
      head_link_ = parts->link;
    }
  }
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir);
  if (!segments.ok()) return segments.status();
  if (segments->empty()) return absl::FailedPreconditionError(conf::Abseil("there is no ledger in " + dir));
  for (const SegmentName& segment : *segments) {
    std::error_code gone;
    total_ += std::filesystem::file_size(segment.path, gone);
  }
  for (size_t i = 0; i < segments->size() && !bad(); ++i) {
    if (absl::Status read = ReadSegment((*segments)[i], i + 1 == segments->size()); !read.ok()) return read;
  }
  if (!bad()) CheckEnd(dir);
  report_.unsigned_records =
      report_.last_checkpoint_seq == 0 ? report_.records : report_.last_seq - report_.last_checkpoint_seq;
  report_.open_requests = open_.size();
  report_.last_link = conf::Hex(link_);
  if (options_.progress) options_.progress(total_, total_);
  return report_;
}

}  // namespace

bool InUse(const std::string& dir) {
  absl::StatusOr<net::Fd> lock = net::OpenFile(dir + "/lock", O_RDONLY);
  return lock.ok() && flock(lock->get(), LOCK_SH | LOCK_NB) != 0;
}

absl::StatusOr<KeptCheckpoints> ReadKeptCheckpoints(const std::string& path) {
  absl::StatusOr<LineReader> reader = LineReader::Open(path);
  if (!reader.ok()) return reader.status();
  KeptCheckpoints kept{.where = path, .checkpoints = {}};
  while (true) {
    absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
    if (!line.ok()) return line.status();
    if (!*line) return kept;
    const size_t begin = (*line)->find("{\"seq\":");
    if (begin == std::string_view::npos) continue;
    const std::optional<LineParts> parts = SplitLine((*line)->substr(begin));
    if (parts && parts->kind == Name(Kind::kCheckpoint))
      kept.checkpoints.push_back({.seq = parts->seq, .link = parts->link});
  }
}

absl::StatusOr<VerifyReport> Verify(const std::string& dir, const PublicKey& key,
                                    const VerifyOptions& options) {
  constexpr int kTries = 3;
  absl::StatusOr<VerifyReport> report;
  for (int i = 0; i < kTries; ++i) {
    report = Verification(key, options).Run(dir);
    // NotFound: retention removed a segment after it was listed. List again.
    if (!absl::IsNotFound(report.status())) break;
  }
  return report;
}

}  // namespace gateway::ledger
