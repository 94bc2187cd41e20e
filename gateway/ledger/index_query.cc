// The queries of the index.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "conf/text.h"
#include "conf/time.h"
#include "conf/words.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/segment.h"

namespace gateway::ledger {
namespace {

constexpr conf::Word<UsageBy> kByWords[] = {
    {"tenant", UsageBy::kTenant},   {"key", UsageBy::kKey}, {"model", UsageBy::kModel},
    {"replica", UsageBy::kReplica}, {"api", UsageBy::kApi}, {"reason", UsageBy::kReason},
    {"hour", UsageBy::kHour},       {"day", UsageBy::kDay}, {"job", UsageBy::kJob}};
static_assert(std::size(kByWords) == kUsageBys);

// Errors that are not the caller's fault.
constexpr std::array kFailures = {EndReason::kUpstreamFailed, EndReason::kTimedOut, EndReason::kInterrupted};

int64_t Up(int64_t value, int64_t unit) {
  return value / unit + (value % unit > 0 ? 1 : 0);
}

struct Range {
  int64_t begin = 0;
  int64_t end = 0;  // not included
};

// The parts of a window of time: whole hours, the whole minutes before and after them, and the rest at both ends.
struct Window {
  Range hours;
  std::array<Range, 2> minutes;
  std::array<Range, 2> edges_us;

