#include "gateway/ledger/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "conf/text.h"
#include "conf/time.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/files.h"
#include "gateway/ledger/segment.h"
#include "gateway/ledger/tail.h"

namespace gateway::ledger {
namespace {

constexpr int64_t kHourUs = 3'600'000'000;
constexpr int64_t kDayUs = 24 * kHourUs;
constexpr size_t kBatchRecords = 4096;
constexpr size_t kBatchBytes = 8 << 20;
constexpr size_t kMaxCachedTexts = 100'000;

constexpr std::string_view kVersion = "1";
constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS close (
  seq INTEGER PRIMARY KEY, time_us INTEGER NOT NULL,
  tenant INTEGER NOT NULL, key INTEGER NOT NULL, model INTEGER NOT NULL, replica INTEGER NOT NULL,
  api INTEGER NOT NULL, reason INTEGER NOT NULL,
  errors INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
  cost INTEGER NOT NULL, request TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS close_time ON close (time_us);
CREATE TABLE IF NOT EXISTS usage_hour (
  hour INTEGER NOT NULL,
  tenant INTEGER NOT NULL, key INTEGER NOT NULL, model INTEGER NOT NULL, replica INTEGER NOT NULL,
  api INTEGER NOT NULL, reason INTEGER NOT NULL,
  requests INTEGER NOT NULL, errors INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
  output INTEGER NOT NULL, cost INTEGER NOT NULL,
  PRIMARY KEY (hour, tenant, key, model, replica, api, reason)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
  seq INTEGER PRIMARY KEY, time_us INTEGER NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL, actor TEXT NOT NULL,
  subject TEXT NOT NULL, tenant TEXT NOT NULL);
)sql";

constexpr std::array<std::string_view, kUsageBys> kByNames = {"tenant", "key",    "model", "replica",
                                                              "api",    "reason", "hour",  "day"};

std::string IndexPath(const std::string& dir) {
  return dir + "/index.sqlite";
}

absl::Status RemoveIndex(const std::string& dir) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    if (absl::Status removed = RemoveFile(IndexPath(dir) + suffix); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

uint64_t ParseNumber(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int64_t HoursUp(int64_t us) {
  return us / kHourUs + (us % kHourUs > 0 ? 1 : 0);
}

}  // namespace

std::string_view Name(UsageBy by) {
  return kByNames[static_cast<size_t>(by)];
}

std::optional<UsageBy> ParseUsageBy(std::string_view name) {
  const auto found = std::find(kByNames.begin(), kByNames.end(), name);
  if (found == kByNames.end()) return std::nullopt;
  return static_cast<UsageBy>(found - kByNames.begin());
}

absl::StatusOr<std::unique_ptr<Index>> Index::Open(const std::string& ledger_dir) {
  absl::StatusOr<std::unique_ptr<Index>> index = OpenOnce(ledger_dir);
  if (!absl::IsDataLoss(index.status())) return index;
  if (absl::Status removed = RemoveIndex(ledger_dir); !removed.ok()) return removed;
  return OpenOnce(ledger_dir);
}

absl::StatusOr<std::unique_ptr<Index>> Index::OpenOnce(const std::string& dir) {
  absl::StatusOr<Database> db = Database::Open(IndexPath(dir));
  if (!db.ok()) return db.status();
  std::unique_ptr<Index> index(new Index(dir, *std::move(db)));
  if (absl::Status prepared = index->Prepare(); !prepared.ok()) return prepared;
  absl::StatusOr<bool> matches = index->Matches();
  if (!matches.ok()) return matches.status();
  if (!*matches) return absl::DataLossError("the index is of another version or over other segments");
  return index;
}

absl::Status Index::Prepare() {
  if (absl::Status made = db_.Execute(kSchema); !made.ok()) return made;
  const auto prepare = [this](std::optional<Statement>* into, std::string_view sql) {
    absl::StatusOr<Statement> statement = db_.Prepare(sql);
    if (statement.ok()) *into = *std::move(statement);
    return statement.status();
  };
  // A file of another version may lack a column; that is no fault of the system but damage to us.
  for (absl::Status status :
       {prepare(&insert_close_,
                "INSERT OR IGNORE INTO close "
                "(seq,time_us,tenant,key,model,replica,api,reason,errors,input,cached,"
                "output,cost,request) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
        prepare(&insert_event_,
                "INSERT OR IGNORE INTO event (seq,time_us,kind,action,actor,subject,tenant) VALUES "
                "(?,?,?,?,?,?,?)"),
        prepare(&insert_text_, "INSERT INTO text (text) VALUES (?) RETURNING id"),
        prepare(&find_text_, "SELECT id FROM text WHERE text = ?"),
        prepare(&add_hour_,
                "INSERT INTO usage_hour "
                "(hour,tenant,key,model,replica,api,reason,requests,errors,input,cached,output,"
                "cost) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET "
                "requests=requests+excluded.requests,"
                "errors=errors+excluded.errors,input=input+excluded.input,cached=cached+excluded.cached,"
                "output=output+excluded.output,cost=cost+excluded.cost")}) {
    if (!status.ok()) return absl::DataLossError(status.message());
  }
  return absl::OkStatus();
}

// Whether the file is of this version and its last record still stands in the segments.
absl::StatusOr<bool> Index::Matches() {
  absl::StatusOr<std::string> version = Meta("version");
  absl::StatusOr<std::string> seq = Meta("applied_seq");
  absl::StatusOr<std::string> link = Meta("applied_link");
  for (const absl::Status& status : {version.status(), seq.status(), link.status()}) {
    if (!status.ok()) return status;
  }
  if (version->empty()) return SetMeta("version", kVersion).ok();
  if (*version != kVersion) return false;
  applied_seq_ = ParseNumber(*seq);
  if (applied_seq_ == 0) return true;
  absl::StatusOr<Tail::Batch> batch = Tail(dir_, applied_seq_ - 1).Read(1, 1);
  if (!batch.ok()) return batch.status();
  if (batch->lines.empty()) return false;
  if (batch->lines[0].seq != applied_seq_) return true;  // removed by retention
  const std::optional<LineParts> parts = SplitLine(batch->lines[0].text);
  return parts && Hex(parts->link) == *link;
}

absl::StatusOr<size_t> Index::Update(size_t max_records) {
  if (absl::Status begun = db_.Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  absl::StatusOr<size_t> applied = Apply(max_records);
  const absl::Status ended = applied.ok() ? db_.Execute("COMMIT") : applied.status();
  if (ended.ok()) return applied;
  db_.Execute("ROLLBACK").IgnoreError();
  text_ids_.clear();
  return ended;
}

absl::Status Index::CatchUp() {
  while (true) {
    absl::StatusOr<size_t> applied = Update(kBatchRecords);
    if (!applied.ok()) return applied.status();
    if (*applied == 0) return absl::OkStatus();
  }
}

absl::StatusOr<size_t> Index::Apply(size_t max_records) {
  // Another process may have gone on since.
  absl::StatusOr<std::string> at = Meta("applied_seq");
  if (!at.ok()) return at.status();
  applied_seq_ = ParseNumber(*at);
  if (absl::Status forgotten = Forget(); !forgotten.ok()) return forgotten;
  // A new tail reads its segment from the front; one that stands where we are goes on from there.
  if (!tail_ || tail_->after_seq() != applied_seq_) tail_.emplace(dir_, applied_seq_);
  absl::StatusOr<Tail::Batch> batch = tail_->Read(max_records, kBatchBytes);
  if (!batch.ok()) return batch.status();
  if (batch->lines.empty()) return size_t{0};
  absl::flat_hash_map<HourKey, Sums> hours;
  Record record;
  for (const Tail::Line& line : batch->lines) {
    if (absl::Status parsed = parser_.Parse(line.text, &record); !parsed.ok()) {
      return absl::InternalError(
          conf::Abseil(fmt::format("record {}: {}", line.seq, conf::Std(parsed.message()))));
    }
    if (absl::Status applied = ApplyRecord(record, &hours); !applied.ok()) return applied;
  }
  if (absl::Status added = AddHours(hours); !added.ok()) return added;
  const std::optional<LineParts> last = SplitLine(batch->lines.back().text);
  if (absl::Status set = SetMeta("applied_link", Hex(last->link)); !set.ok()) return set;
  if (absl::Status set = SetMeta("applied_seq", std::to_string(last->seq)); !set.ok()) return set;
  applied_seq_ = last->seq;
  return batch->lines.size();
}

absl::Status Index::ApplyRecord(const Record& record, absl::flat_hash_map<HourKey, Sums>* hours) {
  const auto seq = static_cast<int64_t>(record.seq);
  if (record.kind == Kind::kClose) {
    HourKey key{record.time_us / kHourUs};
    insert_close_->Bind(1, seq).Bind(2, record.time_us);
    const std::array<std::string_view, kDimensions> texts = {record.tenant,  record.key, record.model,
                                                             record.replica, record.api, record.reason};
    for (size_t i = 0; i < texts.size(); ++i) {
      absl::StatusOr<int64_t> id = TextId(texts[i]);
      if (!id.ok()) return id.status();
      key[i + 1] = *id;
      insert_close_->Bind(static_cast<int>(i) + 3, *id);
    }
    const std::optional<EndReason> reason = ParseEndReason(record.reason);
    const int64_t errors = reason && !IsError(*reason) ? 0 : 1;
    insert_close_->Bind(9, errors).Bind(10, record.input).Bind(11, record.cached).Bind(12, record.output);
    insert_close_->Bind(13, record.cost_micro_usd).Bind(14, record.request);
    Sums& sums = (*hours)[key];
    ++sums.requests;
    sums.errors += errors;
    sums.input += record.input;
    sums.cached += record.cached;
    sums.output += record.output;
    sums.cost += record.cost_micro_usd;
    return insert_close_->Run();
  }
  if (record.kind == Kind::kOpen || record.kind == Kind::kContent || record.kind == Kind::kCheckpoint ||
      record.kind == Kind::kSegment) {
    return absl::OkStatus();
  }
  return insert_event_->Bind(1, seq)
      .Bind(2, record.time_us)
      .Bind(3, Name(record.kind))
      .Bind(4, record.action)
      .Bind(5, record.actor)
      .Bind(6, record.subject)
      .Bind(7, record.tenant)
      .Run();
}

absl::Status Index::AddHours(const absl::flat_hash_map<HourKey, Sums>& hours) {
  for (const auto& [key, sums] : hours) {
    for (size_t i = 0; i < key.size(); ++i) add_hour_->Bind(static_cast<int>(i) + 1, key[i]);
    add_hour_->Bind(8, sums.requests).Bind(9, sums.errors).Bind(10, sums.input).Bind(11, sums.cached);
    if (absl::Status added = add_hour_->Bind(12, sums.output).Bind(13, sums.cost).Run(); !added.ok())
      return added;
  }
  return absl::OkStatus();
}

// Drops what retention removed; the hour in which the rest begins is summed anew.
absl::Status Index::Forget() {
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir_);
  if (!segments.ok()) return segments.status();
  absl::StatusOr<std::string> said = Meta("first_seq");
  if (!said.ok()) return said.status();
  const uint64_t first = segments->empty() ? 1 : segments->front().first_seq;
  if (first <= std::max<uint64_t>(ParseNumber(*said), 1)) return absl::OkStatus();
  absl::StatusOr<Statement> newest = db_.Prepare("SELECT max(time_us) / ?2 FROM close WHERE seq < ?1");
  if (!newest.ok()) return newest.status();
  absl::StatusOr<bool> row = newest->Bind(1, static_cast<int64_t>(first)).Bind(2, kHourUs).Step();
  if (!row.ok()) return row.status();
  const int64_t hour = newest->Int(0);
  newest->Reset();
  if (absl::Status dropped = db_.Execute(fmt::format("DELETE FROM close WHERE seq < {0}; DELETE FROM event "
                                                     "WHERE seq < {0}; DELETE FROM usage_hour WHERE hour <= "
                                                     "{1}; INSERT INTO usage_hour SELECT time_us / {2}, "
                                                     "tenant, key, model, replica, api, reason, count(*), "
                                                     "sum(errors), sum(input), sum(cached), sum(output), "
                                                     "sum(cost) FROM close WHERE time_us < ({1} + 1) * {2} "
                                                     "GROUP BY 1, 2, 3, 4, 5, 6, 7",
                                                     first, hour, kHourUs));
      !dropped.ok()) {
    return dropped;
  }
  return SetMeta("first_seq", std::to_string(first));
}

absl::StatusOr<int64_t> Index::TextId(std::string_view text) {
  if (const auto found = text_ids_.find(conf::Abseil(text)); found != text_ids_.end()) return found->second;
  for (std::optional<Statement>* statement : {&find_text_, &insert_text_}) {
    absl::StatusOr<bool> row = (*statement)->Bind(1, text).Step();
    const int64_t id = row.ok() && *row ? (*statement)->Int(0) : 0;
    (*statement)->Reset();
    if (!row.ok()) return row.status();
    if (!*row) continue;
    if (text_ids_.size() >= kMaxCachedTexts) text_ids_.clear();
    text_ids_.emplace(std::string(text), id);
    return id;
  }
  return absl::InternalError("index: a text could not be added");
}

absl::StatusOr<std::string> Index::Meta(std::string_view name) {
  absl::StatusOr<Statement> statement = db_.Prepare("SELECT value FROM meta WHERE name = ?");
  if (!statement.ok()) return statement.status();
  absl::StatusOr<bool> row = statement->Bind(1, name).Step();
  if (!row.ok()) return row.status();
  return *row ? statement->Text(0) : std::string();
}

absl::Status Index::SetMeta(std::string_view name, std::string_view value) {
  absl::StatusOr<Statement> statement =
      db_.Prepare("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)");
  if (!statement.ok()) return statement.status();
  return statement->Bind(1, name).Bind(2, value).Run();
}

absl::StatusOr<std::vector<UsageRow>> Index::Usage(const UsageQuery& query) {
  // Whole hours from the sums, the edges from the rows.
  const int64_t whole_begin = std::min(HoursUp(query.since_us), query.until_us / kHourUs);
  const int64_t whole_end = std::max(query.until_us / kHourUs, whole_begin);
  const bool no_whole = whole_begin == whole_end;
  const int64_t first_end = no_whole ? query.until_us : whole_begin * kHourUs;
  const int64_t second_begin = no_whole ? query.until_us : whole_end * kHourUs;

  std::string columns;
  std::string groups;
  for (size_t i = 0; i < query.by.size(); ++i) {
    const std::string_view name = Name(query.by[i]);
    if (query.by[i] == UsageBy::kHour || query.by[i] == UsageBy::kDay) {
      columns += query.by[i] == UsageBy::kHour ? "hour, " : "hour / 24, ";
    } else {
      columns += fmt::format("(SELECT text FROM text WHERE id = {}), ", name);
    }
    groups += fmt::format("{}{}", i == 0 ? " GROUP BY 1" : ", ", i == 0 ? "" : std::to_string(i + 1));
  }
  std::string order = groups;
  if (!order.empty()) order.replace(order.find("GROUP"), 5, "ORDER");
  const std::string sql = fmt::format(
      "SELECT {}sum(requests), sum(errors), sum(input), sum(cached), sum(output), sum(cost) FROM ("
      "SELECT hour, tenant, key, model, replica, api, reason, requests, errors, input, cached, output, cost "
      "FROM usage_hour WHERE hour >= ?1 AND hour < ?2 UNION ALL "
      "SELECT time_us / ?7, tenant, key, model, replica, api, reason, 1, errors, input, cached, output, cost "
      "FROM close WHERE time_us >= ?3 AND time_us < ?4 UNION ALL "
      "SELECT time_us / ?7, tenant, key, model, replica, api, reason, 1, errors, input, cached, output, cost "
      "FROM close WHERE time_us >= ?5 AND time_us < ?6) "
      "WHERE (?8 = '' OR tenant IN (SELECT id FROM text WHERE text = ?8 OR substr(text, 1, length(?8) + 1) = "
      "?8 || "
      "'/')) AND (?9 = '' OR model IN (SELECT id FROM text WHERE text = ?9)){} HAVING sum(requests) > 0{}",
      columns, groups.empty() ? " GROUP BY NULL" : groups, order);
  absl::StatusOr<Statement> statement = db_.Prepare(sql);
  if (!statement.ok()) return statement.status();
  statement->Bind(1, whole_begin).Bind(2, whole_end);
  statement->Bind(3, query.since_us).Bind(4, first_end).Bind(5, second_begin).Bind(6, query.until_us);
  statement->Bind(7, kHourUs).Bind(8, query.tenant).Bind(9, query.model);
  std::vector<UsageRow> rows;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return rows;
    UsageRow row;
    int column = 0;
    for (const UsageBy by : query.by) {
      if (by == UsageBy::kHour || by == UsageBy::kDay) {
        const int64_t begin = statement->Int(column) * (by == UsageBy::kHour ? kHourUs : kDayUs);
        row.group.push_back(conf::FormatTime(conf::FromUnixMicros(begin)));
      } else {
        row.group.push_back(statement->Text(column));
      }
      ++column;
    }
    for (int64_t UsageRow::* sum : {&UsageRow::requests, &UsageRow::errors, &UsageRow::input,
                                    &UsageRow::cached, &UsageRow::output, &UsageRow::cost_micro_usd}) {
      row.*sum = statement->Int(column++);
    }
    rows.push_back(std::move(row));
  }
}

absl::StatusOr<std::vector<UsageRow>> QueryUsage(const std::string& ledger_dir, const UsageQuery& query) {
  absl::StatusOr<std::unique_ptr<Index>> index = Index::Open(ledger_dir);
  if (!index.ok()) return index.status();
  absl::Status caught_up = (*index)->CatchUp();
  if (absl::IsDataLoss(caught_up)) {
    index->reset();
    if (absl::Status removed = RemoveIndex(ledger_dir); !removed.ok()) return removed;
    index = Index::Open(ledger_dir);
    if (!index.ok()) return index.status();
    caught_up = (*index)->CatchUp();
  }
  if (!caught_up.ok()) return caught_up;
  return (*index)->Usage(query);
}

absl::StatusOr<std::vector<UsageRow>> SpentSince(const std::string& ledger_dir, int64_t since_us) {
  return QueryUsage(ledger_dir, {.by = {UsageBy::kTenant, UsageBy::kKey}, .since_us = since_us});
}

}  // namespace gateway::ledger
