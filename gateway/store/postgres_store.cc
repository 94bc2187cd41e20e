#include "gateway/store/postgres_store.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/net/async_mutex.h"
#include "gateway/net/backoff.h"
#include "gateway/net/clock.h"
#include "gateway/store/postgres_schema.h"

namespace gateway::store {
namespace {

using net::PostgresConnection;
using net::PostgresRows;
using net::PostgresStatement;
using net::PostgresValue;
using Answers = absl::StatusOr<std::vector<PostgresRows>>;

constexpr conf::Duration kAskInterval = std::chrono::seconds(1);
constexpr conf::Duration kMinBackoff = std::chrono::milliseconds(100);
constexpr conf::Duration kMaxBackoff = std::chrono::seconds(3);
constexpr uint64_t kLeastVersion = 130'000;  // PostgreSQL 13
// Numbers that are left out after the database lost changes: some of them belonged to changes that no gateway has seen.
constexpr uint64_t kLostNumbers = 1'000;
// In one transaction, of several commits.
constexpr size_t kMostTogether = 256;
constexpr size_t kMostBytesTogether = 4u << 20;

// A transaction of a gateway that hangs must not hold up the others.
constexpr const char* kSetSession =
    "SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', '3s', false), "
    "set_config('idle_in_transaction_session_timeout', '2s', false), "
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, false), "
    "current_setting('server_version_num')::bigint, current_setting('server_version'), "
    "current_setting('server_encoding'), to_regclass('tidegate.meta') IS NOT NULL";
// Another timeline: another server has taken over, or a backup was restored.
constexpr const char* kIdentity =
    "SELECT m.store || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), s.last "
    "FROM tidegate.meta m, tidegate.sequence s";
constexpr const char* kLast = "SELECT last FROM tidegate.sequence";

constexpr const char* kLeader =
    "SELECT epoch, holder, about, (extract(epoch FROM expires - clock_timestamp()) * 1000000)::bigint "
    "FROM tidegate.leader WHERE expires > clock_timestamp()";

Lead LeadOf(const PostgresRows& rows) {
  Lead lead;
  if (rows.size() == 0) return lead;
  lead.epoch = rows.Number(0, 0);
  lead.holder = rows.Text(0, 1);
  lead.about = rows.Text(0, 2);
  const auto left = static_cast<int64_t>(rows.Number(0, 3));  // it may have ended since it was chosen
  lead.left = std::chrono::microseconds(std::max<int64_t>(left, 0));
  return lead;
}

int64_t Micros(conf::Duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

absl::Status NoSequence(const std::string& address) {
  return absl::DataLossError(fmt::format("{}: the row of the sequence is missing", address));
}

// Each row has the last number of the sequence and, unless there is no object, its id, version, body and kind.
absl::StatusOr<Listing> ListingOf(const PostgresRows& rows, const std::string& address) {
  if (rows.size() == 0) return NoSequence(address);
  Listing listing;
  listing.number = rows.Number(0, 0);
  for (size_t i = 0; i < rows.size() && !rows.IsNull(i, 1); ++i)
    listing.objects.push_back({rows.Text(i, 4), rows.Text(i, 1), rows.Number(i, 2), rows.Text(i, 3)});
  return listing;
}

}  // namespace

class PostgresStore::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(net::Loop& loop, PostgresStoreOptions options)
      : loop_(loop),
        options_(std::move(options)),
        turns_(options_.max_waiting),
        backoff_(kMinBackoff, kMaxBackoff, options_.seed),
        watch_backoff_(kMinBackoff, kMaxBackoff, options_.seed + 1),
        pause_(loop.watchdog) {}

  void Close() {
    listeners_.clear();
    EndWatch();
  }

  void Add(Listener& listener) {
    listeners_.push_back(&listener);
    if (!std::exchange(watching_, true)) loop_.tasks.Spawn(Watch(shared_from_this()));
  }
  void Remove(Listener& listener) {
    std::erase(listeners_, &listener);
    if (listeners_.empty()) EndWatch();
  }

