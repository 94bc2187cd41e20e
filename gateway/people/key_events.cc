#include "gateway/people/key_events.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/tail.h"
#include "gateway/log.h"
#include "gateway/net/off_loop.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;
using nlohmann::json;

constexpr char kPositionId[] = "key_events";
constexpr size_t kMaxWaiting = 1024;
constexpr size_t kEventsAtOnce = 256;
constexpr size_t kRecordsAtOnce = 4096;
constexpr size_t kBytesAtOnce = 4 << 20;
constexpr conf::Duration kRetry = std::chrono::seconds(1);
constexpr conf::Duration kCheck = std::chrono::minutes(1);
// How far the ledger may run ahead of the position: what a start may have to look through.
constexpr uint64_t kMaxUnseen = 100'000;

// Only such a record is worth parsing.
constexpr std::string_view kKindOfKey = "\"kind\":\"key\"";
constexpr size_t kKindWithin = 96;

std::string PositionBody(uint64_t ledger_seq) {
  return json{{"ledger_seq", ledger_seq}}.dump();
}

std::string IdOf(std::string_view subject, std::string_view action) {
  return fmt::format("{}.{}", subject, action);
}

}  // namespace

ledger::Event ToLedger(const auth::KeyEvent& event) {
  ledger::Event out;
  out.kind = ledger::Kind::kKey;
  out.time_us = conf::ToUnixMicros(event.at);
  out.action = KindName(event.kind);
  out.actor = event.by;
  out.subject = event.subject();
  if (event.key) out.tenant = event.key->tenant;
  out.detail = Describe(event).dump();
  return out;
}

store::Write PendingEvent(const auth::KeyEvent& event) {
  return store::Write::Create(store::kKeyEvent, IdOf(event.subject(), KindName(event.kind)),
                              auth::EncodeEvent(event));
}

store::Write KeyEventsPosition(uint64_t ledger_seq) {
  return store::Write::Create(store::kPosition, kPositionId, PositionBody(ledger_seq));
}

KeyEvents::KeyEvents(net::Loop& loop, store::Store& store, ledger::Ledger& ledger, std::string ledger_dir)
    : Alarm(loop.watchdog),
      loop_(loop),
      store_(store),
      ledger_(ledger),
      ledger_dir_(std::move(ledger_dir)),
      follower_(loop, store, store::kKeyEvent,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}),
      turn_(kMaxWaiting) {}

KeyEvents::~KeyEvents() = default;

net::Task<absl::Status> KeyEvents::Start() {
  if (absl::Status started = co_await follower_.Start(); !started.ok()) co_return started;
  SetAfter(kCheck);
  // What comes from now on is new, and this process alone writes the ledger.
  if (pending_.empty()) sure_ = true;
  const absl::Status carried = co_await CarryOver();
  const bool full = absl::IsResourceExhausted(carried) || !ledger_.Healthy();
  if (carried.ok() || !full) co_return carried;
  // A full disk is no reason not to start: they are carried over when there is room.
  failing_ = true;
  log::Warn("changes of keys are not in the ledger yet; it is tried again",
            {{"why", conf::Std(carried.message())}});
  SetAfter(kRetry);
  co_return absl::OkStatus();
}

void KeyEvents::Stop() {
  stopped_ = true;
  follower_.Stop();
  Clear();
}

void KeyEvents::Replace(const std::vector<store::Object>& all) {
  pending_.clear();
  for (const store::Object& object : all) Take(object.id, object.version, object.body);
  CarryLater();
}

void KeyEvents::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      std::erase_if(pending_, [&](const auto& entry) { return entry.second.object.id == change.id; });
    }
  }
  CarryLater();
}

// One that this version cannot read stays in the store, for a version that can.
void KeyEvents::Take(const std::string& id, uint64_t version, const std::string& body) {
  absl::StatusOr<auth::KeyEvent> event = auth::DecodeEvent(body);
  if (!event.ok()) {
    log::Error("a change of a key cannot be read, so the ledger does not have it",
               {{"event", id}, {"why", conf::Std(event.status().message())}});
    return;
  }
  pending_[version] = {{store::kKeyEvent, id, version, body}, *std::move(event)};
}

void KeyEvents::CarryLater() {
  if (stopped_ || pending_.empty() || std::exchange(carrying_, true)) return;
  loop_.tasks.Spawn(CarryOn());
}

net::Task<void> KeyEvents::CarryOn() {
  const absl::Status carried = co_await CarryOver();
  carrying_ = false;
  if (stopped_) co_return;
  if (!carried.ok()) {
    if (!std::exchange(failing_, true)) {
      log::Warn("changes of keys are not in the ledger yet; it is tried again",
                {{"why", conf::Std(carried.message())}});
    }
    SetAfter(kRetry);
    co_return;
  }
  if (std::exchange(failing_, false)) log::Info("changes of keys are in the ledger again");
  SetAfter(kCheck);
  CarryLater();  // what came meanwhile
}

