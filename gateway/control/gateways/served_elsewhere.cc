#include "gateway/control/gateways/served_elsewhere.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/off_loop.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

using nlohmann::json;

// The bound of a record; names in it may need escapes.
constexpr size_t kMostRecordBytes = store::kMaxBodyBytes / 2;
constexpr size_t kMostNews = 4 * ServedElsewhere::kMostSums;
constexpr size_t kBytesOfSum = 32;  // but for its names

}  // namespace

std::string BodyOf(const ServedRecord& record) {
  json sums = json::array();
  for (const auto& [of, weight] : record.sums) sums.push_back({of.first, of.second, weight});
  return json{{"start", record.start}, {"sums", std::move(sums)}}.dump(-1, ' ', false,
                                                                       json::error_handler_t::replace);
}

absl::StatusOr<ServedRecord> ReadServed(std::string_view gateway, std::string_view body) {
  ServedRecord record;
  try {
    const json in = json::parse(body);
    record.start = in.at("start").get<std::string>();
    for (const json& sum : in.at("sums"))
      record.sums[{sum.at(0).get<std::string>(), sum.at(1).get<std::string>()}] = sum.at(2).get<uint64_t>();
  } catch (const std::exception& error) {
    return absl::DataLossError(conf::Abseil(
        fmt::format("what the gateway {} has served cannot be read: {}", gateway, error.what())));
  }
  return record;
}

ServedElsewhere::ServedElsewhere(net::Loop& loop, store::Store& store, Options options,
                                 std::unique_ptr<MeterLedger> ledger, std::function<bool()> leads)
    : loop_(loop),
      store_(store),
      options_(std::move(options)),
      ledger_(std::move(ledger)),
      leads_(std::move(leads)),
      follower_(loop, store, store::kServed,
                {.replace =
                     [this](const std::vector<store::Object>& all) {
                       std::map<std::string, Told> before = std::exchange(told_, {});
                       for (const store::Object& object : all) {
                         if (const auto known = before.find(object.id); known != before.end())
                           told_.insert(before.extract(known));
                         Take(object.id, object.version, object.body);
                       }
                     },
                 .apply =
                     [this](const std::vector<store::Change>& changes) {
                       for (const store::Change& change : changes) {
                         if (change.body) {
                           Take(change.id, change.number, *change.body);
                         } else {
                           told_.erase(change.id);
                         }
                       }
                     }}),
      own_{.start = options_.start},
      pause_(loop.watchdog) {}

net::Task<absl::Status> ServedElsewhere::Start() {
  if (absl::Status started = co_await follower_.Start(); !started.ok()) co_return started;
  running_ = true;
  loop_.tasks.Spawn(Run());
  co_return absl::OkStatus();
}

void ServedElsewhere::Stop() {
  stopped_ = true;
  pause_.Cancel();
  follower_.Stop();
}

net::Task<void> ServedElsewhere::Run() {
  bool failing = false;
  while (!stopped_) {
    co_await pause_.For(options_.interval);
    if (stopped_ || leads_()) continue;
    const absl::Status told = co_await Tell();
    if (told.ok() == failing) {
      failing = !told.ok();
      if (failing)
        log::Warn("the leader does not get the tokens that this gateway served",
                  {{"why", conf::Std(told.message())}});
    }
  }
  running_ = false;
}

net::Task<absl::Status> ServedElsewhere::Tell() {
  // The present sums are written first: sums that begin anew would lose them.
  if (untold_) {
    if (absl::Status told = co_await Write(); !told.ok() || untold_) co_return told;
  }
  Prune(net::Now());
  if (waiting_.empty()) {
    absl::StatusOr<std::vector<ledger::Served>> served =
        co_await net::OffLoop(loop_, [this] { return ledger_->TakeServed(); });
    if (!served.ok()) co_return served.status();
    waiting_ = *std::move(served);
  }
  AddWaiting();
  if (untold_) co_return co_await Write();
  co_return absl::OkStatus();
}

