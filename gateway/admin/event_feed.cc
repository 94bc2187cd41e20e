#include "gateway/admin/event_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "gateway/admin/leader_calls.h"
#include "gateway/admin/overview.h"
#include "gateway/admin/scope.h"
#include "gateway/net/clock.h"

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;
using Audience = FeedEvent::Audience;

// How late an event may be. Followers look for themselves, so that an event costs no more than its place.
constexpr conf::Duration kPoll = std::chrono::milliseconds(200);
constexpr size_t kMostBatch = 64 * 1024;  // bytes at once

ordered_json OrNull(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

// The roles and rights decide what a caller sees.
std::string ScopeOf(const Authority& authority) {
  std::string key = authority.InWords();
  for (const plugins::auth::Right right : authority.rights()) {
    key += ' ';
    key += RightName(right);
  }
  return key;
}

struct Subject {
  std::string_view list;  // that it is an entry of
  Audience audience;
  Permission needs;
};

Subject SubjectOf(std::string_view action) {
  if (action.starts_with("job.")) return {"jobs", Audience::kTenant, Permission::kSeeJobs};
  if (action.starts_with("replica.")) return {"replicas", Audience::kModel, Permission::kSeeModels};
  if (action.starts_with("model.")) return {"models", Audience::kModel, Permission::kSeeModels};
  if (action.starts_with("node.") || action.starts_with("device."))
    return {"nodes", Audience::kAll, Permission::kSeeCluster};
  return {"replicas", Audience::kTenant, Permission::kSeeReplicas};
}

std::string ReasonIn(const ordered_json& detail) {
  for (const char* const name : {"reason", "why"}) {
    if (const auto at = detail.find(name); at != detail.end() && at->is_string())
      return at->get<std::string>();
  }
  return {};
}

}  // namespace

// Keeps what those with the same roles see.
class EventFeed::Place {
 public:
  Place(EventFeed& feed, std::string roles) : feed_(feed), roles_(std::move(roles)) {
    ++feed_.scopes_[roles_].users;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (--feed_.scopes_[roles_].users == 0) feed_.scopes_.erase(roles_);
  }

  Scope& scope() const { return feed_.scopes_[roles_]; }
  const std::string& roles() const { return roles_; }

 private:
  EventFeed& feed_;
  const std::string roles_;
};

