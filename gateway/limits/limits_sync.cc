#include "gateway/limits/limits_sync.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "conf/hex.h"
#include "conf/text.h"
#include "conf/words.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "router/limits/share_script.h"

namespace gateway {
namespace {

using router::limits::Claim;
using router::limits::LimitRef;
using router::limits::LimitSpec;
using router::limits::LimitState;
using router::limits::OnLoss;
using router::limits::ShareGrant;
using router::limits::ShareHolder;
using router::limits::SharePolicy;

// The most claims in one write.
constexpr size_t kClaimsAtOnce = 512;

// An idle limit claims this many times per lease.
constexpr int kIdleClaims = 4;
// A start waits for shares that other gateways must give up first. Idle ones do so with their second claim; one more, since
// a claim may come late.
constexpr int kAwaitedClaims = 3;
constexpr conf::Duration kAwaitShares = std::chrono::seconds(1);  // and so much longer

const std::string& ScriptSha() {
  static const std::string hex = [] {
    std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
    SHA1(reinterpret_cast<const unsigned char*>(router::limits::kGrantScript.data()),
         router::limits::kGrantScript.size(), digest.data());
    return conf::Hex(digest);
  }();
  return hex;
}

std::string Millis(conf::Duration d) {
  return fmt::format("{}", std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

net::RedisCommand ClaimCommand(const std::string& key, const Claim& claim) {
  return {"EVALSHA",
          ScriptSha(),
          "1",
          key,
          claim.gateway,
          fmt::format("{}", claim.seq),
          claim.first ? "1" : "0",
          fmt::format("{}", claim.capacity),
          fmt::format("{}", claim.held),
          fmt::format("{}", claim.want),
          Millis(claim.ttl),
          Millis(claim.linger),
          Millis(claim.recovery),
          "0"};
}

// Returns what is not used up: the claim wants nothing, and because its capacity is no more than what is held, the
// store can grant nothing.
void MakeLast(Claim& claim, const LimitRef& limit, conf::TimePoint now) {
  claim.held = limit.SetShare(0, now);
  claim.want = 0;
  claim.capacity = claim.held;
}

bool ReadGrant(const net::RedisReply& reply, ShareGrant& grant) {
  if (reply.elements.size() != 6) return false;
  for (const net::RedisReply& element : reply.elements) {
    if (element.type != net::RedisReply::Type::kInteger) return false;
  }
  grant.accepted = reply.elements[0].integer != 0;
  grant.share = reply.elements[1].integer;
  grant.target = reply.elements[2].integer;
  grant.held = reply.elements[3].integer;
  grant.gateways = reply.elements[4].integer;
  grant.recovering = reply.elements[5].integer != 0;
  return true;
}

}  // namespace

constexpr conf::Word<SharingState> kSharingStates[] = {{"starting", SharingState::kStarting},
                                                       {"shared", SharingState::kShared},
                                                       {"recovering", SharingState::kRecovering},
                                                       {"keeping-shares", SharingState::kKeepingShares},
                                                       {"failed-closed", SharingState::kFailedClosed}};

std::string_view SharingStateName(SharingState state) {
  return conf::WordOf(kSharingStates, state);
}

struct LimitsSync::Entry {
  Entry(const std::string& gateway, LimitRef ref, const SharePolicy& policy, conf::TimePoint now)
      : limit(ref),
        holder(gateway, std::move(ref), policy, static_cast<uint64_t>(conf::ToUnixMicros(now)), now) {}

  LimitRef limit;
  ShareHolder holder;
  // At the last claim.
  conf::TimePoint claimed_at;
  int64_t capacity = 0;
  uint64_t refusals = 0;
  // From the last answer.
  int64_t gateways = 0;
  bool recovering = false;
};

LimitsSync::LimitsSync(net::Loop& loop, net::RedisClient& redis, const router::limits::LimitTree& tree,
                       Options options)
    : loop_(loop),
      redis_(redis),
      tree_(tree),
      options_(std::move(options)),
      process_(fmt::format("{}:{}", options_.instance, conf::ToUnixMicros(net::Now()))),
      jitter_(options_.interval, options_.interval, options_.seed),
      begun_(net::Now()),
      pause_(loop.watchdog) {
  status_.since = begun_;
  Refresh();
  loop_.tasks.Spawn(Run());
}

// A limit is identified by the address of its spec, which stays valid while an entry holds the limit.
void LimitsSync::Refresh() {
  std::unordered_map<const LimitSpec*, std::shared_ptr<Entry>> known;
  for (auto& entry : entries_) known.emplace(&entry->limit.spec(), entry);
  const conf::TimePoint now = net::Now();
  entries_.clear();
  for (const LimitRef& limit : tree_.Limits()) {
    if (const auto it = known.find(&limit.spec()); it != known.end()) {
      entries_.push_back(it->second);
      continue;
    }
    SharePolicy policy;
    policy.ttl = options_.lease;
    policy.recovery = options_.lease;
    policy.stream_linger = options_.stream_linger;
    policy.on_loss = options_.on_loss;
    if (options_.gateways > 0) policy.initial_share = limit.State(now).capacity / options_.gateways;
    policy.asks_first = !has_begun_.is_set();
    // A new process does not know what the old one admitted, except for budgets, which the ledger restores.
    const bool period = ShapeOf(limit.spec().dimension) == router::limits::Shape::kPeriod;
    entries_.push_back(std::make_shared<Entry>(period ? options_.instance : process_, limit, policy, now));
  }
  const std::scoped_lock lock(mutex_);
  status_.limits = entries_.size();
}

SharingStatus LimitsSync::status() const {
  const std::scoped_lock lock(mutex_);
  return status_;
}

void LimitsSync::Close() {
  if (std::exchange(closed_, true)) return;
  pause_.Cancel();
}

net::Task<void> LimitsSync::Stop() {
  Close();
  co_await ended_.Wait();
}

// Its last step must not touch this object: the task that waits for the end may destroy it.
net::Task<void> LimitsSync::Run() {
  co_await Keep();
  has_begun_.Set();
  co_await ReturnShares();
  ended_.Set();
}

net::Task<void> LimitsSync::Keep() {
  while (!closed_) {
    const conf::TimePoint now = net::Now();
    const bool full = now >= next_round_;
    if (full) {
      next_round_ = now + jitter_.Jitter(options_.interval * 4 / 5, options_.interval * 6 / 5);
      Refresh();
    }
    Entries due = Due(full, now);
    if (!due.empty()) {
      {
        const std::scoped_lock lock(mutex_);
        ++(full ? status_.rounds : status_.early_rounds);
      }
      co_await Round(std::move(due));
    }
    Judge(net::Now());
    const conf::Duration patience = kAwaitedClaims * options_.lease / kIdleClaims + kAwaitShares;
    if (HaveShares() || status().failed_rounds > 0 || net::Now() >= begun_ + patience) has_begun_.Set();
    if (closed_) break;
    co_await pause_.For(options_.early_interval);
  }
}

bool LimitsSync::HaveShares() const {
  return std::ranges::all_of(entries_, [](const auto& entry) {
    const bool has_none_to_give = entry->gateways > 0 && entry->capacity == 0;
    return entry->holder.share() > 0 || has_none_to_give;
  });
}

net::Task<bool> LimitsSync::AwaitShares() {
  co_await has_begun_.Wait();
  co_return HaveShares() && status().failed_rounds == 0;
}

LimitsSync::Entries LimitsSync::Due(bool full, conf::TimePoint now) {
  Entries due;
  for (const auto& entry : entries_) {
    if (!full && entry->holder.share() >= entry->capacity) continue;
    const LimitState state = entry->limit.State(now);
    const bool refused = state.refusals != entry->refusals;
    const bool idle = state.used == 0 && !refused;
    if (full ? !idle || now >= entry->claimed_at + options_.lease / kIdleClaims
             : refused && state.effective < state.capacity) {
      entry->refusals = state.refusals;
      due.push_back(entry);
    }
  }
  return due;
}

net::Task<void> LimitsSync::Round(Entries due) {
  const conf::TimePoint start = net::Now();
  absl::Status status;
  for (size_t at = 0; at < due.size() && status.ok() && !closed_; at += kClaimsAtOnce) {
    status = co_await ClaimFor(std::span(due).subspan(at, std::min(kClaimsAtOnce, due.size() - at)));
  }
  const conf::TimePoint now = net::Now();
  const std::scoped_lock lock(mutex_);
  if (status.ok()) {
    status_.answered_at = now;
    status_.round_trip = now - start;
    status_.reason.clear();
  } else {
    ++status_.failed_rounds;
    status_.reason = conf::Std(status.message());
  }
}

net::Task<void> LimitsSync::ReturnShares() {
  returning_ = true;
  const conf::TimePoint until = net::Now() + options_.lease;
  const Entries all = entries_;
  absl::Status status;
  for (size_t at = 0; at < all.size() && status.ok(); at += kClaimsAtOnce) {
    status = net::Now() >= until
                 ? absl::DeadlineExceededError("returning all shares took longer than a lease")
                 : co_await ClaimFor(std::span(all).subspan(at, std::min(kClaimsAtOnce, all.size() - at)));
  }
  if (!status.ok()) {
    log::Warn("shares of limits could not be returned: other gateways get them when the leases end",
              {{"why", conf::Std(status.message())}});
  }
}

net::Task<absl::Status> LimitsSync::ClaimFor(std::span<const std::shared_ptr<Entry>> due) {
  // Without a server, the demand stays counted for the next claim that can be sent.
  if (redis_.state().breaker != net::RedisClient::Breaker::kClosed) {
    script_loaded_ = false;
    for (const auto& entry : entries_) entry->holder.OnNoAnswer(net::Now());
    // The reason names the server.
    const std::string& why = redis_.state().reason;
    co_return absl::UnavailableError(
        why.empty() ? fmt::format("redis {}: not connected yet", redis_.address()) : why);
  }
  const conf::TimePoint now = net::Now();
  std::vector<net::RedisCommand> commands;
  commands.reserve(due.size() + 1);
  const bool load = !script_loaded_;
  if (load) {
    commands.push_back({"SCRIPT", "LOAD", std::string(router::limits::kGrantScript)});
  }
  std::vector<uint64_t> seqs;
  seqs.reserve(due.size());
  for (const auto& entry : due) {
    Claim claim = entry->holder.Next(now);
    if (returning_) MakeLast(claim, entry->limit, now);
    entry->claimed_at = now;
    entry->capacity = claim.capacity;
    seqs.push_back(claim.seq);
    commands.push_back(ClaimCommand(options_.prefix + "limit:" + entry->holder.StoreKey(now), claim));
  }
  const std::vector<net::RedisClient::Reply> replies = co_await redis_.Pipeline(std::move(commands));

  absl::Status status;
  if (load) {
    script_loaded_ = replies.front().ok() && !replies.front()->is_error();
    if (replies.front().ok() && replies.front()->is_error()) {
      status = absl::UnavailableError(
          fmt::format("redis {}: SCRIPT LOAD was refused: {}", redis_.address(), replies.front()->text));
    }
  }
  const conf::TimePoint answered = net::Now();
  for (size_t i = 0; i < due.size(); ++i) {
    status.Update(TakeAnswer(*due[i], seqs[i], replies[i + (load ? 1 : 0)], answered));
  }
  co_return status;
}

absl::Status LimitsSync::TakeAnswer(Entry& entry, uint64_t seq, const net::RedisClient::Reply& reply,
                                    conf::TimePoint now) {
  if (!reply.ok()) {
    script_loaded_ = false;
    entry.holder.OnNoAnswer(now);
    return reply.status();
  }
  ShareGrant grant;
  if (reply->is_error()) {
    // A restarted server has lost the script: the next round loads it again.
    script_loaded_ = false;
    entry.holder.OnNoAnswer(now);
    return absl::UnavailableError(fmt::format("redis {}: the claim for {} was refused: {}", redis_.address(),
                                              entry.limit.Id(), reply->text));
  }
  if (!ReadGrant(*reply, grant)) {
    entry.holder.OnNoAnswer(now);
    return absl::InternalError(fmt::format("redis {}: the answer to the claim for {} is not six integers",
                                           redis_.address(), entry.limit.Id()));
  }
  const bool counts = entry.holder.Apply(grant, seq, now);
  if (counts) {
    entry.gateways = grant.gateways;
    entry.recovering = grant.recovering;
  }
  const std::scoped_lock lock(mutex_);
  ++(counts ? status_.claims : status_.late_claims);
  return absl::OkStatus();
}

void LimitsSync::Judge(conf::TimePoint now) {
  bool stale = false;
  bool recovering = false;
  int64_t gateways = 0;
  for (const auto& entry : entries_) {
    entry->holder.Tick(now);
    stale = stale || entry->holder.Stale(now);
    recovering = recovering || entry->recovering;
    gateways = std::max(gateways, entry->gateways);
  }
  SharingStatus changed;
  {
    const std::scoped_lock lock(mutex_);
    status_.gateways = gateways;
    SharingState state = SharingState::kShared;
    if (stale) {
      state = options_.on_loss == OnLoss::kFailClosed ? SharingState::kFailedClosed
                                                      : SharingState::kKeepingShares;
    } else if (status_.claims == 0 && !entries_.empty()) {
      state = SharingState::kStarting;
    } else if (recovering) {
      state = SharingState::kRecovering;
    }
    if (state == status_.state) return;
    status_.state = state;
    status_.since = now;
    changed = status_;
  }
  if (options_.on_change) options_.on_change(changed);
}

}  // namespace gateway