  Window(int64_t since_us, int64_t until_us) {
    const Range whole{Up(since_us, kMinute * kSecondUs), until_us / (kMinute * kSecondUs)};
    if (whole.begin > whole.end) {
      edges_us[0] = {since_us, until_us};
      return;
    }
    edges_us[0] = {since_us, whole.begin * kMinute * kSecondUs};
    edges_us[1] = {whole.end * kMinute * kSecondUs, until_us};
    constexpr int64_t kMinutes = kHour / kMinute;
    hours = {Up(whole.begin, kMinutes), whole.end / kMinutes};
    if (hours.begin >= hours.end) {
      hours = {};
      minutes[0] = whole;
      return;
    }
    minutes[0] = {whole.begin, hours.begin * kMinutes};
    minutes[1] = {hours.end * kMinutes, whole.end};
  }
};

}  // namespace

std::string_view Name(UsageBy by) {
  return conf::WordOf(kByWords, by);
}

std::optional<UsageBy> ParseUsageBy(std::string_view name) {
  return conf::ValueOf(kByWords, name);
}

absl::Status Index::ReadEdge(int64_t since_us, int64_t until_us) {
  if (since_us >= until_us) return absl::OkStatus();
  absl::StatusOr<sqlite::Statement> segments =
      db_->Prepare("SELECT DISTINCT segment FROM usage WHERE seconds = ? AND begin = ?");
  if (!segments.ok()) return segments.status();
  segments->Bind(1, kMinute).Bind(2, since_us / (kMinute * kSecondUs));
  while (true) {
    absl::StatusOr<bool> more = segments->Step();
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    absl::StatusOr<LineReader> reader =
        LineReader::Open(SegmentPath(dir_, static_cast<uint64_t>(segments->Int(0))));
    if (absl::IsNotFound(reader.status())) continue;  // retention removed it meanwhile
    if (!reader.ok()) return reader.status();
    while (true) {
      absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
      if (!line.ok()) return line.status();
      const std::optional<LineParts> parts = *line ? SplitLine(**line) : std::nullopt;
      if (!parts || parts->seq > applied_seq_) break;
      if (parts->time_us < since_us || parts->time_us >= until_us) continue;
      absl::StatusOr<Dimensions> of = Dimensions();
      Sum sums;
      CloseFacts close;
      if (parts->kind == Name(Kind::kClose) && ReadClose(*parts, **line, &close)) {
        of = DimensionsOf(close);
        sums.Add(close);
      } else if (parts->kind == Name(Kind::kDevices) && parser_.Parse(**line, &record_).ok()) {
        of = DimensionsOf(record_);
        sums.Add(record_);
      } else {
        continue;
      }
      if (!of.ok()) return of.status();
      const int64_t minute = parts->time_us / (kMinute * kSecondUs);
      if (absl::Status added = InsertUsage(*insert_edge_, {kMinute, minute, 0, *of}, sums); !added.ok())
        return added;
    }
  }
}

absl::StatusOr<std::vector<UsageRow>> Index::Usage(const UsageQuery& query) {
  absl::StatusOr<std::vector<UsageRow>> rows = std::vector<UsageRow>();
  // The sums and the number of their last record must be read at one moment.
  absl::Status asked = InTransaction("BEGIN", [&] {
    rows = Select(query);
    return rows.status();
  });
  if (!asked.ok()) return asked;
  return rows;
}

absl::StatusOr<std::vector<UsageRow>> Index::Select(const UsageQuery& query) {
  if (absl::Status read = ReadApplied(); !read.ok()) return read;
  if (absl::Status emptied = db_->Execute("DELETE FROM edge"); !emptied.ok()) return emptied;
  const Window window(query.since_us, query.until_us);
  for (const Range& edge : window.edges_us) {
    if (absl::Status read = ReadEdge(edge.begin, edge.end); !read.ok()) return read;
  }
  const auto span = [](int64_t seconds, const Range& range) {
    return fmt::format("SELECT * FROM usage WHERE seconds = {} AND begin >= {} AND begin < {} UNION ALL ",
                       seconds, range.begin, range.end);
  };
  return SelectUsage(*db_, query,
                     fmt::format("{}{}{}SELECT * FROM edge", span(kHour, window.hours),
                                 span(kMinute, window.minutes[0]), span(kMinute, window.minutes[1])));
}

absl::StatusOr<std::vector<UsageRow>> SelectUsage(sqlite::Database& db, const UsageQuery& query,
                                                  const std::string& from) {
  std::string columns;
  std::string groups;
  for (size_t i = 0; i < query.by.size(); ++i) {
    const std::string_view name = Name(query.by[i]);
    if (query.by[i] == UsageBy::kHour || query.by[i] == UsageBy::kDay) {
      columns += fmt::format("begin * seconds / {}, ", query.by[i] == UsageBy::kHour ? kHour : 24 * kHour);
    } else {
      columns += fmt::format("(SELECT text FROM text WHERE id = {}), ", name);
    }
    groups += fmt::format("{}, ", i + 1);
  }
  // Each kind of device has its own row here; the rows are joined below.
  columns += "(SELECT text FROM text WHERE id = device), ";
  groups += std::to_string(query.by.size() + 1);
  std::string failures;
  for (const EndReason reason : kFailures)
    failures += fmt::format("{}'{}'", failures.empty() ? "" : ", ", Name(reason));
  const std::string sql = fmt::format(
      "SELECT {}sum(requests), sum(errors), sum(iif(reason IN (SELECT id FROM text WHERE text IN ({})), "
      "errors, "
      "0)), sum(input), sum(cached), sum(output), sum(cost), "
      "sum(device_us), sum(energy_mj), sum(energy_micro_usd), sum(co2_mg) FROM "
      "({}) WHERE "
      "(?1 = '' OR tenant IN (SELECT id FROM text WHERE text = ?1 OR substr(text, 1, length(?1) + 1) = ?1 || "
      "'/')) AND (?2 = '' OR model IN (SELECT id FROM text WHERE text = ?2)) GROUP BY {} HAVING "
      "sum(requests) + sum(device_us) + sum(energy_mj) > 0 ORDER BY {}",
      columns, failures, from, groups, groups);
  absl::StatusOr<sqlite::Statement> statement = db.Prepare(sql);
  if (!statement.ok()) return statement.status();
  statement->Bind(1, query.tenant).Bind(2, query.model);
  std::vector<UsageRow> rows;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return rows;
    UsageRow row;
    int column = 0;
    for (const UsageBy by : query.by) {
      if (by == UsageBy::kHour || by == UsageBy::kDay) {
        const int64_t seconds = statement->Int(column) * (by == UsageBy::kHour ? kHour : 24 * kHour);
        row.group.push_back(conf::FormatTime(conf::FromUnixMicros(seconds * kSecondUs)));
      } else {
        row.group.push_back(statement->Text(column));
      }
      ++column;
    }
    const std::string device = statement->Text(column++);
    for (int64_t UsageRow::* sum :
         {&UsageRow::requests, &UsageRow::errors, &UsageRow::failed, &UsageRow::input, &UsageRow::cached,
          &UsageRow::output, &UsageRow::cost_micro_usd}) {
      row.*sum = statement->Int(column++);
    }
    if (const int64_t device_us = statement->Int(column++); device_us > 0) row.device_us[device] = device_us;
    for (int64_t UsageRow::* sum : {&UsageRow::energy_mj, &UsageRow::energy_micro_usd, &UsageRow::co2_mg})
      row.*sum = statement->Int(column++);
    if (rows.empty() || rows.back().group != row.group) {
      rows.push_back(std::move(row));
    } else {
      rows.back() += row;
    }
  }
}