  // Runs `work`, a function that returns a task, when those before it have ended, on a connection. `give_up` is
  // asked when its turn comes too late: false, another's turn has done it meanwhile.
  template <class Result, class Work, class GiveUp = bool (*)()>
  net::Task<Result> InTurn(Work& work, GiveUp give_up = [] { return true; }) {
    const conf::TimePoint until = net::Now() + options_.patience;
    if (!co_await turns_.Lock()) {
      co_return absl::ResourceExhaustedError(
          fmt::format("{}: {} operations wait already; try again later", address_, options_.max_waiting));
    }
    if (net::Now() >= until && give_up()) {
      turns_.Unlock();  // the next task continues within this call
      co_return absl::UnavailableError(fmt::format("{}: no answer within {}: other operations delay it",
                                                   address_, conf::InWords(options_.patience)));
    }
    Result result = co_await work();
    turns_.Unlock();
    co_return result;
  }

  // A commit that waits for its turn, and its result, which the turn of one before it may bring.
  struct WaitingCommit {
    const std::vector<Write>& writes;
    uint64_t epoch = 0;
    std::optional<absl::StatusOr<Committed>> result = {};
  };

  net::Task<absl::StatusOr<Committed>> Commit(const std::vector<Write>& writes, uint64_t epoch) {
    WaitingCommit mine{.writes = writes, .epoch = epoch};
    commits_.push_back(&mine);
    auto work = [&]() -> net::Task<absl::StatusOr<Committed>> {
      if (!mine.result) co_await CommitWaiting();
      co_return *std::move(mine.result);
    };
    // A commit that was given up must not be committed with the next one.
    const auto give_up = [&] { return !mine.result && std::erase(commits_, &mine) == 1; };
    absl::StatusOr<Committed> committed = co_await InTurn<absl::StatusOr<Committed>>(work, give_up);
    std::erase(commits_, &mine);  // too many waited
    co_return committed;
  }

  // The rest is for work in turn.

  // Runs statements that may be repeated: once more, if the connection was lost while nothing ran.
  net::Task<Answers> Begin(std::vector<PostgresStatement> statements) {
    const bool had_one = connection_ != nullptr && !connection_->broken();
    if (absl::Status connected = co_await Connect(); !connected.ok()) co_return connected;
    Answers answers = co_await connection_->Run(statements, options_.patience);
    if (!answers.ok() && connection_->broken() && had_one) {
      if (absl::Status connected = co_await Connect(); !connected.ok()) co_return connected;
      answers = co_await connection_->Run(std::move(statements), options_.patience);
    }
    co_return answers;
  }

  // Ends an open transaction without a change.
  net::Task<void> Rollback() {
    if (connection_->broken()) co_return;
    std::vector<PostgresStatement> rollback;
    rollback.push_back({"ROLLBACK"});
    if (!(co_await connection_->Run(std::move(rollback), options_.patience)).ok()) connection_.reset();
  }

  net::Task<absl::Status> Connect() {
    if (connection_ != nullptr && !connection_->broken()) co_return absl::OkStatus();
    if (net::Now() < retry_at_) co_return trouble_;
    connection_ = std::make_unique<PostgresConnection>(loop_, options_.server);
    absl::Status settled = co_await Settle(*connection_);
    if (settled.ok()) {
      backoff_.Reset();
      co_return settled;
    }
    connection_.reset();
    retry_at_ = net::Now() + backoff_.Next();
    trouble_ = settled;
    co_return settled;
  }

  uint64_t seen_epoch() const { return seen_epoch_; }
  void NoteEpoch(uint64_t epoch) { seen_epoch_ = std::max(seen_epoch_, epoch); }
  void NoteNumber(uint64_t number) { seen_ = std::max(seen_, number); }
  const PostgresStoreOptions& options() const { return options_; }
  const Facts& facts() const { return facts_; }
  const std::string& address() const { return address_; }

 private:
  // The commits that wait, the oldest first, in one transaction: the disk is waited for once. What is wrong with
  // one of them is its own.
  net::Task<void> CommitWaiting() {
    std::vector<WaitingCommit*> together;
    size_t writes = 0;
    size_t bytes = 0;
    while (!commits_.empty()) {
      for (const Write& write : commits_.front()->writes) {
        ++writes;
        bytes += write.body ? write.body->size() : 0;
      }
      if (!together.empty() && (writes > kMostTogether || bytes > kMostBytesTogether)) break;
      together.push_back(commits_.front());
      commits_.pop_front();
    }
    const absl::Status failed = co_await CommitTogether(together);
    if (failed.ok()) co_return;
    // A value that the database refuses is one commit's; which, shows one by one.
    const bool one_by_one = together.size() > 1 && absl::IsInvalidArgument(failed);
    for (WaitingCommit* const one : together) {
      const absl::Status status = one_by_one ? co_await CommitTogether({one}) : failed;
      if (!status.ok()) one->result = status;
    }
  }