// A follower among those of its caller.
class EventFeed::Follower {
 public:
  Follower(EventFeed& feed, std::string caller) : feed_(feed), caller_(std::move(caller)) {
    ++feed_.followers_;
    ++feed_.of_callers_[caller_];
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower() {
    --feed_.followers_;
    if (--feed_.of_callers_[caller_] == 0) feed_.of_callers_.erase(caller_);
  }

 private:
  EventFeed& feed_;
  const std::string caller_;
};

EventFeed::EventFeed(net::Loop& loop, const Operations& operations, conf::TimePoint now)
    : loop_(loop),
      operations_(operations),
      ring_(fmt::format("{:x}", static_cast<uint64_t>(conf::ToUnixMicros(now))), kMostEvents) {}

void EventFeed::Note(const ledger::Event& event) {
  if (event.action.starts_with("session.")) return Changed("sessions");
  if (event.kind != ledger::Kind::kAction) return;
  const Subject subject = SubjectOf(event.action);
  const ordered_json detail = conf::ParseOrderedJson(event.detail);
  std::string model = subject.list == "models" ? event.subject : std::string();
  if (detail.is_object() && detail.contains("model") && detail["model"].is_string())
    model = detail["model"].get<std::string>();
  const conf::TimePoint at = event.time_us == 0 ? net::Now() : conf::FromUnixMicros(event.time_us);
  ring_.Add({.type = "action",
             .data = conf::DumpJson(
                 ordered_json{{"at", conf::FormatTime(at)},
                              {"action", event.action},
                              {"actor", event.actor},
                              {"subject", event.subject},
                              {"tenant", OrNull(event.tenant)},
                              {"model", OrNull(model)},
                              {"reason", detail.is_object() ? ReasonIn(detail) : std::string()}}),
             .needs = subject.needs,
             .audience = subject.audience,
             .tenant = event.tenant,
             .model = model});
  Changed(subject.list, subject.audience, subject.needs, event.subject,
          subject.audience == Audience::kModel ? model : event.tenant);
}

void EventFeed::Changed(std::string_view kind, Audience audience, Permission needs, const std::string& id,
                        const std::string& owner) {
  ring_.Add({.type = "changed",
             .data = conf::DumpJson(ordered_json{{"kind", kind}, {"id", OrNull(id)}}),
             .needs = needs,
             .audience = audience,
             .tenant = audience == Audience::kTenant ? owner : std::string(),
             .model = audience == Audience::kModel ? owner : std::string()});
}

bool EventFeed::Sees(const Call& call, const FeedEvent& event) const {
  switch (event.audience) {
    case Audience::kTenant:
      return call.caller.authority.MayFor(event.needs, event.tenant);
    case Audience::kModel:
      return call.caller.authority.May(event.needs) && VisibleModels(call).Has(event.model);
    case Audience::kAll:
      break;
  }
  return call.caller.authority.May(event.needs);
}

std::string EventFeed::Shown(const Call& call, std::string data) const {
  if (!call.caller.authority.MayEverywhere(Permission::kReadOutput)) HideOutput(data);
  HideOthers(operations_, call, data);
  return data;
}

void EventFeed::Update(Scope& scope, const Call& call) const {
  if (call.now - scope.computed < kOverviewEvery && !scope.overview.empty()) return;
  scope.computed = call.now;
  answers::Overview overview = OverviewOf(operations_, call);
  std::string whole = conf::ToJsonText(overview);
  overview.at = {};
  std::string content = conf::ToJsonText(overview);
  if (content == scope.content) return;
  scope.content = std::move(content);
  scope.overview = Shown(call, std::move(whole));
  ++scope.version;
}

void EventFeed::UpdateFrom(LeaderCalls& leader, const Place& place, const Call& call) {
  Scope& scope = scopes_[place.roles()];
  if (scope.asking || (call.now - scope.computed < kAskLeaderEvery && !scope.overview.empty())) return;
  scope.asking = true;
  scope.computed = call.now;
  loop_.tasks.Spawn(Ask(leader, place.roles(), call.request_id, call.caller));
}

// A task of its own: the answer may take seconds, and followers hear of other events meanwhile.
net::Task<void> EventFeed::Ask(LeaderCalls& leader, std::string roles, std::string request, Caller caller) {
  const Place place(*this, std::move(roles));
  Answer answer = co_await leader.Pass({.request_id = std::move(request),
                                        .method = net::http::Verb::get,
                                        .path = "/admin/v1/overview",
                                        .query = {},
                                        .body = {},
                                        .caller = std::move(caller)});
  Scope& scope = place.scope();
  scope.asking = false;
  if (answer.status != 200) co_return;  // what was shown last stays
  while (answer.body.ends_with('\n')) answer.body.pop_back();
  ordered_json content = conf::ParseOrderedJson(answer.body);
  if (!content.is_object()) co_return;
  content.erase("at");
  std::string text = conf::DumpJson(content);
  if (text == scope.content) co_return;
  scope.content = std::move(text);
  scope.overview = std::move(answer.body);
  ++scope.version;
}

std::string EventFeed::Render(std::string_view type, uint64_t number, std::string_view data) const {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", ring_.IdOf(number), type, data);
}

std::optional<api::ApiError> EventFeed::WhyFull(const std::string& caller) const {
  const auto of = of_callers_.find(caller);
  if (of != of_callers_.end() && of->second >= kMostOfCaller) {
    return api::Make(
        api::Code::kConnectionLimit,
        fmt::format("this caller follows the events {} times already; end one first", of->second));
  }
  if (closed_ || followers_ >= kMostFollowers) {
    return api::Make(api::Code::kOverloaded,
                     closed_
                         ? "the gateway is stopping"
                         : fmt::format("{} followers read the events already; try again later", followers_));
  }
  return std::nullopt;
}

net::Task<void> EventFeed::Follow(net::http::Exchange& exchange, net::http::Headers headers, Call call,
                                  std::string after, Identified identify) {
  const Follower follower(*this, call.caller.actor);
  const Place place(*this, ScopeOf(call.caller.authority));
  exchange.OnGone([] {});
  if (exchange.head().method == net::http::Verb::head) {
    co_await exchange.Send(200, headers, {});
    co_return;
  }
  if (!co_await exchange.Start(200, headers)) co_return;
  net::Sleep pause(loop_.watchdog);
  std::string out = "retry: 2000\n\n";
  uint64_t seen = ring_.last();
  if (const std::optional<uint64_t> position = ring_.PositionOf(after)) {
    seen = *position;
  } else if (!after.empty()) {
    out += Render("reset", seen, R"({"reason":"the events after this id are gone; read all again"})");
  }
  uint64_t shown = 0;  // version of the overview
  conf::TimePoint sent = net::Now();
  conf::TimePoint checked = sent;
  while (!exchange.gone()) {
    call.now = net::Now();
    call.runtime = operations_.runtime();
    if (call.now - checked >= kCheckEvery) {
      checked = call.now;
      const std::optional<Caller> caller = identify(call.now);
      if (!caller || ScopeOf(caller->authority) != place.roles()) break;
    }
    if (!ring_.HasAllAfter(seen)) break;  // it reads too slowly
    while (seen < ring_.last() && out.size() < kMostBatch) {
      const FeedEvent& event = ring_.At(++seen);
      if (Sees(call, event)) out += Render(event.type, seen, Shown(call, event.data));
    }
    if (LeaderCalls* const leader = operations_.leader_calls()) {
      UpdateFrom(*leader, place, call);
    } else {
      Update(place.scope(), call);
    }
    if (seen == ring_.last() && place.scope().version != shown) {
      shown = place.scope().version;
      out += Render("overview", seen, place.scope().overview);
    }
    if (out.empty() && call.now - sent >= kHeartbeat) out = ": heartbeat\n\n";
    if (out.empty()) {
      if (closed_) break;
      co_await pause.For(kPoll);
      continue;
    }
    if (!co_await exchange.Write(out)) co_return;
    out.clear();
    sent = net::Now();
  }
  co_await exchange.Finish();
}

}  // namespace gateway::admin