absl::StatusOr<std::vector<int64_t>> Index::HoursChangedAfter(uint64_t seq) {
  absl::StatusOr<sqlite::Statement> statement =
      db_->Prepare("SELECT hour FROM changed WHERE seq > ? ORDER BY hour");
  if (!statement.ok()) return statement.status();
  statement->Bind(1, static_cast<int64_t>(seq));
  std::vector<int64_t> hours;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return hours;
    hours.push_back(statement->Int(0));
  }
}

absl::StatusOr<std::vector<UsageCell>> Index::UsageOfHour(int64_t hour) {
  absl::StatusOr<sqlite::Statement> statement = db_->Prepare(
      "SELECT (SELECT text FROM text WHERE id = tenant), (SELECT text FROM text WHERE id = key), (SELECT "
      "text "
      "FROM text WHERE id = model), (SELECT text FROM text WHERE id = replica), (SELECT text FROM text WHERE "
      "id "
      "= api), (SELECT text FROM text WHERE id = reason), (SELECT text FROM text WHERE id = job), (SELECT "
      "text "
      "FROM text WHERE id = device), sum(requests), sum(errors), sum(input), sum(cached), sum(output), "
      "sum(cost), sum(device_us), sum(energy_mj), sum(energy_micro_usd), sum(co2_mg) FROM usage WHERE "
      "seconds = ? AND begin = ? GROUP BY tenant, key, model, "
      "replica, api, reason, job, device ORDER BY 1, 2, 3, 4, 5, 6, 7, 8");
  if (!statement.ok()) return statement.status();
  statement->Bind(1, kHour).Bind(2, hour);
  std::vector<UsageCell> cells;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return cells;
    UsageCell& cell = cells.emplace_back();
    int column = 0;
    for (std::string& text : cell.of) text = statement->Text(column++);
    for (int64_t UsageCell::* sum :
         {&UsageCell::requests, &UsageCell::errors, &UsageCell::input, &UsageCell::cached, &UsageCell::output,
          &UsageCell::cost_micro_usd, &UsageCell::device_us, &UsageCell::energy_mj,
          &UsageCell::energy_micro_usd, &UsageCell::co2_mg}) {
      cell.*sum = statement->Int(column++);
    }
  }
}

absl::StatusOr<std::optional<int64_t>> Index::FirstHour() {
  absl::StatusOr<sqlite::Statement> statement =
      db_->Prepare("SELECT min(begin) FROM usage WHERE seconds = ?");
  if (!statement.ok()) return statement.status();
  absl::StatusOr<bool> row = statement->Bind(1, kHour).Step();
  if (!row.ok()) return row.status();
  if (!*row || statement->IsNull(0)) return std::nullopt;
  return statement->Int(0);
}