  // Sets the result of each. An error: none was committed, and none has a result.
  net::Task<absl::Status> CommitTogether(std::vector<WaitingCommit*> commits) {
    const bool fenced =
        std::ranges::any_of(commits, [](const WaitingCommit* one) { return one->epoch != 0; });
    std::vector<PostgresStatement> begin;
    begin.push_back({"BEGIN"});
    begin.push_back({"SELECT last FROM tidegate.sequence FOR UPDATE"});
    begin.push_back({"SELECT epoch, expires > clock_timestamp() FROM tidegate.leader" +
                     std::string(fenced ? " FOR SHARE" : "")});
    for (const WaitingCommit* const one : commits) {
      for (const Write& write : one->writes) {
        begin.push_back(
            {"SELECT version FROM tidegate.objects WHERE kind = $1 AND id = $2 AND body IS NOT NULL",
             {write.kind, write.id}});
      }
    }
    const Answers stored = co_await Begin(std::move(begin));
    if (!stored.ok()) {
      if (connection_ != nullptr) co_await Rollback();
      co_return stored.status();
    }
    const absl::StatusOr<Comparison> compared = Compare(commits, *stored);
    if (!compared.ok() || compared->changes.empty()) {
      co_await Rollback();
      if (compared.ok()) GiveResults(commits, compared->results);
      co_return compared.status();
    }
    const uint64_t last = compared->changes.back().version;
    const Answers written = co_await connection_->Run(Statements(compared->changes), options_.patience);
    if (written.ok()) {
      GiveResults(commits, compared->results);
      seen_ = std::max(seen_, last);
      Tell(last);
      co_return absl::OkStatus();
    }
    if (connection_->broken()) {
      co_return absl::UnknownError(
          fmt::format("{}; whether the change was kept is not known: read it before trying again",
                      conf::Std(written.status().message())));
    }
    co_await Rollback();
    co_return written.status();
  }

  struct NumberedWrite {
    const Write* write;
    uint64_t version;
  };
  struct Comparison {
    std::vector<absl::StatusOr<Committed>> results;  // of each commit, if the changes are kept
    std::vector<NumberedWrite> changes;
  };

  static void GiveResults(const std::vector<WaitingCommit*>& commits,
                          const std::vector<absl::StatusOr<Committed>>& results) {
    for (size_t i = 0; i < commits.size(); ++i) commits[i]->result = results[i];
  }

  // Each commit meets the versions that those before it leave.
  absl::StatusOr<Comparison> Compare(const std::vector<WaitingCommit*>& commits,
                                     const std::vector<PostgresRows>& stored) const {
    if (stored.at(1).size() != 1 || stored.at(2).size() != 1)
      return absl::DataLossError(fmt::format("{}: the row of the sequence or of the lead is gone", address_));
    const uint64_t leading = stored[2].Bool(0, 1) ? stored[2].Number(0, 0) : 0;
    uint64_t last = stored[1].Number(0, 0);
    Comparison comparison;
    absl::flat_hash_map<std::pair<std::string_view, std::string_view>, uint64_t> versions;
    size_t row = 3;
    for (const WaitingCommit* const one : commits) {
      for (const Write& write : one->writes) {
        const PostgresRows& found = stored.at(row++);
        versions.try_emplace({write.kind, write.id}, found.size() == 0 ? 0 : found.Number(0, 0));
      }
    }
    for (const WaitingCommit* const one : commits) {
      absl::Status refused = absl::OkStatus();
      if (one->epoch != 0 && one->epoch != leading) refused = DeposedError(one->epoch, leading);
      for (const Write& write : one->writes) {
        const uint64_t version = versions[{write.kind, write.id}];
        if (refused.ok() && version != write.replaces) refused = OtherVersionError(write, version);
      }
      if (!refused.ok()) {
        comparison.results.emplace_back(refused);
        continue;
      }
      comparison.results.emplace_back(Committed{last + 1, last + one->writes.size()});
      for (const Write& write : one->writes) {
        versions[{write.kind, write.id}] = write.body ? last + 1 : 0;
        comparison.changes.push_back({&write, ++last});
      }
    }
    return comparison;
  }

