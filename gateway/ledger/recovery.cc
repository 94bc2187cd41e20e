#include "gateway/ledger/recovery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/spend.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

struct SegmentEnd {
  uint64_t next_seq = 0;
  Digest link{};
  uint64_t end = 0;  // the number of valid bytes at the front of the file
  bool sealed = false;
  int64_t begun_us = 0;
  std::string checkpoint;  // the body of the last one in this segment, or empty
  uint64_t torn = 0;       // bytes after `end`
  bool damaged = false;
};

// Reads one whole segment. `next_seq` == 0 afterwards: not even its first line is whole.
absl::StatusOr<SegmentEnd> ScanTail(const SegmentName& segment, const PublicKey& key) {
  absl::StatusOr<LineReader> reader = LineReader::Open(segment.path);
  if (!reader.ok()) return reader.status();
  SegmentEnd tail;
  bool broken = false;
  Digest said{};  // the link in the last line, right or wrong
  while (true) {
    const uint64_t begin = reader->offset();
    absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
    if (!line.ok()) {
      if (!absl::IsDataLoss(line.status())) return line.status();
      break;
    }
    if (!*line) break;
    const std::optional<LineParts> parts = SplitLine(**line);
    if (begin == 0 && parts && parts->kind == Name(Kind::kSegment) && parts->seq == segment.first_seq) {
      const std::string_view previous = FindText(parts->body, "previous").value_or("");
      if (conf::ParseHex(previous, tail.link)) {
        tail.next_seq = parts->seq;
        tail.begun_us = parts->time_us;
      }
    }
    const bool checkpoint = parts && parts->kind == Name(Kind::kCheckpoint);
    if (broken && checkpoint && CheckpointIsSigned(*parts, said, key)) {
      broken = false;
      tail.damaged = true;
      tail.next_seq = parts->seq;
      tail.link = said;
    }
    if (!broken && tail.next_seq != 0 && parts && parts->seq == tail.next_seq &&
        Link(tail.link, parts->body) == parts->link) {
      tail.next_seq = parts->seq + 1;
      tail.link = parts->link;
      tail.end = reader->offset();
      if (checkpoint) tail.checkpoint = parts->body;
      tail.sealed = checkpoint && parts->body.find(",\"sealed\":true,") != std::string_view::npos;
    } else {
      broken = true;
    }
    if (parts) said = parts->link;
  }
  absl::StatusOr<net::Fd> file = net::OpenFile(segment.path, O_RDONLY);
  if (!file.ok()) return file.status();
  absl::StatusOr<uint64_t> size = net::FileSize(file->get(), segment.path);
  if (!size.ok()) return size.status();
  tail.torn = *size - tail.end;
  return tail;
}

// Copies the bytes after `end` to another file, then cuts them off from this one.
absl::Status SetAside(const SegmentName& segment, uint64_t end, uint64_t torn, Recovered* into) {
  absl::StatusOr<net::Fd> file = net::OpenFile(segment.path, O_RDWR);
  if (!file.ok()) return file.status();
  std::string bytes(torn, '\0');
  const absl::StatusOr<size_t> read = net::ReadAt(file->get(), segment.path, end, bytes);
  if (!read.ok()) return read.status();
  if (*read < bytes.size()) return net::SystemError("read", segment.path, EIO);
  const std::string aside = fmt::format("{}.{}.torn", segment.path, end);
  const absl::Status written = net::ReplaceFile(aside, bytes);
  // Without room for a copy, only its hash is kept: such bytes remain when a disk becomes full in the middle of a
  // write, and the records are still in the journals.
  if (!written.ok() && !net::IsDiskFull(written)) return written;
  if (ftruncate(file->get(), static_cast<off_t>(end)) != 0 || fdatasync(file->get()) != 0) {
    return net::SystemError("cut", segment.path, errno);
  }
  into->torn_bytes += torn;
  if (written.ok()) into->torn_file = std::filesystem::path(aside).filename().string();
  into->torn_sha256 = conf::Hex(plugins::auth::Sha256(bytes));
  return absl::OkStatus();
}

std::vector<uint64_t> ParseShards(std::string_view body) {
  constexpr std::string_view kKey = ",\"shards\":[";
  std::vector<uint64_t> shards;
  size_t at = body.find(kKey);
  if (at == std::string_view::npos) return shards;
  at += kKey.size();
  while (at < body.size() && body[at] != ']') {
    uint64_t n = 0;
    const char* end = std::from_chars(body.data() + at, body.data() + body.size(), n).ptr;
    shards.push_back(n);
    at = static_cast<size_t>(end - body.data());
    if (at >= body.size() || body[at] != ',') break;
    ++at;
  }
  return shards;
}

void Saw(std::vector<uint64_t>* last_n, uint64_t shard, uint64_t n) {
  constexpr uint64_t kMaxShards = 65536;
  if (shard >= kMaxShards) return;
  if (last_n->size() <= shard) last_n->resize(shard + 1, 0);
  (*last_n)[shard] = std::max((*last_n)[shard], n);
}

struct OpenLine {
  uint64_t key = 0;
  std::string line;
};