absl::StatusOr<std::vector<SpendRow>> Index::SpentSince(int64_t day) {
  absl::StatusOr<sqlite::Statement> statement = db_->Prepare(
      "SELECT (SELECT text FROM text WHERE id = tenant), (SELECT text FROM text WHERE id = key), "
      "(SELECT text FROM text WHERE id = model), sum(input), sum(output), sum(cost), "
      "(SELECT text FROM text WHERE id = device), sum(device_us) FROM spent "
      "WHERE pending = 0 AND day >= ? GROUP BY tenant, key, model, device ORDER BY 1, 2, 3, 7");
  if (!statement.ok()) return statement.status();
  statement->Bind(1, day);
  std::vector<SpendRow> rows;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return rows;
    rows.push_back({.day = day,
                    .tenant = statement->Text(0),
                    .key = statement->Text(1),
                    .model = statement->Text(2),
                    .device = statement->Text(6),
                    .input = statement->Int(3),
                    .output = statement->Int(4),
                    .cost_micro_usd = statement->Int(5),
                    .device_us = statement->Int(7)});
  }
}

absl::StatusOr<std::vector<LastHeld>> Index::LastDevices() {
  absl::StatusOr<sqlite::Statement> statement = db_->Prepare(
      "SELECT model, job, device, from_us, until_us, held_us, device_us FROM held ORDER BY model, job, "
      "device");
  if (!statement.ok()) return statement.status();
  std::vector<LastHeld> all;
  while (true) {
    absl::StatusOr<bool> more = statement->Step();
    if (!more.ok()) return more.status();
    if (!*more) return all;
    all.push_back({.model = statement->Text(0),
                   .job = statement->Text(1),
                   .device = statement->Text(2),
                   .from_us = statement->Int(3),
                   .until_us = statement->Int(4),
                   .held_us = statement->Int(5),
                   .device_us = statement->Int(6)});
  }
}

absl::StatusOr<std::unique_ptr<Index>> OpenIndexUpToDate(const std::string& ledger_dir) {
  absl::StatusOr<std::unique_ptr<Index>> index = Index::Open(ledger_dir);
  if (!index.ok()) return index.status();
  absl::Status caught_up = (*index)->CatchUp();
  if (absl::IsDataLoss(caught_up)) {
    index->reset();
    if (absl::Status removed = Index::Remove(ledger_dir); !removed.ok()) return removed;
    index = Index::Open(ledger_dir);
    if (!index.ok()) return index.status();
    caught_up = (*index)->CatchUp();
  }
  if (!caught_up.ok()) return caught_up;
  return index;
}

absl::StatusOr<std::vector<UsageRow>> QueryUsage(const std::string& ledger_dir, const UsageQuery& query,
                                                 uint64_t* last) {
  absl::StatusOr<std::unique_ptr<Index>> index = OpenIndexUpToDate(ledger_dir);
  if (!index.ok()) return index.status();
  absl::StatusOr<std::vector<UsageRow>> rows = (*index)->Usage(query);
  if (last != nullptr) *last = (*index)->applied_seq();
  return rows;
}

absl::StatusOr<std::vector<SpendRow>> SpentSince(const std::string& ledger_dir, conf::TimePoint day) {
  absl::StatusOr<std::unique_ptr<Index>> index = OpenIndexUpToDate(ledger_dir);
  if (!index.ok()) return index.status();
  return (*index)->SpentSince(DayOf(conf::ToUnixMicros(day)));
}

absl::StatusOr<std::vector<LastHeld>> LastDevices(const std::string& ledger_dir) {
  absl::StatusOr<std::unique_ptr<Index>> index = OpenIndexUpToDate(ledger_dir);
  if (!index.ok()) return index.status();
  return (*index)->LastDevices();
}

}  // namespace gateway::ledger