  std::vector<PostgresStatement> Statements(const std::vector<NumberedWrite>& changes) const {
    std::vector<PostgresStatement> out;
    const uint64_t last = changes.back().version;
    bool removes = false;
    for (const auto& [write, version] : changes) {
      removes = removes || !write->body;
      out.push_back(
          {"INSERT INTO tidegate.objects (version, kind, id, body) VALUES ($1, $2, $3, $4) "
           "ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, body = excluded.body",
           {version, write->kind, write->id, PostgresValue::Bytes(write->body)}});
    }
    if (removes && last > options_.kept_removals) {
      out.push_back(
          {"WITH gone AS (DELETE FROM tidegate.objects WHERE body IS NULL AND version <= $2 "
           "RETURNING 1) UPDATE tidegate.sequence SET last = $1, forgotten = "
           "CASE WHEN EXISTS (SELECT 1 FROM gone) THEN $2 ELSE forgotten END",
           {last, last - options_.kept_removals}});
    } else {
      out.push_back({"UPDATE tidegate.sequence SET last = $1", {last}});
    }
    out.push_back({"SELECT pg_notify('tidegate', $1)", {last}});
    out.push_back({"COMMIT"});
    return out;
  }

  // Connects and sets the session up; the schema is there, and this store's past is that of the database.
  net::Task<absl::Status> Settle(PostgresConnection& to) {
    if (absl::Status connected = co_await to.Connect(options_.connect_patience); !connected.ok())
      co_return connected;
    address_ = to.address();
    std::vector<PostgresStatement> session;
    session.push_back(
        {kSetSession,
         {std::to_string(std::chrono::ceil<std::chrono::milliseconds>(options_.patience).count())}});
    const Answers set = co_await to.Run(std::move(session), options_.connect_patience);
    if (!set.ok()) co_return set.status();
    const PostgresRows& about = set->at(0);
    if (about.Number(0, 4) < kLeastVersion) {
      co_return absl::FailedPreconditionError(
          fmt::format("{}: is PostgreSQL {}; use 13 or later", address_, about.Text(0, 5)));
    }
    if (about.Text(0, 6) != "UTF8") {
      co_return absl::FailedPreconditionError(
          fmt::format("{}: the database's encoding is {}; create it with: createdb -T template0 -E UTF8 NAME",
                      address_, about.Text(0, 6)));
    }
    facts_.address = address_;
    facts_.server_version = about.Text(0, 5);
    if (!options_.makes_schema && !about.Bool(0, 7))
      co_return absl::NotFoundError(fmt::format("{}: has no tables of Tidegate", address_));
    absl::Status schema = co_await CheckOrMakeSchema(to, about.Bool(0, 7));
    if (!schema.ok()) co_return schema;
    co_return co_await CheckPast(to);
  }

  absl::Status RefuseSchema(uint64_t schema) const {
    return absl::FailedPreconditionError(
        fmt::format("{}: has schema {}, and tidegate {} knows schemas up to {}; run the version that "
                    "upgraded it or a later one, or restore the backup made before the upgrade",
                    address_, schema, TIDEGATE_VERSION, kPostgresSchema));
  }

