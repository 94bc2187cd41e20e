#include "gateway/audit/usage_copy.h"

#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/files.h"

namespace gateway {
namespace {

constexpr std::string_view kCopyVersion = "3";

constexpr char kCopySchema[] = R"sql(
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS object (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, source TEXT NOT NULL,
  hour INTEGER, feedback INTEGER NOT NULL, mark TEXT, loaded INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS object_place ON object (source, hour);
CREATE TABLE IF NOT EXISTS usage (
  hour INTEGER NOT NULL, n INTEGER NOT NULL,
  tenant INTEGER NOT NULL, key INTEGER NOT NULL, model INTEGER NOT NULL, replica INTEGER NOT NULL,
  api INTEGER NOT NULL, reason INTEGER NOT NULL, job INTEGER NOT NULL, device INTEGER NOT NULL,
  requests INTEGER NOT NULL, errors INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
  output INTEGER NOT NULL, cost INTEGER NOT NULL, device_us INTEGER NOT NULL,
  energy_mj INTEGER NOT NULL, energy_micro_usd INTEGER NOT NULL, co2_mg INTEGER NOT NULL,
  PRIMARY KEY (hour, n, tenant, key, model, replica, api, reason, job, device)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feedback (
  hour INTEGER NOT NULL, n INTEGER NOT NULL,
  tenant TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL, version TEXT NOT NULL, replica TEXT NOT NULL,
  name TEXT NOT NULL, text TEXT NOT NULL, type INTEGER NOT NULL, count INTEGER NOT NULL, positive INTEGER NOT NULL,
  sum REAL NOT NULL, min REAL NOT NULL, max REAL NOT NULL,
  PRIMARY KEY (hour, n, tenant, key, model, version, replica, name, text, type)) WITHOUT ROWID;
)sql";

int64_t ToSigned(uint64_t number) {
  return static_cast<int64_t>(number);
}

// The hours that a window touches; the last one is not included.
template <class Query>
std::pair<int64_t, int64_t> HoursOf(const Query& query) {
  return {query.since_us / ledger::kHourUs,
          query.until_us / ledger::kHourUs + (query.until_us % ledger::kHourUs > 0 ? 1 : 0)};
}

}  // namespace

absl::Status UsageCopy::Remove(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    if (absl::Status removed = net::RemoveFile(path + suffix); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<UsageCopy>> UsageCopy::Open(const std::string& path, const std::string& own) {
  absl::StatusOr<std::unique_ptr<UsageCopy>> copy = OpenToRead(path, own);
  if (!absl::IsDataLoss(copy.status())) return copy;
  if (absl::Status removed = Remove(path); !removed.ok()) return removed;
  return OpenToRead(path, own);
}

absl::StatusOr<std::unique_ptr<UsageCopy>> UsageCopy::OpenToRead(const std::string& path,
                                                                 const std::string& own) {
  auto db = sqlite::Database::Open(path, sqlite::Database::Sync::kNormal);
  if (!db.ok()) return db.status();
  std::unique_ptr<UsageCopy> copy(new UsageCopy(*std::move(db), own));
  if (absl::Status made = copy->db_->Execute(kCopySchema); !made.ok()) return made;
  const std::pair<const char*, std::string> expected[] = {{"version", std::string(kCopyVersion)},
                                                          {"own", own}};
  for (const auto& [name, value] : expected) {
    absl::StatusOr<sqlite::Statement> put =
        copy->db_->Prepare("INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)");
    if (!put.ok()) return put.status();
    if (absl::Status written = put->Bind(1, name).Bind(2, std::string_view(value)).Run(); !written.ok())
      return written;
    absl::StatusOr<sqlite::Statement> get = copy->db_->Prepare("SELECT value FROM meta WHERE name = ?");
    if (!get.ok()) return get.status();
    const absl::StatusOr<bool> row = get->Bind(1, name).Step();
    if (!row.ok()) return row.status();
    if (!*row || get->Text(0) != value)
      return absl::DataLossError(fmt::format("{}: is of another version or ledger", path));
  }
  return copy;
}

absl::Status UsageCopy::InTransaction(const std::function<absl::Status()>& work) {
  if (absl::Status begun = db_->Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  absl::Status ended = work();
  if (ended.ok()) ended = db_->Execute("COMMIT");
  if (!ended.ok()) db_->Execute("ROLLBACK").IgnoreError();
  return ended;
}

absl::StatusOr<uint64_t> UsageCopy::Number() {
  absl::StatusOr<int64_t> number =
      db_->QueryInt("SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE name = 'number'");
  if (!number.ok()) return number.status();
  return static_cast<uint64_t>(*number);
}

absl::Status UsageCopy::SetNumber(uint64_t number) {
  absl::StatusOr<sqlite::Statement> set =
      db_->Prepare("INSERT OR REPLACE INTO meta (name, value) VALUES ('number', ?)");
  if (!set.ok()) return set.status();
  const std::string text = std::to_string(number);
  return set->Bind(1, std::string_view(text)).Run();
}

absl::Status UsageCopy::Apply(const std::vector<store::Change>& changes, uint64_t number) {
  return InTransaction([&]() -> absl::Status {
    for (const store::Change& change : changes) {
      const absl::Status applied =
          change.body ? Put(change.id, change.number, *change.body) : RemoveObject(change.id);
      if (!applied.ok()) return applied;
    }
    return SetNumber(number);
  });
}

absl::Status UsageCopy::BeginLoad() {
  return db_->Execute("UPDATE object SET loaded = 0");
}

absl::Status UsageCopy::Load(const std::vector<store::Object>& objects) {
  return InTransaction([&]() -> absl::Status {
    for (const store::Object& object : objects) {
      if (absl::Status put = Put(object.id, object.version, object.body); !put.ok()) return put;
    }
    return absl::OkStatus();
  });
}

absl::Status UsageCopy::EndLoad(uint64_t number) {
  return InTransaction([&]() -> absl::Status {
    const absl::Status removed = db_->Execute(
        "DELETE FROM usage WHERE n IN (SELECT n FROM object WHERE loaded = 0); DELETE FROM feedback WHERE n "
        "IN "
        "(SELECT n FROM object WHERE loaded = 0); DELETE FROM object WHERE loaded = 0");
    return removed.ok() ? SetNumber(number) : removed;
  });
}

absl::Status UsageCopy::Put(const std::string& id, uint64_t version, const std::string& body) {
  const std::optional<UsagePlace> place = ParseUsageId(id);
  if (!place) return absl::OkStatus();
  absl::StatusOr<uint64_t> stored = VersionOf(id);
  if (!stored.ok()) return stored.status();
  if (*stored == version) {
    absl::StatusOr<sqlite::Statement> keep = db_->Prepare("UPDATE object SET loaded = 1 WHERE id = ?");
    return keep.ok() ? keep->Bind(1, std::string_view(id)).Run() : keep.status();
  }
  if (absl::Status removed = RemoveObject(id); !removed.ok()) return removed;
  absl::StatusOr<sqlite::Statement> put = db_->Prepare(
      "INSERT INTO object (id, version, source, hour, mark, feedback, loaded) VALUES (?, ?, ?, ?, ?, ?, 1) "
      "RETURNING n");
  if (!put.ok()) return put.status();
  put->Bind(1, std::string_view(id)).Bind(2, ToSigned(version)).Bind(3, std::string_view(place->source));
  if (place->hour) {
    put->Bind(4, *place->hour).BindNull(5);
  } else {
    put->BindNull(4).Bind(5, std::string_view(body));
  }
  put->Bind(6, int64_t{place->feedback});
  const absl::StatusOr<bool> row = put->Step();
  if (!row.ok()) return row.status();
  const int64_t n = put->Int(0);
  put->Reset();
  if (!place->hour || place->source == own_) return absl::OkStatus();
  const auto skip = [&id](const absl::Status& why) {
    log::Warn("usage of another gateway is skipped", {{"id", id}, {"why", conf::Std(why.message())}});
    return absl::OkStatus();
  };
  if (place->feedback) {
    const absl::StatusOr<std::vector<ledger::FeedbackCell>> cells = ReadFeedbackPart(body);
    return cells.ok() ? PutFeedback(*place->hour, n, *cells) : skip(cells.status());
  }
  const absl::StatusOr<std::vector<ledger::UsageCell>> cells = ReadUsagePart(body);
  return cells.ok() ? PutUsage(*place->hour, n, *cells) : skip(cells.status());
}

absl::Status UsageCopy::PutFeedback(int64_t hour, int64_t n, const std::vector<ledger::FeedbackCell>& cells) {
  absl::StatusOr<sqlite::Statement> add =
      db_->Prepare("INSERT OR REPLACE INTO feedback VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  if (!add.ok()) return add.status();
  for (const ledger::FeedbackCell& cell : cells) {
    add->Bind(1, hour).Bind(2, n);
    int at = 3;
    for (const std::string& text : cell.of) add->Bind(at++, std::string_view(text));
    add->Bind(at++, static_cast<int64_t>(cell.type)).Bind(at++, cell.count).Bind(at++, cell.positive);
    add->BindReal(at++, cell.sum).BindReal(at++, cell.min).BindReal(at++, cell.max);
    if (absl::Status added = add->Run(); !added.ok()) return added;
  }
  return absl::OkStatus();
}

absl::Status UsageCopy::PutUsage(int64_t hour, int64_t n, const std::vector<ledger::UsageCell>& cells) {
  absl::StatusOr<sqlite::Statement> add =
      db_->Prepare("INSERT OR REPLACE INTO usage VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  if (!add.ok()) return add.status();
  for (const ledger::UsageCell& cell : cells) {
    add->Bind(1, hour).Bind(2, n);
    int at = 3;
    for (const std::string& text : cell.of) {
      const absl::StatusOr<int64_t> text_id = TextId(text);
      if (!text_id.ok()) return text_id.status();
      add->Bind(at++, *text_id);
    }
    for (const int64_t sum :
         {cell.requests, cell.errors, cell.input, cell.cached, cell.output, cell.cost_micro_usd,
          cell.device_us, cell.energy_mj, cell.energy_micro_usd, cell.co2_mg}) {
      add->Bind(at++, sum);
    }
    if (absl::Status added = add->Run(); !added.ok()) return added;
  }
  return absl::OkStatus();
}

absl::Status UsageCopy::RemoveObject(const std::string& id) {
  // With its hour the rows are found by the primary key.
  for (const char* sql : {"DELETE FROM usage WHERE (hour, n) IN (SELECT hour, n FROM object WHERE id = ?)",
                          "DELETE FROM feedback WHERE (hour, n) IN (SELECT hour, n FROM object WHERE id = ?)",
                          "DELETE FROM object WHERE id = ?"}) {
    absl::StatusOr<sqlite::Statement> remove = db_->Prepare(sql);
    if (!remove.ok()) return remove.status();
    if (absl::Status removed = remove->Bind(1, std::string_view(id)).Run(); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> UsageCopy::TextId(const std::string& text) {
  for (const char* sql :
       {"SELECT id FROM text WHERE text = ?", "INSERT INTO text (text) VALUES (?) RETURNING id"}) {
    absl::StatusOr<sqlite::Statement> statement = db_->Prepare(sql);
    if (!statement.ok()) return statement.status();
    const absl::StatusOr<bool> row = statement->Bind(1, std::string_view(text)).Step();
    if (!row.ok()) return row.status();
    if (*row) return statement->Int(0);
  }
  return absl::InternalError("the copy of usage: a text could not be added");
}

absl::StatusOr<uint64_t> UsageCopy::VersionOf(const std::string& id) {
  absl::StatusOr<sqlite::Statement> statement = db_->Prepare("SELECT version FROM object WHERE id = ?");
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Bind(1, std::string_view(id)).Step();
  if (!row.ok()) return row.status();
  return *row ? static_cast<uint64_t>(statement->Int(0)) : 0;
}

absl::StatusOr<std::vector<UsageMark>> UsageCopy::Marks() {
  absl::StatusOr<sqlite::Statement> statement =
      db_->Prepare("SELECT source, mark FROM object WHERE mark IS NOT NULL ORDER BY source");
  if (!statement.ok()) return statement.status();
  std::vector<UsageMark> marks;
  while (true) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) return marks;
    absl::StatusOr<UsageMark> mark = ReadUsageMark(statement->Text(0), statement->Text(1));
    if (mark.ok()) marks.push_back(*std::move(mark));  // else it is of a later version
  }
}

absl::StatusOr<std::vector<std::string>> UsageCopy::SourcesOf(const ledger::UsageQuery& query) {
  absl::StatusOr<sqlite::Statement> statement = db_->Prepare(
      "SELECT DISTINCT source FROM object WHERE hour >= ? AND hour < ? AND feedback = 0 ORDER BY source");
  if (!statement.ok()) return statement.status();
  const auto [begin, end] = HoursOf(query);
  statement->Bind(1, begin).Bind(2, end);
  std::vector<std::string> sources;
  while (true) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) return sources;
    sources.push_back(statement->Text(0));
  }
}

absl::StatusOr<std::map<std::string, uint64_t>> UsageCopy::Parts(const std::string& condition,
                                                                 const std::string& source) {
  absl::StatusOr<sqlite::Statement> statement =
      db_->Prepare(fmt::format("SELECT id, version FROM object WHERE source = ? AND hour {}", condition));
  if (!statement.ok()) return statement.status();
  statement->Bind(1, std::string_view(source));
  std::map<std::string, uint64_t> parts;
  while (true) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) return parts;
    parts[statement->Text(0)] = static_cast<uint64_t>(statement->Int(1));
  }
}

absl::StatusOr<std::map<std::string, uint64_t>> UsageCopy::PartsOf(const std::string& source, int64_t hour) {
  return Parts(fmt::format("= {}", hour), source);
}

absl::StatusOr<std::map<std::string, uint64_t>> UsageCopy::PartsBefore(const std::string& source,
                                                                       int64_t hour, size_t limit) {
  return Parts(fmt::format("< {} ORDER BY hour, id LIMIT {}", hour, limit), source);
}

absl::StatusOr<std::vector<ledger::UsageRow>> UsageCopy::Usage(const ledger::UsageQuery& query) {
  const auto [begin, end] = HoursOf(query);
  return ledger::SelectUsage(
      *db_, query,
      fmt::format(
          "SELECT {} AS seconds, hour AS begin, 0 AS segment, tenant, key, model, replica, api, reason, "
          "job, device, requests, errors, input, cached, output, cost, device_us, energy_mj, "
          "energy_micro_usd, "
          "co2_mg FROM usage WHERE hour "
          ">= {} AND hour < {}",
          ledger::kHour, begin, end));
}

absl::StatusOr<std::vector<ledger::FeedbackSum>> UsageCopy::Feedback(const ledger::FeedbackQuery& query) {
  const auto [begin, end] = HoursOf(query);
  ledger::FeedbackQuery whole = query;
  whole.since_us = begin * ledger::kHourUs;
  return ledger::SelectFeedback(
      *db_, whole,
      fmt::format(
          "SELECT hour * {} AS time_us, tenant, key, model, version, replica, name, type, text, count, "
          "positive, sum, min, max FROM feedback WHERE hour >= {} AND hour < {}",
          ledger::kHourUs, begin, end));
}

}  // namespace gateway
