#include "gateway/ledger/committer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

// Room for thousands of records, such as the ends of running requests and runs, and revoked keys.
constexpr uint64_t kRoom = uint64_t{4} << 20;
constexpr uint64_t kLeastRoom = uint64_t{64} << 10;

int64_t Micros(conf::Duration d) {
  return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace

Committer::Committer(CommitOptions options, const SigningKey* key, ChainState state)
    : options_(std::move(options)), key_(key), state_(std::move(state)) {
  durable_seq_ = state_.next_seq - 1;
  checkpoint_us_ = Now();
}

absl::Status Committer::Ready() {
  if (absl::Status written = Write(); !written.ok()) return written;
  if (state_.segment) return absl::OkStatus();
  absl::StatusOr<SegmentWriter> segment =
      SegmentWriter::Create(options_.dir, state_.next_seq, options_.files);
  if (!segment.ok()) return segment.status();
  state_.segment = *std::move(segment);
  state_.segment_begun_us = Now();
  LineWriter(&pending_, state_.next_seq, state_.segment_begun_us, Kind::kSegment)
      .Uint("format", 1)
      .Text("previous", conf::Hex(state_.link));
  Finish(0);
  --since_checkpoint_;  // the first record of a segment needs no checkpoint
  return absl::OkStatus();
}

uint64_t Committer::Room() const {
  return std::clamp(options_.segment_bytes / 16, kLeastRoom, kRoom);
}

// On a full disk the segment grows beyond its size, within its reserved room, until another can be created.
bool Committer::MaySeal() {
  return !net::IsDiskFull(SegmentWriter::MakeSpare(options_.dir, Room(), options_.files));
}

void Committer::Finish(size_t begin) {
  state_.link = FinishLine(&pending_, begin, state_.link);
  ++state_.next_seq;
  ++since_checkpoint_;
  ++records_;
}

void Committer::AddFrame(uint32_t shard, uint64_t n, std::string_view payload) {
  if (state_.last_n.size() <= shard) state_.last_n.resize(shard + 1, 0);
  if (n <= state_.last_n[shard]) return;
  state_.last_n[shard] = n;
  const Origin origin{shard, n};
  OpenRecord of;
  CloseRecord close;
  ContentRecord content;
  uint64_t open_n = 0;
  size_t size = 0;
  const size_t begin = pending_.size();
  if (DecodeOpen(payload, &of, &size)) {
    if (of.time_us == 0) of.time_us = Now();
    if (size == payload.size()) {
      RenderOpen(&pending_, state_.next_seq, origin, of);
      state_.open[OpenKey(shard, n)] = {state_.next_seq, std::string(payload)};
    } else if (DecodeClose(payload.substr(size), &close, &open_n)) {
      if (close.time_us == 0) close.time_us = of.time_us;
      RenderClose(&pending_, state_.next_seq, origin, 0, of, close);
    } else {
      ++unknown_frames_;
      return;
    }
    Finish(begin);
  } else if (DecodeClose(payload, &close, &open_n)) {
    AddClose(OpenKey(shard, open_n), origin, close);
  } else if (DecodeContent(payload, &content, &open_n)) {
    const auto found = state_.open.find(OpenKey(shard, open_n));
    if (found != state_.open.end()) DecodeOpen(found->second.identity, &of, &size);
    if (content.time_us == 0) content.time_us = Now();
    RenderContent(&pending_, state_.next_seq, origin, found == state_.open.end() ? 0 : found->second.seq, of,
                  content);
    Finish(begin);
  } else {
    ++unknown_frames_;
  }
}

void Committer::AddClose(uint64_t key, Origin origin, CloseRecord record) {
  OpenRecord of;
  size_t size = 0;
  uint64_t open_seq = 0;
  const auto found = state_.open.find(key);
  if (found != state_.open.end()) {
    DecodeOpen(found->second.identity, &of, &size);
    open_seq = found->second.seq;
    CountServed(found->second, of, record);
  }
  if (record.time_us == 0) record.time_us = Now();
  const size_t begin = pending_.size();
  RenderClose(&pending_, state_.next_seq, origin, open_seq, of, record);
  Finish(begin);
  if (found != state_.open.end()) state_.open.erase(found);
}

void Committer::CountServed(OpenRequest& request, const OpenRecord& of, const CloseRecord& record) {
  if (!counts_served_ || record.replica.empty()) return;
  const uint64_t weight = DeviceWeight(record.counts.input, record.counts.cached, record.counts.output);
  if (weight <= request.counted_weight) return;
  served_[{std::string(of.tenant), std::string(record.replica)}] +=
      weight - std::exchange(request.counted_weight, weight);
}

void Committer::NoteProgress(uint64_t open_key, const CloseRecord& so_far) {
  const auto found = state_.open.find(open_key);
  OpenRecord of;
  size_t size = 0;
  if (found == state_.open.end() || !DecodeOpen(found->second.identity, &of, &size)) return;
  CountServed(found->second, of, so_far);
}

std::vector<Served> Committer::TakeServed() {
  std::vector<Served> all;
  all.reserve(served_.size());
  for (auto& [who, weight] : served_) all.push_back({who.first, who.second, weight});
  served_.clear();
  return all;
}

void Committer::AddInterrupted(uint64_t open_key, const CloseRecord& record) {
  AddClose(open_key, {}, record);
}

void Committer::AddEvent(Event event) {
  if (event.time_us == 0) event.time_us = Now();
  const size_t begin = pending_.size();
  RenderEvent(&pending_, state_.next_seq, event);
  Finish(begin);
}

void Committer::AddDevices(const DeviceRecord& record) {
  const size_t begin = pending_.size();
  RenderDevices(&pending_, state_.next_seq, record);
  Finish(begin);
}

void Committer::AddRecovery(std::string_view action, std::string_view detail) {
  AddEvent({.kind = Kind::kRecovery,
            .action = std::string(action),
            .actor = "ledger",
            .detail = std::string(detail)});
}

void Committer::AddCheckpoint(bool seal) {
  uint64_t oldest = 0;
  for (const auto& [key, open] : state_.open) {
    if (oldest == 0 || open.seq < oldest) oldest = open.seq;
  }
  const size_t begin = pending_.size();
  LineWriter line(&pending_, state_.next_seq, Now(), Kind::kCheckpoint);
  line.Bool("sealed", seal).Uint("oldest_open", oldest).Uint("removed_to", state_.removed_to);
  line.Raw("shards", fmt::format("[{}]", fmt::join(state_.last_n, ",")));
  line.Text("signer", key_->public_key().Fingerprint());
  const Signature signature =
      key_->Sign(CheckpointMessage(state_.link, std::string_view(pending_).substr(begin)));
  line.Text("signature", conf::Hex(signature));
  Finish(begin);
  checkpoint_ = pending_.substr(begin);
  head_due_ = true;
  sealing_ = seal;
  since_checkpoint_ = 0;
  checkpoint_us_ = Now();
}

absl::Status Committer::Commit() {
  if (!sealing_ && state_.segment) {
    const int64_t now = Now();
    const bool full = state_.segment->size() + pending_.size() >= options_.segment_bytes;
    const bool old = now - state_.segment_begun_us >= Micros(options_.segment_age);
    const bool due = since_checkpoint_ >= options_.checkpoint_records ||
                     now - checkpoint_us_ >= Micros(options_.checkpoint_interval);
    if ((full || old) && MaySeal()) {
      AddCheckpoint(true);
    } else if (due && since_checkpoint_ > 0) {
      AddCheckpoint(false);
    }
  }
  return Write();
}

absl::Status Committer::Write() {
  if (!pending_.empty()) {
    if (absl::Status written = state_.segment->Append(pending_); !written.ok()) return written;
    pending_.clear();
    durable_seq_ = state_.next_seq - 1;
    if (sealing_) {
      sealing_ = false;
      state_.segment->GiveRoomBack();
      state_.segment.reset();
    } else {
      state_.segment->KeepRoom(Room());
    }
  }
  return head_due_ ? WriteHead() : absl::OkStatus();
}

absl::Status Committer::WriteHead() {
  absl::Status written = net::ReplaceFile(options_.dir + "/head.json", checkpoint_);
  if (written.ok()) head_due_ = false;
  // On a full disk the previous head stays: it guards the tail, except for the last records.
  return net::IsDiskFull(written) ? absl::OkStatus() : written;
}

// A row usually has 200 bytes, and at most 3,200, so a record stays below LineReader::kMaxLine.
void Committer::AddRetention(uint64_t from_seq, uint64_t to_seq, std::string_view last_link,
                             const std::vector<SpendRow>& spent) {
  constexpr size_t kRows = 500;
  const size_t parts = std::max<size_t>((spent.size() + kRows - 1) / kRows, 1);
  for (size_t part = 1; part <= parts; ++part) {
    const SpendRow* const first = spent.data() + (part - 1) * kRows;
    const SpendRow* const last = spent.data() + std::min(part * kRows, spent.size());
    const size_t begin = pending_.size();
    LineWriter(&pending_, state_.next_seq, Now(), Kind::kRetention)
        .Text("action", "removed")
        .Uint("from_seq", from_seq)
        .Uint("to_seq", to_seq)
        .Text("last_chain", last_link)
        .Uint("number", part)
        .Uint("of", parts)
        .Raw("spent", RenderRows(first, last));
    Finish(begin);
  }
  state_.removed_to = to_seq;
  AddCheckpoint(false);
}

absl::Status Committer::Retain(bool* more) {
  *more = false;
  if (options_.retain_bytes == 0 && options_.retain_for == conf::Duration::zero()) return absl::OkStatus();
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(options_.dir);
  if (!segments.ok()) return segments.status();
  // The last segment stays, and so does every segment with the open record of a running request.
  uint64_t oldest_open = state_.next_seq;
  for (const auto& [key, open] : state_.open) oldest_open = std::min(oldest_open, open.seq);
  if (segments->size() < 2 || (*segments)[1].first_seq > oldest_open) return absl::OkStatus();
  const SegmentName& oldest = segments->front();
  const uint64_t to_seq = (*segments)[1].first_seq - 1;
  if (to_seq > state_.removed_to) {
    absl::StatusOr<bool> recorded = RecordRemoval(*segments);
    if (!recorded.ok() || !*recorded) return recorded.status();
  }
  if (absl::Status written = Write(); !written.ok()) return written;
  if (absl::Status removed = options_.files->Remove(oldest.path); !removed.ok()) return removed;
  *more = true;
  return net::SyncDirectory(options_.dir);
}

// False: retention keeps the oldest segment.
absl::StatusOr<bool> Committer::RecordRemoval(const std::vector<SegmentName>& segments) {
  std::vector<uint64_t> bytes;
  uint64_t total = 0;
  for (const SegmentName& segment : segments) {
    std::error_code error;
    bytes.push_back(std::filesystem::file_size(segment.path, error));
    if (error) return net::SystemError("measure", segment.path, error.value());
    total += bytes.back();
  }
  absl::StatusOr<LineReader> next = LineReader::Open(segments[1].path);
  if (!next.ok()) return next.status();
  absl::StatusOr<std::optional<std::string_view>> line = next->Next();
  if (!line.ok()) return line.status();
  const std::optional<LineParts> header = *line ? SplitLine(**line) : std::nullopt;
  if (!header || header->kind != Name(Kind::kSegment)) return false;
  const bool aged =
      options_.retain_for > conf::Duration::zero() && header->time_us < Now() - Micros(options_.retain_for);
  const bool over = options_.retain_bytes > 0 && total > options_.retain_bytes;
  if (!aged && !over) return false;
  absl::StatusOr<Spend> spent = SpendOf(segments[0].path);
  if (!spent.ok()) return spent.status();
  const std::vector<SpendRow> carried = spent->Carried(DayOf(Now()));
  // A removal must free more bytes than it writes, or retention would never end.
  if (const uint64_t rows = RenderRows(carried.data(), carried.data() + carried.size()).size();
      2 * rows > bytes[0]) {
    return absl::ResourceExhaustedError(
        conf::Abseil(fmt::format("{} is kept: its removal would write {} of its {} bytes again, for the "
                                 "budgets of {} keys and models; raise ledger.segment_bytes",
                                 segments[0].path, rows, bytes[0], carried.size())));
  }
  if (absl::Status ready = Ready(); !ready.ok()) return ready;
  AddRetention(segments[0].first_seq, segments[1].first_seq - 1,
               FindText(header->body, "previous").value_or(""), carried);
  return true;
}

}  // namespace gateway::ledger