  net::Task<absl::Status> CheckOrMakeSchema(PostgresConnection& to, bool is_there) {
    uint64_t schema = 0;
    if (is_there) {
      std::vector<PostgresStatement> ask;
      ask.push_back({"SELECT schema FROM tidegate.meta"});
      const Answers found = co_await to.Run(std::move(ask), options_.connect_patience);
      if (!found.ok()) co_return found.status();
      if (found->at(0).size() != 1)
        co_return absl::DataLossError(fmt::format("{}: tidegate.meta is empty", address_));
      schema = found->at(0).Number(0, 0);
      facts_.schema = schema;
      if (schema > kPostgresSchema) co_return RefuseSchema(schema);
      if (schema == kPostgresSchema) co_return absl::OkStatus();
    }
    absl::Status made = co_await MakeSchema(to);
    if (!made.ok() && !to.broken()) {
      std::vector<PostgresStatement> rollback;
      rollback.push_back({"ROLLBACK"});
      (co_await to.Run(std::move(rollback), options_.connect_patience)).IgnoreError();
    }
    if (absl::IsFailedPrecondition(made) && !is_there) {
      co_return absl::FailedPreconditionError(
          fmt::format("{}; the tables are missing, and the user may not make them: GRANT CREATE ON DATABASE "
                      "to it, or make it the owner",
                      conf::Std(made.message())));
    }
    co_return made;
  }

  // One gateway at a time; the others find it done.
  net::Task<absl::Status> MakeSchema(PostgresConnection& to) {
    std::vector<PostgresStatement> begin;
    begin.push_back({"BEGIN"});
    begin.push_back({"SELECT pg_advisory_xact_lock(hashtext('tidegate schema'))"});
    begin.push_back(
        {"SELECT to_regclass('tidegate.meta') IS NOT NULL, to_regnamespace('tidegate') IS NOT NULL"});
    const Answers begun = co_await to.Run(std::move(begin), options_.connect_patience);
    if (!begun.ok()) co_return begun.status();
    uint64_t schema = 0;
    if (begun->at(2).Bool(0, 0)) {
      std::vector<PostgresStatement> ask;
      ask.push_back({"SELECT schema FROM tidegate.meta"});
      const Answers found = co_await to.Run(std::move(ask), options_.connect_patience);
      if (!found.ok()) co_return found.status();
      if (found->at(0).size() == 1) schema = found->at(0).Number(0, 0);
      if (schema > kPostgresSchema) co_return RefuseSchema(schema);
    }
    std::vector<PostgresStatement> steps;
    if (!begun->at(2).Bool(0, 1)) steps.push_back({"CREATE SCHEMA tidegate"});
    while (schema < kPostgresSchema) {
      for (const std::string_view step : PostgresSchemaStep(++schema)) steps.push_back({std::string(step)});
    }
    steps.push_back({"UPDATE tidegate.meta SET schema = $1", {kPostgresSchema}});
    steps.push_back({"COMMIT"});
    const Answers done = co_await to.Run(std::move(steps), options_.connect_patience);
    if (done.ok()) facts_.schema = kPostgresSchema;
    co_return done.status();
  }

  net::Task<absl::Status> CheckPast(PostgresConnection& to) {
    std::vector<PostgresStatement> ask;
    ask.push_back({kIdentity});
    const Answers found = co_await to.Run(std::move(ask), options_.connect_patience);
    if (!found.ok()) co_return found.status();
    if (found->at(0).size() != 1) co_return NoSequence(address_);
    const std::string identity = found->at(0).Text(0, 0);
    const uint64_t last = found->at(0).Number(0, 1);
    facts_.last = last;
    const uint64_t seen = seen_;
    const bool lost = last < seen;
    if (lost) {
      std::vector<PostgresStatement> skip;
      skip.push_back({"UPDATE tidegate.sequence SET last = $1, forgotten = $1 WHERE last < $2",
                      {seen + kLostNumbers, seen}});
      skip.push_back(
          {"UPDATE tidegate.leader SET epoch = $1, holder = '', about = '', "
           "expires = '-infinity' WHERE epoch < $1",
           {seen_epoch_}});
      const Answers skipped = co_await to.Run(std::move(skip), options_.connect_patience);
      if (!skipped.ok()) co_return skipped.status();
      seen_ = seen + kLostNumbers;
    }
    const bool other = !identity_.empty() && identity != identity_;
    identity_ = identity;
    if (lost) {
      options_.on_restored(
          fmt::format("{}: the database went back from change {} to change {}: the changes between are "
                      "lost; everything is read again",
                      address_, seen, last));
    } else if (other) {
      options_.on_restored(fmt::format(
          "{}: another server has taken over, with all changes; everything is read again", address_));
    }
    if (lost || other) ToListeners([](Listener& listener) { listener.OnRestored(); });
    co_return absl::OkStatus();
  }

