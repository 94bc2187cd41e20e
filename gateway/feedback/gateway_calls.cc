#include "gateway/feedback/gateway_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "conf/text.h"
#include "gateway/ledger/request_id.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"

namespace gateway::feedback {
namespace {

Reply RefusedCall(api::Code code, std::string message) {
  return {.error = api::Make(code, std::move(message))};
}

Reply StoppingCall() {
  return RefusedCall(api::Code::kDraining, "this gateway is shutting down; send the request again");
}

Reply AwayReply(std::string_view gateway) {
  return RefusedCall(
      api::Code::kStoreUnavailable,
      fmt::format("the gateway {}, which served the request, is away; try again when it is back", gateway));
}

const std::string& RequestOf(const Call& call) {
  return call.given ? call.given->request : call.request;
}

bool IsMissing(const Reply& reply) {
  return reply.error && reply.error->code == api::Info(api::Code::kNotFound).name;
}

}  // namespace

class GatewayCalls::Place {
 public:
  Place(GatewayCalls& calls, std::string tenant) : calls_(calls), tenant_(std::move(tenant)) {
    ++calls_.under_way_;
    ++calls_.of_tenant_[tenant_];
  }
  ~Place() {
    --calls_.under_way_;
    const auto found = calls_.of_tenant_.find(tenant_);
    if (--found->second == 0) calls_.of_tenant_.erase(found);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  GatewayCalls& calls_;
  const std::string tenant_;
};

GatewayCalls::GatewayCalls(net::Loop& loop, store::Store& store, const BoxKey& key, Options options)
    : Alarm(loop.watchdog),
      loop_(loop),
      store_(store),
      key_(key),
      options_(std::move(options)),
      follower_(loop, store, store::kFeedbackCall,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> GatewayCalls::Start() {
  co_return co_await follower_.Start();
}

void GatewayCalls::Stop() {
  GiveUp();
  stopped_ = true;
  Clear();
  follower_.Stop();
}

void GatewayCalls::GiveUp() {
  given_up_ = true;
  // Each one that wakes goes on at once, and forgets itself.
  while (!pending_.empty()) {
    Pending& pending = *pending_.begin()->second;
    pending_.erase(pending_.begin());
    pending.sleep.Cancel();
  }
}

net::Task<Reply> GatewayCalls::Pass(Call call, Reply refused) {
  if (!ledger::RequestTag(RequestOf(call))) co_return refused;
  const std::string& tenant = call.principal->tenant;
  const auto mine = of_tenant_.find(tenant);
  if (mine != of_tenant_.end() && mine->second >= kMostOfTenant) {
    co_return RefusedCall(
        api::Code::kConcurrencyLimit,
        fmt::format(
            "{} calls of the tenant's feedback wait for other gateways already; try again in a moment",
            kMostOfTenant));
  }
  if (under_way_ >= kMostCalls) {
    co_return RefusedCall(
        api::Code::kOverloaded,
        "too many calls of feedback wait for other gateways already; try again in a moment");
  }
  const Place place(*this, tenant);
  co_return co_await PassToOthers(call, std::move(refused));
}

net::Task<Reply> GatewayCalls::PassToOthers(const Call& call, Reply refused) {
  const std::optional<uint16_t> tag = ledger::RequestTag(RequestOf(call));
  const auto has_tag = [&tag](const OtherGateway& other) {
    return !other.id.empty() && ledger::TagOfGateway(other.id) == tag;
  };
  std::set<std::string> asked;
  // A gateway of the tag that cannot answer may be the one that served the request.
  std::optional<Reply> failed;
  const std::vector<OtherGateway> others = options_.others();
  const auto lives = [&others](const std::string& id) {
    return std::ranges::any_of(others, [&](const OtherGateway& one) { return one.live && one.id == id; });
  };
  for (const OtherGateway& other : others) {
    if (!has_tag(other)) continue;
    if (!other.live && lives(other.id)) continue;  // its former name
    asked.insert(other.id);
    if (other.live && other.public_key.empty()) continue;  // of an earlier version: its ids have no tag
    Reply reply = other.live ? co_await Ask(other, call) : AwayReply(other.name);
    if (!reply.error) co_return reply;
    if (!IsMissing(reply)) failed = std::move(reply);
  }
  if (failed) co_return *std::move(failed);
  const std::vector<OtherGateway> earlier = co_await options_.earlier();
  for (const OtherGateway& other : earlier) {
    if (has_tag(other) && !asked.contains(other.id)) co_return AwayReply(other.name);
  }
  co_return refused;
}

net::Task<Reply> GatewayCalls::Ask(const OtherGateway& other, const Call& call) {
  if (given_up_) co_return StoppingCall();
  std::optional<std::string> body = BodyOfCall(call, other.public_key, key_.public_half());
  if (!body) {
    log::Error("the key of another gateway cannot be used", {{"gateway", other.name}});
    co_return AwayReply(other.name);
  }
  const std::string id = fmt::format("{}/{}", options_.name, ++calls_);
  Pending pending(loop_.watchdog);
  pending_.emplace(id, &pending);
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Create(store::kFeedbackCall, id, *std::move(body)));
  const absl::StatusOr<store::Committed> written = co_await store_.Commit(std::move(writes));
  if (written.ok() && pending.sealed.empty() && !given_up_) co_await pending.sleep.For(options_.patience);
  pending_.erase(id);
  if (!written.ok()) {
    log::Warn("feedback cannot be passed to the gateway that served the request",
              {{"gateway", other.name}, {"why", conf::Std(written.status().message())}});
    co_return RefusedCall(
        api::Code::kStoreUnavailable,
        fmt::format("the gateway {}, which served the request, cannot be asked now; try again", other.name));
  }
  loop_.tasks.Spawn(Remove(id, pending.version == 0 ? written->first : pending.version));
  if (pending.sealed.empty()) {
    co_return given_up_
        ? StoppingCall()
        : RefusedCall(api::Code::kStoreUnavailable,
                      fmt::format("the gateway {}, which served the request, has not answered; "
                                  "try again: repeating feedback does no harm",
                                  other.name));
  }
  absl::StatusOr<Reply> reply = OpenAnswer(key_, pending.sealed);
  if (reply.ok()) co_return *std::move(reply);
  log::Error("the answer of another gateway cannot be read",
             {{"gateway", other.name}, {"why", conf::Std(reply.status().message())}});
  co_return RefusedCall(
      api::Code::kStoreUnavailable,
      fmt::format("the answer of the gateway {}, which served the request, cannot be read; try again",
                  other.name));
}

net::Task<void> GatewayCalls::Remove(std::string id, uint64_t version) {
  std::vector<store::Write> writes;
  writes.push_back(
      {.kind = store::kFeedbackCall, .id = std::move(id), .replaces = version, .body = std::nullopt});
  (co_await store_.Commit(std::move(writes))).status().IgnoreError();  // else it is removed when it is old
}

void GatewayCalls::Replace(const std::vector<store::Object>& all) {
  const std::map<std::string, Seen> before = std::exchange(seen_, {});
  for (const store::Object& object : all) {
    const auto known = before.find(object.id);
    const bool same = known != before.end() && known->second.version == object.version;
    if (same) {
      seen_[object.id] = known->second;
    } else {
      Take(object.id, object.version, object.body);
    }
  }
  if (!seen_.empty() && !armed() && !stopped_) SetAfter(options_.forget);
}

void GatewayCalls::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      seen_.erase(change.id);
    }
  }
  if (!seen_.empty() && !armed() && !stopped_) SetAfter(options_.forget);
}