// As many as one record takes, once in an interval, so that the leader reads each record. Where there is no room
// for the next one, the sums begin anew.
void ServedElsewhere::AddWaiting() {
  while (!waiting_.empty()) {
    ledger::Served& one = waiting_.back();
    if (one.weight > 0) {
      const size_t size = one.tenant.size() + one.replica.size() + kBytesOfSum;
      const auto known = own_.sums.find({one.tenant, one.replica});
      if (known != own_.sums.end()) {
        known->second += one.weight;
      } else {
        if (own_.sums.size() >= kMostSums || bytes_ + size > kMostRecordBytes) {
          if (untold_) return;
          own_ = {.start = fmt::format("{}/{}", options_.start, ++begun_)};
          bytes_ = 0;
        }
        bytes_ += size;
        own_.sums.emplace(std::pair(std::move(one.tenant), std::move(one.replica)), one.weight);
      }
      untold_ = true;
    }
    waiting_.pop_back();
  }
}

// Drops the sums of replicas that were already gone at the last look: by now their last tokens are reported.
void ServedElsewhere::Prune(conf::TimePoint now) {
  if (now < next_prune_) return;
  next_prune_ = now + options_.prune;
  std::set<std::string> gone;
  for (auto at = own_.sums.begin(); at != own_.sums.end();) {
    const auto& [tenant, replica] = at->first;
    if (options_.knows(replica)) {
      ++at;
      continue;
    }
    gone.insert(replica);
    if (!gone_.contains(replica)) {
      ++at;
      continue;
    }
    bytes_ -= tenant.size() + replica.size() + kBytesOfSum;
    at = own_.sums.erase(at);
  }
  gone_ = std::move(gone);
}

net::Task<absl::Status> ServedElsewhere::Write() {
  std::vector<store::Write> writes;
  writes.push_back({.kind = store::kServed, .id = options_.name, .replaces = version_, .body = BodyOf(own_)});
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (committed.ok()) {
    version_ = committed->first;
    untold_ = false;
    co_return absl::OkStatus();
  }
  // A record of an earlier process, or a write whose answer was lost: the next one replaces it.
  if (absl::IsAborted(committed.status()) || absl::IsUnknown(committed.status())) {
    const absl::StatusOr<std::optional<store::Object>> there =
        co_await store_.Get(store::kServed, options_.name);
    if (!there.ok()) co_return there.status();
    version_ = *there ? (*there)->version : 0;
    co_return absl::OkStatus();
  }
  co_return committed.status();
}

void ServedElsewhere::Take(const std::string& gateway, uint64_t version, const std::string& body) {
  if (gateway == options_.name || (!told_.contains(gateway) && told_.size() >= kMostGateways)) return;
  absl::StatusOr<ServedRecord> record = ReadServed(gateway, body);
  if (!record.ok()) {
    log::Warn("what a gateway has served is skipped", {{"why", conf::Std(record.status().message())}});
    return;
  }
  Told& told = told_[gateway];
  // At once, since the next record may have begun anew.
  const bool same = told.record.start == record->start;
  for (const auto& [of, weight] : record->sums) {
    if (!leads_()) break;
    const auto known = same ? told.record.sums.find(of) : told.record.sums.end();
    const uint64_t before = known == told.record.sums.end() ? 0 : known->second;
    if (weight <= before) continue;
    if (told.news.size() < kMostNews || told.news.contains(of)) told.news[of] += weight - before;
  }
  told.version = version;
  told.record = *std::move(record);
}

net::Task<void> ServedElsewhere::RemoveGone(uint64_t epoch, std::set<std::string> known) {
  std::vector<store::Write> writes;
  for (const auto& [gateway, told] : told_) {
    if (!known.contains(gateway))
      writes.push_back(
          {.kind = store::kServed, .id = gateway, .replaces = told.version, .body = std::nullopt});
  }
  if (!writes.empty()) (co_await store_.Commit(std::move(writes), epoch)).status().IgnoreError();
}

void ServedElsewhere::BeginTerm() {
  for (auto& [gateway, told] : told_) told.news.clear();
}

std::vector<ledger::Served> ServedElsewhere::TakeNew() {
  std::vector<ledger::Served> served;
  for (auto& [gateway, told] : told_) {
    for (const auto& [of, weight] : std::exchange(told.news, {}))
      served.push_back({of.first, of.second, weight});
  }
  return served;
}

}  // namespace gateway::control