  net::Task<void> Watch(std::shared_ptr<Core> self) {
    while (!listeners_.empty()) {
      absl::Status status = co_await WatchOnce();
      if (listeners_.empty()) break;
      if (status.ok()) continue;
      watched_.reset();
      if (std::exchange(readable_, false)) {
        ToListeners([status](Listener& listener) { listener.OnHealth(status); });
      }
      co_await pause_.For(watch_backoff_.Next());
    }
    watched_.reset();
    watching_ = false;
  }

  net::Task<absl::Status> WatchOnce() {
    if (watched_ == nullptr) {
      watched_ = std::make_unique<PostgresConnection>(loop_, options_.server);
      if (absl::Status settled = co_await Settle(*watched_); !settled.ok()) co_return settled;
      std::vector<PostgresStatement> listen;
      listen.push_back({"LISTEN tidegate"});
      const Answers listening = co_await watched_->Run(std::move(listen), options_.connect_patience);
      if (!listening.ok()) co_return listening.status();
    }
    std::vector<PostgresStatement> ask;
    ask.push_back({kLast});
    const Answers last = co_await watched_->Run(std::move(ask), options_.patience);
    if (!last.ok()) co_return last.status();
    if (last->at(0).size() != 1) co_return NoSequence(address_);
    watch_backoff_.Reset();
    // The connection for operations is made at once, too.
    retry_at_ = {};
    if (!std::exchange(readable_, true)) {
      ToListeners([](Listener& listener) { listener.OnHealth(absl::OkStatus()); });
    }
    const uint64_t number = last->at(0).Number(0, 0);
    seen_ = std::max(seen_, number);
    Tell(number);
    if (listeners_.empty()) co_return absl::OkStatus();
    co_return co_await watched_->AwaitNotification(kAskInterval);
  }

  void EndWatch() {
    if (watched_ != nullptr) watched_->Interrupt();
    pause_.Cancel();
  }

  void Tell(uint64_t last) {
    if (last == std::exchange(told_, last)) return;
    ToListeners([last](Listener& listener) { listener.OnChange(last); });
  }

  template <class Fn>
  void ToListeners(Fn tell) {
    loop_.Post([weak = weak_from_this(), tell = std::move(tell)] {
      const std::shared_ptr<Core> self = weak.lock();
      if (self == nullptr) return;
      const std::vector<Listener*> listeners = self->listeners_;
      for (Listener* listener : listeners) {
        if (std::ranges::find(self->listeners_, listener) != self->listeners_.end()) tell(*listener);
      }
    });
  }

  net::Loop& loop_;
  const PostgresStoreOptions options_;
  std::string address_ = "postgres";
  Facts facts_;
  std::string identity_;     // of the database and its timeline, when last connected
  uint64_t seen_ = 0;        // the highest number of a change
  uint64_t seen_epoch_ = 0;  // the highest epoch

  net::AsyncMutex turns_;
  std::deque<WaitingCommit*> commits_;  // of tasks that wait for their turn
  std::unique_ptr<PostgresConnection> connection_;
  net::Backoff backoff_;
  conf::TimePoint retry_at_{};
  absl::Status trouble_;

  std::vector<Listener*> listeners_;
  std::unique_ptr<PostgresConnection> watched_;
  net::Backoff watch_backoff_;
  net::Sleep pause_;
  bool watching_ = false;
  bool readable_ = true;
  uint64_t told_ = 0;
};

PostgresStore::PostgresStore(net::Loop& loop, PostgresStoreOptions options)
    : core_(std::make_shared<Core>(loop, std::move(options))) {}

PostgresStore::~PostgresStore() {
  core_->Close();
}

net::Task<absl::StatusOr<PostgresStore::Facts>> PostgresStore::Check() {
  auto work = [this]() -> net::Task<absl::StatusOr<Facts>> {
    std::vector<PostgresStatement> ask;
    ask.push_back({kLast});
    const Answers found = co_await core_->Begin(std::move(ask));
    if (!found.ok()) co_return found.status();
    Facts facts = core_->facts();
    if (found->at(0).size() == 1) facts.last = found->at(0).Number(0, 0);
    co_return facts;
  };
  co_return co_await core_->InTurn<absl::StatusOr<Facts>>(work);
}

