#include "gateway/ledger/feedback_table.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "conf/time.h"
#include "conf/words.h"

namespace gateway::ledger {
namespace {

constexpr conf::Word<FeedbackBy> kFeedbackByWords[] = {
    {"tenant", FeedbackBy::kTenant},   {"key", FeedbackBy::kKey},         {"model", FeedbackBy::kModel},
    {"version", FeedbackBy::kVersion}, {"replica", FeedbackBy::kReplica}, {"hour", FeedbackBy::kHour},
    {"day", FeedbackBy::kDay}};

bool IsTime(FeedbackBy by) {
  return by == FeedbackBy::kHour || by == FeedbackBy::kDay;
}
constexpr int64_t kFeedbackHourUs = 3600LL * 1'000'000;
int64_t SpanUs(FeedbackBy by) {
  return by == FeedbackBy::kHour ? kFeedbackHourUs : 24 * kFeedbackHourUs;
}

// The rows of the table as SelectFeedback reads them.
constexpr char kFeedbackRows[] =
    "SELECT time_us, tenant, key, model, version, replica, name, type, text, 1 AS count, "
    "iif(type = 0, number, 0) AS positive, iif(type = 1, number, 0) AS sum, number AS min, number AS max "
    "FROM "
    "feedback";

// For an INSERT of hours into the table of changes.
constexpr char kNoteFeedback[] = "INSERT OR REPLACE INTO feedback_changed (hour, seq) ";

}  // namespace

std::string_view Name(FeedbackBy by) {
  return conf::WordOf(kFeedbackByWords, by);
}

std::optional<FeedbackBy> ParseFeedbackBy(std::string_view name) {
  return conf::ValueOf(kFeedbackByWords, name);
}

const char* FeedbackTable::Schema() {
  return "CREATE TABLE IF NOT EXISTS feedback (id INTEGER PRIMARY KEY, request TEXT NOT NULL, name TEXT NOT "
         "NULL,"
         "key TEXT NOT NULL, seq INTEGER NOT NULL, time_us INTEGER NOT NULL, tenant TEXT NOT NULL, model "
         "TEXT NOT "
         "NULL, version TEXT NOT NULL, replica TEXT NOT NULL, settled INTEGER NOT NULL, type INTEGER NOT "
         "NULL, number REAL NOT "
         "NULL, text "
         "TEXT NOT NULL, content_key TEXT NOT NULL, comment TEXT NOT NULL, correction TEXT NOT NULL, UNIQUE "
         "(request, name, key));"
         "CREATE INDEX IF NOT EXISTS feedback_by_time ON feedback (time_us);"
         "CREATE INDEX IF NOT EXISTS feedback_by_seq ON feedback (seq);"
         "CREATE INDEX IF NOT EXISTS feedback_waiting ON feedback (request) WHERE settled = 0;"
         "CREATE TABLE IF NOT EXISTS feedback_changed (hour INTEGER PRIMARY KEY, seq INTEGER NOT NULL);";
}

absl::Status FeedbackTable::Add(const Record& record) {
  absl::StatusOr<Feedback> read = FeedbackOf(record);
  if (!read.ok()) return absl::OkStatus();  // `audit verify` reports damaged records
  Feedback& of = *read;
  if (!of.settled) {
    // The request may have ended between that search and this record. Saves the pieces up to here for the search.
    if (absl::Status saved = places_.Save(); !saved.ok()) return saved;
    absl::StatusOr<std::optional<ServedBy>> served =
        places_.ClosedBetween(of.request, of.known_to, record.seq);
    if (!served.ok()) return served.status();
    of.settled = served->has_value();
    of.version = of.settled ? std::move((*served)->version) : std::string();
    of.replica = of.settled ? std::move((*served)->replica) : std::string();
  }
  // The feedback that this one replaces may count in another hour.
  if (absl::Status noted = NoteEarlier(of, record.seq); !noted.ok()) return noted;
  if (absl::Status noted = NoteHour(record.time_us, record.seq); !noted.ok()) return noted;
  const FeedbackType type = TypeOf(of.value);
  double number = 0;
  if (const auto* const flag = std::get_if<bool>(&of.value)) number = *flag ? 1 : 0;
  if (const auto* const given = std::get_if<double>(&of.value)) number = *given;
  const auto* const text = std::get_if<std::string>(&of.value);
  const std::string comment = absl::Base64Escape(of.comment);
  const std::string correction = absl::Base64Escape(of.correction);
  absl::StatusOr<sqlite::Statement> insert = db_.Prepare(
      "INSERT INTO feedback (request,name,key,seq,time_us,tenant,model,version,replica,settled,type,number,"
      "text,content_key,comment,correction) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT "
      "(request,name,key) "
      "DO "
      "UPDATE SET seq=excluded.seq,time_us=excluded.time_us,tenant=excluded.tenant,model=excluded.model,"
      "version=iif(excluded.settled,excluded.version,version),"
      "replica=iif(excluded.settled,excluded.replica,replica),settled=max(settled,excluded.settled),"
      "type=excluded.type,number=excluded.number,text=excluded.text,content_key=excluded.content_key,"
      "comment=excluded.comment,correction=excluded.correction WHERE excluded.seq > seq");
  if (!insert.ok()) return insert.status();
  insert->Bind(1, of.request).Bind(2, of.name).Bind(3, of.key).Bind(4, static_cast<int64_t>(record.seq));
  insert->Bind(5, record.time_us).Bind(6, of.tenant).Bind(7, of.model).Bind(8, of.version);
  insert->Bind(9, of.replica).Bind(10, int64_t{of.settled}).Bind(11, static_cast<int64_t>(type));
  insert->BindReal(12, number).Bind(13, text ? std::string_view(*text) : std::string_view());
  insert->Bind(14, of.content_key).Bind(15, comment).Bind(16, correction);
  if (absl::Status added = insert->Run(); !added.ok()) return added;
  if (!of.settled && waiting_.size() < kMaxWaiting) waiting_.insert(of.request);
  return absl::OkStatus();
}

absl::Status FeedbackTable::OnClose(std::string_view request, const ServedBy& served, uint64_t seq) {
  if (waiting_.erase(conf::Abseil(request)) == 0) return absl::OkStatus();
  if (absl::Status noted = NoteUnsettled(request, seq); !noted.ok()) return noted;
  absl::StatusOr<sqlite::Statement> settle = db_.Prepare(
      "UPDATE feedback SET settled = 1, version = ?, replica = ? WHERE request = ? AND settled = 0");
  if (!settle.ok()) return settle.status();
  return settle->Bind(1, served.version).Bind(2, served.replica).Bind(3, request).Run();
}

absl::Status FeedbackTable::NoteHour(int64_t time_us, uint64_t seq) {
  absl::StatusOr<sqlite::Statement> note = db_.Prepare(fmt::format("{}VALUES (?, ?)", kNoteFeedback));
  if (!note.ok()) return note.status();
  return note->Bind(1, time_us / kFeedbackHourUs).Bind(2, static_cast<int64_t>(seq)).Run();
}

absl::Status FeedbackTable::NoteUnsettled(std::string_view request, uint64_t seq) {
  absl::StatusOr<sqlite::Statement> note = db_.Prepare(
      fmt::format("{}SELECT DISTINCT time_us / {}, ?1 FROM feedback WHERE request = ?2 AND settled = 0",
                  kNoteFeedback, kFeedbackHourUs));
  if (!note.ok()) return note.status();
  return note->Bind(1, static_cast<int64_t>(seq)).Bind(2, request).Run();
}

absl::Status FeedbackTable::NoteEarlier(const Feedback& of, uint64_t seq) {
  absl::StatusOr<sqlite::Statement> note = db_.Prepare(
      fmt::format("{}SELECT time_us / {}, ?1 FROM feedback WHERE request = ?2 AND name = ?3 AND key = ?4",
                  kNoteFeedback, kFeedbackHourUs));
  if (!note.ok()) return note.status();
  return note->Bind(1, static_cast<int64_t>(seq)).Bind(2, of.request).Bind(3, of.name).Bind(4, of.key).Run();
}

absl::Status FeedbackTable::Restart() {
  waiting_.clear();
  absl::StatusOr<sqlite::Statement> all =
      db_.Prepare("SELECT DISTINCT request FROM feedback WHERE settled = 0 ORDER BY request LIMIT ?");
  if (!all.ok()) return all.status();
  all->Bind(1, static_cast<int64_t>(kMaxWaiting));
  while (true) {
    absl::StatusOr<bool> more = all->Step();
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    waiting_.insert(all->Text(0));
  }
}

absl::Status FeedbackTable::Forget(uint64_t first) {
  return db_.Execute(fmt::format(
      "DELETE FROM feedback WHERE seq < {0}; DELETE FROM feedback_changed WHERE seq < {0}", first));
}

FeedbackSum& FeedbackSum::operator+=(const FeedbackSum& other) {
  min = count == 0 ? other.min : std::min(min, other.min);
  max = count == 0 ? other.max : std::max(max, other.max);
  count += other.count;
  positive += other.positive;
  sum += other.sum;
  return *this;
}

absl::StatusOr<std::vector<FeedbackSum>> FeedbackTable::Sums(const FeedbackQuery& query) {
  return SelectFeedback(db_, query, kFeedbackRows);
}

absl::StatusOr<std::vector<int64_t>> FeedbackTable::HoursOf(const std::string& select) {
  absl::StatusOr<sqlite::Statement> statement = db_.Prepare(select);
  if (!statement.ok()) return statement.status();
  std::vector<int64_t> hours;
  while (true) {
    const absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return hours;
    hours.push_back(statement->Int(0));
  }
}

absl::StatusOr<std::vector<int64_t>> FeedbackTable::HoursChangedAfter(uint64_t seq) {
  return HoursOf(fmt::format("SELECT hour FROM feedback_changed WHERE seq > {} ORDER BY hour", seq));
}

absl::StatusOr<std::vector<int64_t>> FeedbackTable::Hours() {
  return HoursOf(fmt::format("SELECT DISTINCT time_us / {} FROM feedback ORDER BY 1", kFeedbackHourUs));
}

absl::StatusOr<std::vector<FeedbackCell>> FeedbackTable::OfHour(int64_t hour) {
  absl::StatusOr<sqlite::Statement> statement = db_.Prepare(fmt::format(
      "SELECT tenant, key, model, version, replica, name, text, type, sum(count), sum(positive), sum(sum), "
      "min(min), max(max) FROM ({}) WHERE time_us >= ?1 AND time_us < ?2 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 "
      "ORDER "
      "BY 1, 2, 3, 4, 5, 6, 7, 8",
      kFeedbackRows));
  if (!statement.ok()) return statement.status();
  statement->Bind(1, hour * kFeedbackHourUs).Bind(2, (hour + 1) * kFeedbackHourUs);
  std::vector<FeedbackCell> cells;
  while (true) {
    const absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return cells;
    FeedbackCell& cell = cells.emplace_back();
    int column = 0;
    for (std::string& text : cell.of) text = statement->Text(column++);
    cell.type = static_cast<FeedbackType>(statement->Int(column++));
    cell.count = statement->Int(column++);
    cell.positive = static_cast<int64_t>(statement->Real(column++));
    cell.sum = statement->Real(column++);
    cell.min = statement->Real(column++);
    cell.max = statement->Real(column);
  }
}

absl::StatusOr<std::vector<FeedbackSum>> SelectFeedback(sqlite::Database& db, const FeedbackQuery& query,
                                                        const std::string& from) {
  std::string columns;
  std::string groups;
  for (size_t i = 0; i < query.by.size(); ++i) {
    columns += IsTime(query.by[i]) ? fmt::format("time_us / {}, ", SpanUs(query.by[i]))
                                   : fmt::format("{}, ", Name(query.by[i]));
    groups += fmt::format("{}, ", i + 1);
  }
  const size_t n = query.by.size();
  groups += fmt::format("{}, {}, {}", n + 1, n + 2, n + 3);
  absl::StatusOr<sqlite::Statement> statement = db.Prepare(fmt::format(
      "SELECT {}name, type, text, sum(count), sum(positive), sum(sum), min(min), max(max) FROM ({}) WHERE "
      "time_us >= ?1 AND time_us < ?2 AND (?3 = '' OR tenant = ?3 OR substr(tenant, 1, length(?3) + 1) = ?3 "
      "|| "
      "'/') AND (?4 = '' OR model = ?4) GROUP BY {} ORDER BY {}",
      columns, from, groups, groups));
  if (!statement.ok()) return statement.status();
  statement->Bind(1, query.since_us).Bind(2, query.until_us).Bind(3, query.tenant).Bind(4, query.model);
  std::vector<FeedbackSum> sums;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return sums;
    FeedbackSum& sum = sums.emplace_back();
    int column = 0;
    for (const FeedbackBy by : query.by) {
      sum.group.push_back(IsTime(by)
                              ? conf::FormatTime(conf::FromUnixMicros(statement->Int(column) * SpanUs(by)))
                              : statement->Text(column));
      ++column;
    }
    sum.name = statement->Text(column++);
    sum.type = static_cast<FeedbackType>(statement->Int(column++));
    sum.text = statement->Text(column++);
    sum.count = statement->Int(column++);
    sum.positive = static_cast<int64_t>(statement->Real(column++));
    sum.sum = statement->Real(column++);
    sum.min = statement->Real(column++);
    sum.max = statement->Real(column);
  }
}