void KeyEvents::OnAlarm() {
  SetAfter(kCheck);
  if (pending_.empty() && ledger_.GetStats().durable_seq <= ledger_seq_ + kMaxUnseen) return;
  if (!std::exchange(carrying_, true)) loop_.tasks.Spawn(CarryOn());
}

net::Task<absl::Status> KeyEvents::CarryOver() {
  if (absl::Status current = co_await follower_.CatchUp(); !current.ok()) co_return current;
  if (!co_await turn_.Lock()) co_return absl::ResourceExhaustedError("too many tasks wait for the ledger");
  const absl::Status carried = co_await CarryLocked();
  turn_.Unlock();
  co_return carried;
}

net::Task<absl::Status> KeyEvents::CarryLocked() {
  if (!position_read_) {
    if (absl::Status read = co_await ReadPosition(); !read.ok()) co_return read;
  }
  while (!pending_.empty()) {
    std::vector<Pending> events;
    for (const auto& [version, pending] : pending_) {
      if (events.size() == kEventsAtOnce) break;
      events.push_back(pending);
    }
    absl::Status status;
    const size_t recorded =
        co_await net::OffLoop(loop_, [this, &events, &status] { return Record(events, status); });
    events.resize(recorded);
    if (!events.empty()) {
      if (absl::Status removed = co_await Remove(events); !removed.ok()) co_return removed;
    }
    if (!status.ok()) co_return status;
  }
  if (sure_) recorded_.clear();  // they matter while something is pending
  if (ledger_.GetStats().durable_seq > ledger_seq_ + kMaxUnseen) co_return co_await Remove({});
  co_return absl::OkStatus();
}

size_t KeyEvents::Record(const std::vector<Pending>& events, absl::Status& status) {
  if (!sure_) {
    status = FindRecorded();
    if (!status.ok()) return 0;
  }
  size_t recorded = 0;
  for (const Pending& pending : events) {
    if (!recorded_.contains(pending.object.id)) {
      status = ledger_.Append(ToLedger(pending.event));
      if (!status.ok()) {
        sure_ = false;  // it may still be written
        return recorded;
      }
      recorded_.insert(pending.object.id);
    }
    ++recorded;
  }
  return recorded;
}

absl::Status KeyEvents::FindRecorded() {
  // What an append before left in doubt is written now or never will be.
  if (absl::Status flushed = ledger_.Flush(); !flushed.ok()) return flushed;
  recorded_.clear();
  // A position beyond the ledger's end is of another ledger.
  ledger::Tail tail(ledger_dir_, ledger_seq_ > ledger_.GetStats().durable_seq ? 0 : ledger_seq_);
  ledger::RecordParser parser;
  ledger::Record record;
  // An event that is damaged is not found; it is recorded again.
  while (true) {
    const auto batch = tail.Read(kRecordsAtOnce, kBytesAtOnce);
    if (!batch.ok()) return batch.status();
    if (batch->lines.empty()) break;
    for (const ledger::Tail::Line& line : batch->lines) {
      if (std::string_view(line.text).substr(0, kKindWithin).find(kKindOfKey) == std::string_view::npos)
        continue;
      if (absl::Status parsed = parser.Parse(line.text, &record); !parsed.ok()) return parsed;
      recorded_.insert(IdOf(record.subject, record.action));
    }
  }
  sure_ = true;
  return absl::OkStatus();
}

net::Task<absl::Status> KeyEvents::ReadPosition() {
  absl::StatusOr<std::optional<store::Object>> found = co_await store_.Get(store::kPosition, kPositionId);
  if (!found.ok()) co_return found.status();
  position_ = *std::move(found);
  position_read_ = true;
  const json body = position_ ? conf::ParseJson(position_->body) : json();
  // Where it cannot be read, the whole ledger is looked through.
  const bool known =
      body.is_object() && body.contains("ledger_seq") && body["ledger_seq"].is_number_unsigned();
  ledger_seq_ = known ? body["ledger_seq"].get<uint64_t>() : 0;
  co_return absl::OkStatus();
}

// With the position: nothing that is still pending stands in the ledger up to its present end, but for what
// an append of this process left in doubt, which `recorded_` or the next search knows.
net::Task<absl::Status> KeyEvents::Remove(const std::vector<Pending>& recorded) {
  const uint64_t seq = sure_ ? ledger_.GetStats().durable_seq : ledger_seq_;
  const std::string body = PositionBody(seq);
  std::vector<store::Write> writes;
  for (const Pending& pending : recorded) writes.push_back(store::Write::Remove(pending.object));
  writes.push_back(position_ ? store::Write::Replace(*position_, body)
                             : store::Write::Create(store::kPosition, kPositionId, body));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(committed.status()) || absl::IsUnknown(committed.status())) position_read_ = false;
  if (!committed.ok()) co_return committed.status();
  ledger_seq_ = seq;
  position_ = store::Object{store::kPosition, kPositionId, committed->last, body};
  co_return co_await follower_.CatchUp();
}

}  // namespace gateway