net::Task<absl::StatusOr<std::optional<Object>>> PostgresStore::Get(std::string kind, std::string id) {
  auto work = [&]() -> net::Task<absl::StatusOr<std::optional<Object>>> {
    std::vector<PostgresStatement> ask;
    ask.push_back(
        {"SELECT version, body FROM tidegate.objects WHERE kind = $1 AND id = $2 AND body IS NOT NULL",
         {kind, id}});
    const Answers found = co_await core_->Begin(std::move(ask));
    if (!found.ok()) co_return found.status();
    const PostgresRows& rows = found->at(0);
    if (rows.size() == 0) co_return std::optional<Object>();
    co_return Object{kind, id, rows.Number(0, 0), rows.Text(0, 1)};
  };
  co_return co_await core_->InTurn<absl::StatusOr<std::optional<Object>>>(work);
}

// One statement, so one moment.
net::Task<absl::StatusOr<Listing>> PostgresStore::List(std::string kind) {
  auto work = [&]() -> net::Task<absl::StatusOr<Listing>> {
    std::vector<PostgresStatement> ask;
    const char* const of = kind.empty() ? "" : "o.kind = $1 AND ";
    PostgresStatement list{
        fmt::format("SELECT s.last, o.id, o.version, o.body, o.kind FROM tidegate.sequence s "
                    "LEFT JOIN tidegate.objects o ON {}o.body IS NOT NULL "
                    "ORDER BY o.kind, o.id",
                    of)};
    if (!kind.empty()) list.parameters.emplace_back(kind);
    ask.push_back(std::move(list));
    const Answers found = co_await core_->Begin(std::move(ask));
    if (!found.ok()) co_return found.status();
    absl::StatusOr<Listing> listing = ListingOf(found->at(0), core_->address());
    if (listing.ok()) core_->NoteNumber(listing->number);
    co_return listing;
  };
  co_return co_await core_->InTurn<absl::StatusOr<Listing>>(work);
}

net::Task<absl::StatusOr<Listing>> PostgresStore::ListPage(std::string kind, std::string after,
                                                           size_t limit) {
  auto work = [&]() -> net::Task<absl::StatusOr<Listing>> {
    std::vector<PostgresStatement> ask;
    ask.push_back(
        {"SELECT s.last, o.id, o.version, o.body, o.kind FROM tidegate.sequence s LEFT JOIN LATERAL ("
         "SELECT id, version, body, kind FROM tidegate.objects WHERE kind = $1 AND id > $2 AND "
         "body IS NOT NULL ORDER BY id LIMIT $3) o ON true ORDER BY o.id",
         {kind, after, uint64_t{limit}}});
    const Answers found = co_await core_->Begin(std::move(ask));
    if (!found.ok()) co_return found.status();
    absl::StatusOr<Listing> listing = ListingOf(found->at(0), core_->address());
    if (listing.ok()) core_->NoteNumber(listing->number);
    co_return listing;
  };
  co_return co_await core_->InTurn<absl::StatusOr<Listing>>(work);
}

net::Task<absl::StatusOr<ChangeList>> PostgresStore::Changes(std::string kind, uint64_t after) {
  auto work = [&]() -> net::Task<absl::StatusOr<ChangeList>> {
    const size_t page = core_->options().page;
    std::vector<PostgresStatement> ask;
    ask.push_back(
        {"SELECT s.last, s.forgotten, c.version, c.mine, c.id, c.body FROM tidegate.sequence s LEFT JOIN "
         "LATERAL (SELECT o.version, o.kind = $3 AS mine, o.id, CASE WHEN o.kind = $3 THEN o.body END AS "
         "body FROM tidegate.objects o WHERE o.version > $1 ORDER BY o.version LIMIT $2) c ON true "
         "ORDER BY c.version",
         {after, uint64_t{page}, kind}});
    const Answers found = co_await core_->Begin(std::move(ask));
    if (!found.ok()) co_return found.status();
    const PostgresRows& rows = found->at(0);
    if (rows.size() == 0) co_return NoSequence(core_->address());
    const uint64_t last = rows.Number(0, 0);
    const uint64_t forgotten = rows.Number(0, 1);
    if (after < forgotten) {
      co_return absl::OutOfRangeError(
          fmt::format("{}: removals up to change {} are forgotten, and changes after {} were asked for",
                      core_->address(), forgotten, after));
    }
    if (after > last) {
      co_return absl::OutOfRangeError(
          fmt::format("{}: has {} changes, and those after {} were asked for; it is another store or an "
                      "older copy of it",
                      core_->address(), last, after));
    }
    ChangeList list;
    list.number = after;
    size_t read = 0;
    for (; read < rows.size() && !rows.IsNull(read, 2); ++read) {
      list.number = rows.Number(read, 2);
      if (!rows.Bool(read, 3)) continue;
      list.changes.push_back({list.number, rows.Text(read, 4),
                              rows.IsNull(read, 5) ? std::nullopt : std::optional(rows.Text(read, 5))});
    }
    list.more = read == page && list.number < last;
    if (!list.more) list.number = last;
    core_->NoteNumber(last);
    co_return list;
  };
  co_return co_await core_->InTurn<absl::StatusOr<ChangeList>>(work);
}

