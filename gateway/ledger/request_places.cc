#include "gateway/ledger/request_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "conf/text.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/record.h"
#include "gateway/ledger/request_id.h"
#include "gateway/ledger/segment.h"

namespace gateway::ledger {
namespace {

constexpr int64_t kMostSpanMs = 10 * 60 * 1000;
// A request's first record comes at most this long after the time in its id: its body may take long to arrive. Ids
// of another form, read as times, are far off.
constexpr int64_t kMostLateMs = 2 * 3600 * 1000;
constexpr int64_t kMostEarlyMs = 60 * 1000;
constexpr int kMostPieces = 64;

// The number of a line; does not read the rest of the line.
uint64_t SeqOf(std::string_view line) {
  constexpr std::string_view kBegin = "{\"seq\":";
  uint64_t seq = 0;
  if (line.starts_with(kBegin)) std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), seq);
  return seq;
}

// The time in the id, if the record is a request's first: an open, or the close of a refused request.
std::optional<int64_t> BeginMillis(const LineParts& parts) {
  const bool refused = parts.kind == Name(Kind::kClose) && FindUint(parts.body, "open_seq") == 0;
  if (parts.kind != Name(Kind::kOpen) && !refused) return std::nullopt;
  const std::optional<std::string_view> request = FindText(parts.body, "request");
  const std::optional<int64_t> millis = request ? RequestMillis(*request) : std::nullopt;
  const int64_t recorded = parts.time_us / 1000;
  if (!millis || *millis > recorded + kMostEarlyMs || *millis < recorded - kMostLateMs) return std::nullopt;
  return millis;
}

}  // namespace

// FindText finds every text that the ledger writes without escapes.
ServedBy ServedByOf(const LineParts& close) {
  return {.version = std::string(FindText(close.body, "served_model").value_or("")),
          .replica = std::string(FindText(close.body, "replica").value_or(""))};
}

const char* RequestPlaces::Schema() {
  return "CREATE TABLE IF NOT EXISTS place (first_seq INTEGER PRIMARY KEY, segment INTEGER NOT NULL, "
         "offset INTEGER NOT NULL, min_ms INTEGER NOT NULL, max_ms INTEGER NOT NULL);"
         "CREATE INDEX IF NOT EXISTS place_by_time ON place (max_ms);";
}

void RequestPlaces::Add(const Tail::Entry& entry) {
  const std::optional<int64_t> millis = BeginMillis(entry.parts);
  const bool fits =
      current_ && current_->segment == entry.segment && entry.offset < current_->offset + kPieceBytes &&
      (!millis || current_->max_ms == 0 ||
       std::max(*millis, current_->max_ms) - std::min(*millis, current_->min_ms) <= kMostSpanMs);
  if (!fits) {
    if (current_ && changed_) full_.push_back(*current_);
    current_ = Piece{.first_seq = entry.parts.seq, .segment = entry.segment, .offset = entry.offset};
    changed_ = true;
  }
  if (!millis) return;
  if (*millis >= current_->min_ms && *millis <= current_->max_ms) return;
  current_->min_ms = std::min(current_->min_ms, *millis);
  current_->max_ms = std::max(current_->max_ms, *millis);
  changed_ = true;
}

absl::Status RequestPlaces::Save() {
  if (current_ && changed_) full_.push_back(*current_);
  changed_ = false;
  if (full_.empty()) return absl::OkStatus();
  absl::StatusOr<sqlite::Statement> insert =
      db_.Prepare("INSERT OR REPLACE INTO place (first_seq,segment,offset,min_ms,max_ms) VALUES (?,?,?,?,?)");
  if (!insert.ok()) return insert.status();
  for (const Piece& piece : full_) {
    absl::Status saved = insert->Bind(1, static_cast<int64_t>(piece.first_seq))
                             .Bind(2, static_cast<int64_t>(piece.segment))
                             .Bind(3, static_cast<int64_t>(piece.offset))
                             .Bind(4, piece.max_ms == 0 ? 0 : piece.min_ms)
                             .Bind(5, piece.max_ms)
                             .Run();
    if (!saved.ok()) return saved;
  }
  full_.clear();
  return absl::OkStatus();
}

void RequestPlaces::Restart() {
  current_.reset();
  full_.clear();
  changed_ = false;
}

absl::Status RequestPlaces::Forget(uint64_t first) {
  return db_.Execute(fmt::format("DELETE FROM place WHERE segment < {}", first));
}