absl::StatusOr<std::vector<KeptFeedback>> FeedbackTable::OfRequest(std::string_view request, size_t most) {
  absl::StatusOr<sqlite::Statement> statement = db_.Prepare(
      "SELECT "
      "seq,time_us,name,key,tenant,model,version,settled,type,number,text,content_key,comment,correction,"
      "replica "
      "FROM feedback WHERE request = ? ORDER BY name, seq LIMIT ?");
  if (!statement.ok()) return statement.status();
  statement->Bind(1, request).Bind(2, static_cast<int64_t>(most));
  std::vector<KeptFeedback> rows;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return rows;
    KeptFeedback& row = rows.emplace_back();
    row.seq = static_cast<uint64_t>(statement->Int(0));
    row.time_us = statement->Int(1);
    Feedback& of = row.feedback;
    of.name = statement->Text(2);
    of.request = request;
    of.key = statement->Text(3);
    of.tenant = statement->Text(4);
    of.model = statement->Text(5);
    of.version = statement->Text(6);
    of.settled = statement->Int(7) != 0;
    const auto type = static_cast<FeedbackType>(statement->Int(8));
    if (type == FeedbackType::kBoolean) of.value = statement->Int(9) != 0;
    if (type == FeedbackType::kNumber) of.value = statement->Real(9);
    if (type == FeedbackType::kText) of.value = statement->Text(10);
    of.content_key = statement->Text(11);
    of.replica = statement->Text(14);
    if (!absl::Base64Unescape(statement->Text(12), &of.comment)) of.comment.clear();
    if (!absl::Base64Unescape(statement->Text(13), &of.correction)) of.correction.clear();
  }
}

}  // namespace gateway::ledger