void GatewayCalls::Take(const std::string& id, uint64_t version, const std::string& body) {
  seen_[id] = {version, net::Now()};
  if (stopped_) return;
  absl::StatusOr<PassedBody> passed = ReadPassedBody(body);
  if (!passed.ok()) {
    log::Error("a passed call for feedback cannot be read", {{"why", conf::Std(passed.status().message())}});
    return;
  }
  if (passed->to != key_.public_half()) return;
  if (passed->answer) {
    const auto mine = pending_.find(id);
    if (mine == pending_.end()) return;  // given up meanwhile
    mine->second->sealed = std::move(passed->sealed);
    mine->second->version = version;
    mine->second->sleep.Cancel();
    return;
  }
  absl::StatusOr<PassedCall> call = OpenCall(key_, passed->sealed);
  if (!call.ok()) {
    log::Error("a call for feedback of another gateway cannot be read",
               {{"why", conf::Std(call.status().message())}});
    return;
  }
  loop_.tasks.Spawn(Serve(id, version, *std::move(call)));
}

net::Task<void> GatewayCalls::Serve(std::string id, uint64_t version, PassedCall passed) {
  net::Event done;
  Reply reply;
  options_.serve(std::move(passed.call), [this, &done, &reply](Reply given) {
    // On any thread; this frame waits for the post.
    loop_.Post([&done, &reply, given = std::move(given)] {
      reply = given;
      done.Set();
    });
  });
  co_await done.Wait();
  std::optional<std::string> body = BodyOfAnswer(reply, passed.reply_to);
  if (body && body->size() > store::kMaxBodyBytes) {
    body = BodyOfAnswer(
        RefusedCall(
            api::Code::kInvalidValue,
            "the comments and corrections on this request are together too large to be passed between "
            "gateways"),
        passed.reply_to);
  }
  if (!body) {
    log::Error("a call for feedback of another gateway has no key for the answer", {});
    co_return;
  }
  std::vector<store::Write> writes;
  writes.push_back(
      {.kind = store::kFeedbackCall, .id = std::move(id), .replaces = version, .body = *std::move(body)});
  const absl::Status written = (co_await store_.Commit(std::move(writes))).status();
  if (!written.ok() && !absl::IsAborted(written))
    log::Warn("an answer does not reach the gateway that asked", {{"why", conf::Std(written.message())}});
}

// Removes what gateways have left that have ended since. Each gateway tries; the first one succeeds.
void GatewayCalls::OnAlarm() {
  const conf::TimePoint now = net::Now();
  std::vector<std::pair<std::string, uint64_t>> old;
  std::optional<conf::TimePoint> next;
  for (auto& [id, seen] : seen_) {
    if (now - seen.at >= options_.forget) {
      old.emplace_back(id, seen.version);
      seen.at = now;  // tried again if it stays
    }
    next = std::min(next.value_or(seen.at), seen.at);
  }
  if (next && !stopped_) Set(*next + options_.forget);
  for (auto& [id, version] : old) loop_.tasks.Spawn(Remove(std::move(id), version));
}

}  // namespace gateway::feedback