net::Task<absl::StatusOr<Committed>> PostgresStore::Commit(std::vector<Write> writes, uint64_t epoch) {
  if (absl::Status checked = CheckWrites(writes); !checked.ok()) co_return checked;
  co_return co_await core_->Commit(writes, epoch);
}

net::Task<absl::StatusOr<Lead>> PostgresStore::Campaign(std::string holder, std::string about,
                                                        conf::Duration ttl) {
  if (absl::Status checked = CheckHolder(holder, about); !checked.ok()) co_return checked;
  auto work = [&]() -> net::Task<absl::StatusOr<Lead>> {
    std::vector<PostgresStatement> ask;
    ask.push_back(
        {"UPDATE tidegate.leader SET epoch = CASE WHEN expires > clock_timestamp() THEN epoch "
         "ELSE greatest(epoch, $4::bigint) + 1 END, holder = $1, about = $2, "
         "expires = clock_timestamp() + $3::bigint * interval '1 microsecond' "
         "WHERE holder = $1 OR expires <= clock_timestamp()",
         {holder, about, std::to_string(Micros(ttl)), core_->seen_epoch()}});
    ask.push_back({kLeader});
    const Answers found = co_await core_->Begin(std::move(ask));
    if (!found.ok()) co_return found.status();
    const PostgresRows& rows = found->at(1);
    Lead lead = LeadOf(rows);
    lead.mine = lead.epoch != 0 && lead.holder == holder;
    core_->NoteEpoch(lead.epoch);
    co_return lead;
  };
  co_return co_await core_->InTurn<absl::StatusOr<Lead>>(work);
}

net::Task<absl::StatusOr<Lead>> PostgresStore::Leader() {
  auto work = [&]() -> net::Task<absl::StatusOr<Lead>> {
    std::vector<PostgresStatement> ask;
    ask.push_back({kLeader});
    const Answers found = co_await core_->Begin(std::move(ask));
    if (!found.ok()) co_return found.status();
    co_return LeadOf(found->at(0));
  };
  co_return co_await core_->InTurn<absl::StatusOr<Lead>>(work);
}

net::Task<absl::Status> PostgresStore::SkipTo(uint64_t number) {
  auto work = [&]() -> net::Task<absl::Status> {
    std::vector<PostgresStatement> ask;
    ask.push_back({"UPDATE tidegate.sequence SET last = $1, forgotten = $1 WHERE last < $1", {number}});
    co_return (co_await core_->Begin(std::move(ask))).status();
  };
  co_return co_await core_->InTurn<absl::Status>(work);
}

net::Task<absl::Status> PostgresStore::Resign(std::string holder, uint64_t epoch) {
  auto work = [&]() -> net::Task<absl::Status> {
    std::vector<PostgresStatement> ask;
    ask.push_back({"UPDATE tidegate.leader SET expires = '-infinity' WHERE holder = $1 AND epoch = $2",
                   {holder, epoch}});
    co_return (co_await core_->Begin(std::move(ask))).status();
  };
  co_return co_await core_->InTurn<absl::Status>(work);
}

void PostgresStore::Add(Listener& listener) {
  core_->Add(listener);
}

void PostgresStore::Remove(Listener& listener) {
  core_->Remove(listener);
}

}  // namespace gateway::store