// Reads the records from `from_seq` on, and collects opens without a close, and the last number of each shard.
absl::Status CollectOpen(const std::vector<SegmentName>& segments, uint64_t from_seq, ChainState* state) {
  absl::flat_hash_map<uint64_t, OpenLine> open;  // by sequence number
  for (size_t i = 0; i < segments.size(); ++i) {
    if (i + 1 < segments.size() && segments[i + 1].first_seq <= from_seq) continue;
    absl::StatusOr<LineReader> reader = LineReader::Open(segments[i].path);
    if (!reader.ok()) return reader.status();
    while (true) {
      absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
      if (!line.ok() || !*line) {
        if (!line.ok() && !absl::IsDataLoss(line.status())) return line.status();
        break;
      }
      const std::optional<LineParts> parts = SplitLine(**line);
      if (!parts || parts->seq < from_seq) continue;
      if (parts->kind == Name(Kind::kRetention)) {
        const RetentionPart at = ReadRetention(parts->body);
        if (at.part == at.parts) state->removed_to = std::max(state->removed_to, at.to_seq);
      }
      // Records of other kinds come from no journal, and their details may hold any field.
      if (parts->kind != Name(Kind::kOpen) && parts->kind != Name(Kind::kClose) &&
          parts->kind != Name(Kind::kContent)) {
        continue;
      }
      const uint64_t shard = FindUint(parts->body, "shard").value_or(0);
      const uint64_t n = FindUint(parts->body, "n").value_or(0);
      if (n != 0) Saw(&state->last_n, shard, n);
      if (parts->kind == Name(Kind::kOpen)) {
        open[parts->seq] = {OpenKey(static_cast<uint32_t>(shard), n), std::string(**line)};
      } else if (parts->kind == Name(Kind::kClose)) {
        open.erase(FindUint(parts->body, "open_seq").value_or(0));
      }
    }
  }
  RecordParser parser;
  for (const auto& [seq, entry] : open) {
    Record record;
    if (!parser.Parse(entry.line, &record).ok()) continue;
    std::string identity(kMaxOpenPayload, '\0');
    identity.resize(EncodeOpen({.time_us = record.time_us,
                                .request = record.request,
                                .client_request = record.client_request,
                                .tenant = record.tenant,
                                .key = record.key,
                                .model = record.model,
                                .api = record.api,
                                .client = record.client,
                                .stream = record.stream},
                               identity.data()));
    state->open[entry.key] = {seq, std::move(identity)};
  }
  return absl::OkStatus();
}

absl::Status FindJournals(const std::string& dir, Recovered* into) {
  constexpr std::string_view kPrefix = "journal-";
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kPrefix) ||
        name.find_first_not_of("0123456789", kPrefix.size()) != std::string::npos) {
      continue;
    }
    into->journal_files.push_back(it->path().string());
  }
  if (error) return net::SystemError("list", dir, error.value());
  std::sort(into->journal_files.begin(), into->journal_files.end());
  for (const std::string& path : into->journal_files) {
    absl::StatusOr<JournalImage> image = ReadJournal(path);
    if (image.ok()) {
      into->journals.push_back(*std::move(image));
    } else if (absl::IsDataLoss(image.status())) {
      into->unreadable_journals.push_back(path);
    } else {
      return image.status();
    }
  }
  return absl::OkStatus();
}

// The head names the last checkpoint that was on disk. If the chain lacks it, the tail was cut.
void CompareHead(const std::string& dir, Recovered* into) {
  absl::StatusOr<std::string> head = net::ReadFile(dir + "/head.json", LineReader::kMaxLine);
  if (!head.ok() || head->empty()) return;
  head->pop_back();
  const std::optional<LineParts> parts = SplitLine(*head);
  if (!parts || parts->seq < into->state.next_seq) return;
  into->lost_below = parts->seq;
  into->lost_link = conf::Hex(parts->link);
}

}  // namespace

absl::StatusOr<Recovered> Recover(const std::string& dir, const std::string& journal_dir,
                                  const PublicKey& key, FileOps* files) {
  Recovered found;
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir);
  if (!segments.ok()) return segments.status();
  std::string checkpoint;
  while (!segments->empty()) {
    const SegmentName& last = segments->back();
    absl::StatusOr<SegmentEnd> tail = ScanTail(last, key);
    if (!tail.ok()) return tail.status();
    if (tail->torn > 0) {
      if (absl::Status moved = SetAside(last, tail->end, tail->torn, &found); !moved.ok()) return moved;
    }
    if (tail->end == 0) {
      // The process died after it created the file and before it wrote the first record.
      if (absl::Status removed = net::RemoveFile(last.path); !removed.ok()) return removed;
      segments->pop_back();
      continue;
    }
    found.damaged = tail->damaged;
    found.state.next_seq = tail->next_seq;
    found.state.link = tail->link;
    found.state.segment_begun_us = tail->begun_us;
    checkpoint = tail->checkpoint;
    if (!tail->sealed) {
      absl::StatusOr<SegmentWriter> writer = SegmentWriter::Continue(last.path, tail->end, files);
      if (!writer.ok()) return writer.status();
      found.state.segment = *std::move(writer);
    }
    break;
  }
  if (checkpoint.empty() && segments->size() > 1) {
    absl::StatusOr<SegmentEnd> before = ScanTail((*segments)[segments->size() - 2], key);
    if (!before.ok()) return before.status();
    checkpoint = before->checkpoint;
  }
  uint64_t from_seq = 0;
  if (!checkpoint.empty()) {
    found.state.last_n = ParseShards(checkpoint);
    found.state.removed_to = FindUint(checkpoint, "removed_to").value_or(0);
    const uint64_t oldest = FindUint(checkpoint, "oldest_open").value_or(0);
    const uint64_t at = FindUint("," + checkpoint.substr(1), "seq").value_or(0);
    from_seq = oldest != 0 ? oldest : at;
  }
  if (absl::Status collected = CollectOpen(*segments, from_seq, &found.state); !collected.ok())
    return collected;
  if (absl::Status journals = FindJournals(journal_dir, &found); !journals.ok()) return journals;
  CompareHead(dir, &found);
  return found;
}

}  // namespace gateway::ledger
