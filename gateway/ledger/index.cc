#include "gateway/ledger/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "conf/hex.h"
#include "conf/text.h"
#include "conf/time.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/segment.h"
#include "gateway/ledger/tail.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

constexpr size_t kRebuildRecords = 65'536;
constexpr size_t kMaxCachedTexts = 100'000;

constexpr std::string_view kVersion = "8";
// Bytes reserved for SQLite's log, which is copied into the file well before they are used up.
constexpr int64_t kLogRoom = int64_t{2} << 20;
constexpr int kLogPages = 256;        // pages of 4 KiB after which the log is copied
constexpr int kFileStep = 256 << 10;  // bytes by which the file grows

constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS usage (
  seconds INTEGER NOT NULL, begin INTEGER NOT NULL, segment INTEGER NOT NULL,
  tenant INTEGER NOT NULL, key INTEGER NOT NULL, model INTEGER NOT NULL, replica INTEGER NOT NULL,
  api INTEGER NOT NULL, reason INTEGER NOT NULL, job INTEGER NOT NULL, device INTEGER NOT NULL,
  requests INTEGER NOT NULL, errors INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
  output INTEGER NOT NULL, cost INTEGER NOT NULL, device_us INTEGER NOT NULL,
  energy_mj INTEGER NOT NULL, energy_micro_usd INTEGER NOT NULL, co2_mg INTEGER NOT NULL,
  PRIMARY KEY (seconds, begin, segment, tenant, key, model, replica, api, reason, job, device)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changed (hour INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS spent (
  pending INTEGER NOT NULL, day INTEGER NOT NULL, origin INTEGER NOT NULL,
  tenant INTEGER NOT NULL, key INTEGER NOT NULL, model INTEGER NOT NULL, device INTEGER NOT NULL,
  input INTEGER NOT NULL, output INTEGER NOT NULL, cost INTEGER NOT NULL, device_us INTEGER NOT NULL,
  PRIMARY KEY (pending, day, origin, tenant, key, model, device)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held (
  model TEXT NOT NULL, job TEXT NOT NULL, device TEXT NOT NULL, seq INTEGER NOT NULL,
  from_us INTEGER NOT NULL, until_us INTEGER NOT NULL, held_us INTEGER NOT NULL, device_us INTEGER NOT NULL,
  PRIMARY KEY (model, job, device)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
  seq INTEGER PRIMARY KEY, time_us INTEGER NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL, actor TEXT NOT NULL,
  subject TEXT NOT NULL, tenant TEXT NOT NULL);
CREATE TEMP TABLE IF NOT EXISTS edge (
  seconds INTEGER, begin INTEGER, segment INTEGER,
  tenant INTEGER, key INTEGER, model INTEGER, replica INTEGER, api INTEGER, reason INTEGER, job INTEGER,
  device INTEGER, requests INTEGER, errors INTEGER, input INTEGER, cached INTEGER, output INTEGER,
  cost INTEGER, device_us INTEGER, energy_mj INTEGER, energy_micro_usd INTEGER, co2_mg INTEGER);
)sql";
constexpr std::string_view kUsageColumns =
    "(seconds,begin,segment,tenant,key,model,replica,api,reason,job,device,requests,errors,input,cached,"
    "output,cost,device_us,energy_mj,energy_micro_usd,co2_mg) VALUES "
    "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

std::string IndexPath(const std::string& dir) {
  return dir + "/index.sqlite";
}

uint64_t ParseNumber(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

UsageRow& UsageRow::operator+=(const UsageRow& other) {
  requests += other.requests;
  errors += other.errors;
  failed += other.failed;
  input += other.input;
  cached += other.cached;
  output += other.output;
  cost_micro_usd += other.cost_micro_usd;
  for (const auto& [kind, us] : other.device_us) device_us[kind] += us;
  energy_mj += other.energy_mj;
  energy_micro_usd += other.energy_micro_usd;
  co2_mg += other.co2_mg;
  return *this;
}

absl::Status Index::Remove(const std::string& ledger_dir) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    if (absl::Status removed = net::RemoveFile(IndexPath(ledger_dir) + suffix); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Index>> Index::Open(const std::string& ledger_dir) {
  absl::StatusOr<std::unique_ptr<Index>> index = OpenOnce(ledger_dir);
  if (!absl::IsDataLoss(index.status())) return index;
  if (absl::Status removed = Remove(ledger_dir); !removed.ok()) return removed;
  return OpenOnce(ledger_dir);
}

absl::StatusOr<std::unique_ptr<Index>> Index::OpenOnce(const std::string& dir) {
  auto db = sqlite::Database::Open(IndexPath(dir), sqlite::Database::Sync::kNormal);
  if (!db.ok()) return db.status();
  std::unique_ptr<Index> index(new Index(dir, *std::move(db)));
  if (absl::Status prepared = index->Prepare(); !prepared.ok()) return prepared;
  absl::StatusOr<bool> matches = index->Matches();
  if (!matches.ok()) return matches.status();
  if (!*matches) return absl::DataLossError("the index has another version, or belongs to other segments");
  return index;
}

void Index::KeepRoom() {
  db_->KeepRoom(kLogRoom, kFileStep).IgnoreError();
}

absl::Status Index::Prepare() {
  for (const char* schema : {kSchema, RequestPlaces::Schema(), FeedbackTable::Schema()}) {
    if (absl::Status made = db_->Execute(schema); !made.ok()) return made;
  }
  places_ = std::make_unique<RequestPlaces>(dir_, *db_);
  feedback_ = std::make_unique<FeedbackTable>(*db_, *places_);
  const std::string copied = fmt::format("PRAGMA wal_autocheckpoint = {}", kLogPages);
  if (absl::Status bounded = db_->Execute(copied); !bounded.ok()) return bounded;
  const auto prepare = [this](std::optional<sqlite::Statement>* into, std::string_view sql) {
    absl::StatusOr<sqlite::Statement> statement = db_->Prepare(sql);
    if (!statement.ok()) return statement.status();
    *into = *std::move(statement);
    return absl::OkStatus();
  };
  // A file of another version may lack a column: the index is then damaged, but the system has not failed.
  for (const absl::Status& status :
       {prepare(&insert_event_,
                "INSERT OR IGNORE INTO event (seq,time_us,kind,action,actor,subject,tenant) VALUES "
                "(?,?,?,?,?,?,?)"),
        prepare(&insert_text_, "INSERT INTO text (text) VALUES (?) RETURNING id"),
        prepare(&find_text_, "SELECT id FROM text WHERE text = ?"),
        prepare(&insert_edge_, fmt::format("INSERT INTO edge {}", kUsageColumns)),
        prepare(&add_usage_, fmt::format("INSERT INTO usage {} ON CONFLICT DO UPDATE SET "
                                         "requests=requests+excluded.requests,errors=errors+excluded.errors,"
                                         "input=input+excluded.input,cached=cached+excluded.cached,"
                                         "output=output+excluded.output,cost=cost+excluded.cost,"
                                         "device_us=device_us+excluded.device_us,"
                                         "energy_mj=energy_mj+excluded.energy_mj,energy_micro_usd="
                                         "energy_micro_usd+excluded.energy_micro_usd,"
                                         "co2_mg=co2_mg+excluded.co2_mg",
                                         kUsageColumns)),
        prepare(&set_changed_, "INSERT OR REPLACE INTO changed (hour, seq) VALUES (?, ?)"),
        prepare(&add_spent_,
                "INSERT INTO spent (pending,day,origin,tenant,key,model,device,input,output,cost,device_us) "
                "VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET input=input+excluded.input,"
                "output=output+excluded.output,cost=cost+excluded.cost,"
                "device_us=device_us+excluded.device_us"),
        prepare(&add_held_,
                "INSERT INTO held (model,job,device,seq,from_us,until_us,held_us,device_us) VALUES "
                "(?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET seq=excluded.seq,from_us=excluded.from_us,"
                "until_us=excluded.until_us,held_us=excluded.held_us,"
                "device_us=excluded.device_us+iif(from_us=excluded.from_us AND "
                "until_us=excluded.until_us,device_us,0)")}) {
    if (!status.ok()) return absl::DataLossError(status.message());
  }
  return absl::OkStatus();
}

// Whether the file has this version, and its last record is still in the segments.
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
  if (batch->lines[0].seq != applied_seq_) return true;  // retention has removed the record
  const std::optional<LineParts> parts = SplitLine(batch->lines[0].text);
  return parts && conf::Hex(parts->link) == *link;
}

absl::Status Index::InTransaction(std::string_view begin, const std::function<absl::Status()>& work) {
  if (absl::Status begun = db_->Execute(std::string(begin)); !begun.ok()) return begun;
  absl::Status ended = work();
  if (ended.ok()) ended = db_->Execute("COMMIT");
  if (ended.ok()) return ended;
  db_->Execute("ROLLBACK").IgnoreError();
  text_ids_.clear();
  last_texts_ = {};
  return ended;
}

absl::StatusOr<size_t> Index::Update(size_t max_records) {
  size_t count = 0;
  absl::Status updated = InTransaction("BEGIN IMMEDIATE", [&] {
    absl::StatusOr<size_t> applied = Apply(max_records);
    if (applied.ok()) count = *applied;
    return applied.status();
  });
  if (!updated.ok()) tail_.reset();  // the tail has read records that were not applied
  if (!updated.ok()) return updated;
  return count;
}

absl::Status Index::CatchUp() {
  while (true) {
    absl::StatusOr<size_t> applied = Update(kRebuildRecords);
    if (!applied.ok()) return applied.status();
    if (*applied == 0) return absl::OkStatus();
  }
}

absl::StatusOr<size_t> Index::Apply(size_t max_records) {
  // Another process may have continued meanwhile.
  if (absl::Status read = ReadApplied(); !read.ok()) return read;
  if (absl::Status forgotten = Forget(); !forgotten.ok()) return forgotten;
  // A new tail reads its segment from the beginning; the present one continues from here.
  if (!tail_ || tail_->after_seq() != applied_seq_) {
    tail_.emplace(dir_, applied_seq_);
    places_->Restart();
    if (absl::Status again = feedback_->Restart(); !again.ok()) return again;
  }
  Sums sums;
  Digest link{};
  size_t count = 0;
  for (; count < max_records; ++count) {
    absl::StatusOr<const Tail::Entry*> next = tail_->Peek();
    if (!next.ok()) return next.status();
    if (*next == nullptr) break;
    if (absl::Status applied = ApplyRecord(**next, &sums); !applied.ok()) return applied;
    link = (*next)->parts.link;
    tail_->Pop();
  }
  if (count == 0) return count;
  if (absl::Status added = AddUsages(sums.minutes, tail_->after_seq()); !added.ok()) return added;
  if (absl::Status added = AddSpent(&sums.spent); !added.ok()) return added;
  if (absl::Status saved = places_->Save(); !saved.ok()) return saved;
  if (absl::Status set = SetMeta("applied_link", conf::Hex(link)); !set.ok()) return set;
  if (absl::Status set = SetMeta("applied_seq", std::to_string(tail_->after_seq())); !set.ok()) return set;
  applied_seq_ = tail_->after_seq();
  return count;
}

absl::Status Index::ApplyRecord(const Tail::Entry& entry, Sums* sums) {
  const LineParts& parts = entry.parts;
  places_->Add(entry);
  if (parts.kind == Name(Kind::kClose)) {
    if (feedback_->Waits()) {
      const std::string_view request = FindText(parts.body, "request").value_or("");
      if (absl::Status settled = feedback_->OnClose(request, ServedByOf(parts), parts.seq); !settled.ok())
        return settled;
    }
    CloseFacts close;
    if (!ReadClose(parts, entry.text, &close)) return absl::OkStatus();
    absl::StatusOr<Dimensions> of = DimensionsOf(close);
    if (!of.ok()) return of.status();
    const int64_t minute = parts.time_us / (kMinute * kSecondUs);
    const auto segment = static_cast<int64_t>(entry.segment);
    sums->minutes[{kMinute, minute, segment, *of}].Add(close);
    if (close.input == 0 && close.output == 0 && close.cost_micro_usd == 0) return absl::OkStatus();
    absl::StatusOr<int64_t> key = (*of)[1];
    if (const std::string_view spender = SpendKey(close.key); spender != close.key) key = TextId(spender);
    if (!key.ok()) return key.status();
    const int64_t none = (*of)[7];  // a request has no device
    sums->spent[{SpendDay(close, parts.time_us), segment, {(*of)[0], *key, (*of)[2], none}}].Add(close);
    return absl::OkStatus();
  }
  if (parts.kind == Name(Kind::kDevices)) return ApplyDevices(entry, sums);
  for (const Kind kind : {Kind::kOpen, Kind::kContent, Kind::kCheckpoint, Kind::kSegment}) {
    if (parts.kind == Name(kind)) return absl::OkStatus();
  }
  if (!parser_.Parse(entry.text, &record_).ok()) return absl::OkStatus();
  if (record_.kind == Kind::kFeedback) return feedback_->Add(record_);
  if (record_.kind == Kind::kRetention) {
    if (absl::Status applied = ApplyRetention(parts, entry.text, &sums->spent); !applied.ok()) return applied;
  }
  return insert_event_->Bind(1, static_cast<int64_t>(parts.seq))
      .Bind(2, record_.time_us)
      .Bind(3, parts.kind)
      .Bind(4, record_.action)
      .Bind(5, record_.actor)
      .Bind(6, record_.subject)
      .Bind(7, record_.tenant)
      .Run();
}

absl::Status Index::ApplyDevices(const Tail::Entry& entry, Sums* sums) {
  if (!parser_.Parse(entry.text, &record_).ok()) return absl::OkStatus();
  absl::StatusOr<Dimensions> of = DimensionsOf(record_);
  if (!of.ok()) return of.status();
  const auto segment = static_cast<int64_t>(entry.segment);
  Sum sum;
  sum.Add(record_);
  sums->minutes[{kMinute, record_.time_us / (kMinute * kSecondUs), segment, *of}].Add(sum);
  sums->spent[{DayOf(record_.time_us), segment, {(*of)[0], (*of)[1], (*of)[2], (*of)[7]}}].Add(sum);
  return add_held_->Bind(1, record_.model)
      .Bind(2, record_.job)
      .Bind(3, record_.device)
      .Bind(4, static_cast<int64_t>(record_.seq))
      .Bind(5, record_.time_us)
      .Bind(6, record_.until_us)
      .Bind(7, record_.held_us)
      .Bind(8, record_.device_us)
      .Run();
}

// From here on, the retention record replaces the closes of the removed segments. Its parts count only when the last
// one is in the ledger: after a crash between them, all parts are written again.
absl::Status Index::ApplyRetention(const LineParts& parts, std::string_view text, Spent* spent) {
  if (absl::Status added = AddSpent(spent); !added.ok()) return added;
  const RetentionPart at = ReadRetention(parts.body);
  if (at.part == 1) {
    if (absl::Status dropped = db_->Execute("DELETE FROM spent WHERE pending = 1"); !dropped.ok())
      return dropped;
  }
  for (const SpendRow& row : ReadRows(text)) {
    std::array<int64_t, 4> of{};
    size_t i = 0;
    for (const std::string* name : {&row.tenant, &row.key, &row.model, &row.device}) {
      absl::StatusOr<int64_t> id = TextId(*name);
      if (!id.ok()) return id.status();
      of[i++] = *id;
    }
    if (absl::Status added = InsertSpent(1, {row.day, static_cast<int64_t>(parts.seq), of},
                                         {.input = row.input,
                                          .output = row.output,
                                          .cost = row.cost_micro_usd,
                                          .device_us = row.device_us});
        !added.ok()) {
      return added;
    }
  }
  if (at.part < at.parts) return absl::OkStatus();
  return db_->Execute(
      fmt::format("DELETE FROM spent WHERE pending = 0 AND origin <= {}; UPDATE spent SET pending = 0 WHERE "
                  "pending = 1",
                  at.to_seq));
}

// False for a damaged close, which cannot be added up; `audit verify` reports it.
bool Index::ReadClose(const LineParts& parts, std::string_view text, CloseFacts* facts) {
  if (ReadCloseFacts(parts.body, facts)) return true;
  if (!parser_.Parse(text, &record_).ok()) return false;
  *facts = FactsOf(record_);
  return true;
}

absl::StatusOr<Index::Dimensions> Index::DimensionsOf(
    const std::array<std::string_view, kDimensions>& texts) {
  Dimensions of{};
  for (size_t i = 0; i < texts.size(); ++i) {
    LastText& last = last_texts_[i];
    if (last.id == 0 || last.text != texts[i]) {
      absl::StatusOr<int64_t> id = TextId(texts[i]);
      if (!id.ok()) return id.status();
      last = {std::string(texts[i]), *id};
    }
    of[i] = last.id;
  }
  return of;
}

absl::StatusOr<Index::Dimensions> Index::DimensionsOf(const CloseFacts& close) {
  return DimensionsOf({close.tenant, close.key, close.model, close.replica, close.api, close.reason, "", ""});
}

absl::StatusOr<Index::Dimensions> Index::DimensionsOf(const Record& devices) {
  return DimensionsOf({devices.tenant, "", devices.model, "", "", "", devices.job, devices.device});
}

void Index::Sum::Add(const CloseFacts& close) {
  const std::optional<EndReason> reason = ParseEndReason(close.reason);
  Add(Sum{.requests = 1,
          .errors = reason && !IsError(*reason) ? 0 : 1,
          .input = close.input,
          .cached = close.cached,
          .output = close.output,
          .cost = close.cost_micro_usd});
}

void Index::Sum::Add(const Record& devices) {
  device_us += devices.device_us;
  energy_mj += devices.energy_mj;
  energy_micro_usd += devices.energy_micro_usd;
  co2_mg += devices.co2_mg;
}

void Index::Sum::Add(const Sum& other) {
  requests += other.requests;
  errors += other.errors;
  input += other.input;
  cached += other.cached;
  output += other.output;
  cost += other.cost;
  device_us += other.device_us;
  energy_mj += other.energy_mj;
  energy_micro_usd += other.energy_micro_usd;
  co2_mg += other.co2_mg;
}

absl::Status Index::AddUsages(const Usages& minutes, uint64_t seq) {
  Usages hours;
  for (const auto& [row, sums] : minutes) {
    hours[{kHour, row.begin / (kHour / kMinute), row.segment, row.of}].Add(sums);
    if (absl::Status added = InsertUsage(*add_usage_, row, sums); !added.ok()) return added;
  }
  std::set<int64_t> changed;
  for (const auto& [row, sums] : hours) {
    if (absl::Status added = InsertUsage(*add_usage_, row, sums); !added.ok()) return added;
    changed.insert(row.begin);
  }
  for (const int64_t hour : changed) {
    if (absl::Status set = set_changed_->Bind(1, hour).Bind(2, static_cast<int64_t>(seq)).Run(); !set.ok())
      return set;
  }
  return absl::OkStatus();
}

absl::Status Index::AddSpent(Spent* spent) {
  for (const auto& [place, sums] : *spent) {
    if (absl::Status added = InsertSpent(0, place, sums); !added.ok()) return added;
  }
  spent->clear();
  return absl::OkStatus();
}

absl::Status Index::InsertSpent(int64_t pending, const SpentPlace& place, const Sum& sums) {
  add_spent_->Bind(1, pending).Bind(2, place.day).Bind(3, place.origin);
  for (size_t i = 0; i < place.of.size(); ++i) add_spent_->Bind(static_cast<int>(i) + 4, place.of[i]);
  add_spent_->Bind(8, sums.input).Bind(9, sums.output).Bind(10, sums.cost);
  return add_spent_->Bind(11, sums.device_us).Run();
}

absl::Status Index::InsertUsage(sqlite::Statement& into, const Row& row, const Sum& sums) {
  into.Bind(1, row.seconds).Bind(2, row.begin).Bind(3, row.segment);
  for (size_t i = 0; i < row.of.size(); ++i) into.Bind(static_cast<int>(i) + 4, row.of[i]);
  into.Bind(12, sums.requests).Bind(13, sums.errors).Bind(14, sums.input).Bind(15, sums.cached);
  into.Bind(16, sums.output).Bind(17, sums.cost).Bind(18, sums.device_us);
  return into.Bind(19, sums.energy_mj).Bind(20, sums.energy_micro_usd).Bind(21, sums.co2_mg).Run();
}

// Drops the rows of removed segments.
absl::Status Index::Forget() {
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir_);
  if (!segments.ok()) return segments.status();
  absl::StatusOr<std::string> said = Meta("first_seq");
  if (!said.ok()) return said.status();
  const uint64_t first = segments->empty() ? 1 : segments->front().first_seq;
  if (first <= std::max<uint64_t>(ParseNumber(*said), 1)) return absl::OkStatus();
  if (absl::Status dropped = db_->Execute(fmt::format(
          "DELETE FROM usage WHERE segment < {0}; DELETE FROM spent WHERE origin < {0}; "
          "DELETE FROM event WHERE seq < {0}; DELETE FROM held WHERE seq < {0}; DELETE FROM changed WHERE "
          "NOT EXISTS (SELECT 1 FROM usage WHERE seconds = {1} AND begin = hour)",
          first, kHour));
      !dropped.ok()) {
    return dropped;
  }
  tail_.reset();  // it may have a removed segment open
  for (const absl::Status& status : {places_->Forget(first), feedback_->Forget(first)}) {
    if (!status.ok()) return status;
  }
  return SetMeta("first_seq", std::to_string(first));
}

absl::StatusOr<int64_t> Index::TextId(std::string_view text) {
  if (const auto found = text_ids_.find(conf::Abseil(text)); found != text_ids_.end()) return found->second;
  for (std::optional<sqlite::Statement>* statement : {&find_text_, &insert_text_}) {
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
  absl::StatusOr<sqlite::Statement> statement = db_->Prepare("SELECT value FROM meta WHERE name = ?");
  if (!statement.ok()) return statement.status();
  absl::StatusOr<bool> row = statement->Bind(1, name).Step();
  if (!row.ok()) return row.status();
  return *row ? statement->Text(0) : std::string();
}

absl::StatusOr<uint64_t> Index::FirstSeq() {
  absl::StatusOr<std::string> first = Meta("first_seq");
  if (!first.ok()) return first.status();
  return std::max<uint64_t>(ParseNumber(*first), 1);
}

absl::Status Index::ReadApplied() {
  absl::StatusOr<std::string> at = Meta("applied_seq");
  if (at.ok()) applied_seq_ = ParseNumber(*at);
  return at.status();
}

absl::Status Index::SetMeta(std::string_view name, std::string_view value) {
  absl::StatusOr<sqlite::Statement> statement =
      db_->Prepare("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)");
  if (!statement.ok()) return statement.status();
  return statement->Bind(1, name).Bind(2, value).Run();
}

}  // namespace gateway::ledger