absl::StatusOr<std::optional<FoundRequest>> RequestPlaces::Find(std::string_view request) {
  const std::optional<int64_t> millis = RequestMillis(request);
  if (!millis) return std::nullopt;
  // The piece ends where the next one begins.
  absl::StatusOr<sqlite::Statement> pieces = db_.Prepare(
      "SELECT first_seq, segment, offset, (SELECT first_seq FROM place AS next WHERE next.first_seq > "
      "place.first_seq ORDER BY first_seq LIMIT 1) FROM place WHERE max_ms BETWEEN ?1 AND ?2 AND min_ms <= "
      "?1 "
      "ORDER BY max_ms LIMIT ?3");
  if (!pieces.ok()) return pieces.status();
  pieces->Bind(1, *millis).Bind(2, *millis + kMostLateMs + kMostSpanMs).Bind(3, int64_t{kMostPieces});
  std::optional<FoundRequest> found;
  while (!found) {
    absl::StatusOr<bool> more = pieces->Step();
    if (!more.ok()) return more.status();
    if (!*more) return std::nullopt;
    const uint64_t last =
        pieces->IsNull(3) ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(pieces->Int(3)) - 1;
    const auto begins = [&found](const LineParts& parts, std::string_view) {
      const uint64_t open_seq = FindUint(parts.body, "open_seq").value_or(0);
      const bool refused = parts.kind == Name(Kind::kClose) && open_seq == 0;
      if (parts.kind != Name(Kind::kOpen) && !refused) return true;
      found.emplace();
      found->first_seq = parts.seq;
      found->open_seq = refused ? 0 : parts.seq;
      found->settled = refused;
      found->tenant = FindText(parts.body, "tenant").value_or("");
      found->key = FindText(parts.body, "key").value_or("");
      found->model = FindText(parts.body, "model").value_or("");
      return false;
    };
    absl::Status read = Scan(request, static_cast<uint64_t>(pieces->Int(1)),
                             static_cast<uint64_t>(pieces->Int(2)), last, kMaxScan, begins);
    if (!read.ok() && !absl::IsNotFound(read)) return read;
  }
  if (found->settled) return found;
  absl::StatusOr<std::optional<ServedBy>> served =
      ClosedBetween(request, found->open_seq, std::numeric_limits<uint64_t>::max());
  if (!served.ok()) return served.status();
  found->settled = served->has_value();
  if (*served) found->served = **std::move(served);
  return found;
}

absl::StatusOr<std::optional<ServedBy>> RequestPlaces::ClosedBetween(std::string_view request, uint64_t after,
                                                                     uint64_t last) {
  std::optional<ServedBy> served;
  absl::Status read =
      ForEachOf(request, after + 1, last, [&served](const LineParts& parts, std::string_view) {
        if (parts.kind != Name(Kind::kClose)) return true;
        served = ServedByOf(parts);
        return false;
      });
  if (!read.ok()) return read;
  return served;
}

absl::Status RequestPlaces::ForEachOf(std::string_view request, uint64_t from, uint64_t last,
                                      const Visit& visit) {
  absl::StatusOr<sqlite::Statement> piece =
      db_.Prepare("SELECT segment, offset FROM place WHERE first_seq <= ? ORDER BY first_seq DESC LIMIT 1");
  if (!piece.ok()) return piece.status();
  absl::StatusOr<bool> row = piece->Bind(1, static_cast<int64_t>(from)).Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::OkStatus();
  const auto later = [&](const LineParts& parts, std::string_view line) {
    return parts.seq < from || visit(parts, line);
  };
  absl::Status read = Scan(request, static_cast<uint64_t>(piece->Int(0)),
                           static_cast<uint64_t>(piece->Int(1)), last, kMaxScan, later);
  return absl::IsNotFound(read) ? absl::OkStatus() : read;  // not found: retention removed it meanwhile
}

absl::Status RequestPlaces::Scan(std::string_view request, uint64_t segment, uint64_t offset, uint64_t last,
                                 uint64_t max_bytes, const Visit& visit) const {
  uint64_t bytes = 0;
  while (true) {
    absl::StatusOr<LineReader> reader = LineReader::Open(SegmentPath(dir_, segment), offset);
    if (!reader.ok()) return reader.status();
    while (true) {
      absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
      if (absl::IsDataLoss(line.status()) || (line.ok() && !*line)) break;  // the next segment follows
      if (!line.ok()) return line.status();
      if (SeqOf(**line) > last) return absl::OkStatus();
      bytes += (*line)->size();
      if (memmem((*line)->data(), (*line)->size(), request.data(), request.size()) != nullptr) {
        const std::optional<LineParts> parts = SplitLine(**line);
        // Texts of other records may hold the id, too.
        if (parts && FindText(parts->body, "request") == request && !visit(*parts, **line))
          return absl::OkStatus();
      }
      if (bytes > max_bytes) return absl::OkStatus();
    }
    absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir_);
    if (!segments.ok()) return segments.status();
    const auto next = std::ranges::upper_bound(*segments, segment, {}, &SegmentName::first_seq);
    if (next == segments->end()) return absl::OkStatus();
    segment = next->first_seq;
    offset = 0;
  }
}

}  // namespace gateway::ledger
