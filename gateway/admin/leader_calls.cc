#include "gateway/admin/leader_calls.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"

namespace gateway::admin {
namespace {

using net::http::Verb;
using nlohmann::json;
using plugins::auth::Right;
using plugins::auth::Role;

constexpr size_t kMostAnswer = store::kMaxBodyBytes * 3 / 4;  // escaped, it may grow
constexpr conf::Duration kForget = std::chrono::minutes(1);

json Written(const Answer& answer) {
  json out = {
      {"status", answer.status},         {"body", answer.body},      {"content_type", answer.content_type},
      {"request_id", answer.request_id}, {"headers", json::array()}, {"fields", json::array()}};
  for (const api::ErrorHeader& header : answer.headers) out["headers"].push_back({header.name, header.value});
  for (const auto& [name, value] : answer.fields) out["fields"].push_back({name, value});
  return out;
}

Answer ReadAnswer(const json& in) {
  Answer answer;
  answer.status = in.at("status").get<int>();
  answer.body = in.at("body").get<std::string>();
  if (in.at("content_type").get<std::string>() != answer.content_type) answer.content_type = "text/plain";
  answer.request_id = in.at("request_id").get<std::string>();
  // A header's name has no owner of its own: they go among the other fields.
  for (const char* kind : {"headers", "fields"}) {
    for (const json& header : in.at(kind))
      answer.fields.emplace_back(header.at(0).get<std::string>(), header.at(1).get<std::string>());
  }
  return answer;
}

}  // namespace

std::string BodyOf(const PassedCall& call) {
  json roles = json::array();
  for (const RoleOver& over : call.caller.authority.roles())
    roles.push_back({{"role", plugins::auth::RoleName(over.role)}, {"tenant", over.tenant}});
  json rights = json::array();
  for (const Right right : call.caller.authority.rights()) rights.push_back(plugins::auth::RightName(right));
  return conf::DumpJson(json{{"call",
                              {{"request_id", call.request_id},
                               {"post", call.method == Verb::post},
                               {"delete", call.method == Verb::delete_},
                               {"path", call.path},
                               {"query", call.query},
                               {"body", call.body},
                               {"kind", static_cast<int>(call.caller.kind)},
                               {"actor", call.caller.actor},
                               {"name", call.caller.name},
                               {"roles", std::move(roles)},
                               {"rights", std::move(rights)}}}});
}

absl::StatusOr<PassedCall> ReadPassedCall(std::string_view body) {
  PassedCall call;
  try {
    const json in = json::parse(body).at("call");
    call.request_id = in.at("request_id").get<std::string>();
    call.method = in.at("post").get<bool>()   ? Verb::post
                  : in.value("delete", false) ? Verb::delete_
                                              : Verb::get;
    call.path = in.at("path").get<std::string>();
    call.query = in.at("query").get<std::string>();
    call.body = in.at("body").get<std::string>();
    const int kind = in.at("kind").get<int>();
    if (kind < 0 || kind > static_cast<int>(Caller::Kind::kPerson))
      return absl::DataLossError("its caller is of no known kind");
    call.caller.kind = static_cast<Caller::Kind>(kind);
    call.caller.actor = in.at("actor").get<std::string>();
    call.caller.name = in.at("name").get<std::string>();
    std::vector<RoleOver> roles;
    for (const json& over : in.at("roles")) {
      const auto name = over.at("role").get<std::string>();
      const std::optional<Role> role =
          name.empty() ? std::optional(Role::kNone) : plugins::auth::RoleFromName(name);
      if (!role) return absl::DataLossError("its caller has a role that is not known here");
      roles.push_back({*role, over.at("tenant").get<std::string>()});
    }
    std::vector<Right> rights;
    for (const json& name : in.at("rights")) {
      const std::optional<Right> right = plugins::auth::RightFromName(name.get<std::string>());
      if (!right) return absl::DataLossError("its caller has a right that is not known here");
      rights.push_back(*right);
    }
    call.caller.authority = Authority(std::move(roles), std::move(rights));
  } catch (const std::exception& error) {
    return absl::DataLossError(error.what());
  }
  return call;
}

LeaderCalls::LeaderCalls(net::Loop& loop, store::Store& store, Options options)
    : loop_(loop),
      store_(store),
      options_(std::move(options)),
      follower_(loop, store, store::kLeaderCall,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> LeaderCalls::Start() {
  co_return co_await follower_.Start();
}

void LeaderCalls::Stop() {
  stopped_ = true;
  follower_.Stop();
  // Each one that wakes goes on at once, and forgets itself.
  while (!pending_.empty()) {
    Pending& pending = *pending_.begin()->second;
    pending_.erase(pending_.begin());
    pending.sleep.Cancel();
  }
}

net::Task<Answer> LeaderCalls::Pass(PassedCall call) {
  const std::string request = call.request_id;
  if (pending_.size() >= kMostCalls) co_return RefuseCrowded(request);
  const std::string id = fmt::format("{}/{}", options_.name, ++calls_);
  Pending pending(loop_.watchdog);
  pending_.emplace(id, &pending);
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Create(store::kLeaderCall, id, BodyOf(call)));
  const absl::StatusOr<store::Committed> written = co_await store_.Commit(std::move(writes));
  if (written.ok() && pending.body.empty() && !stopped_) co_await pending.sleep.For(kPatience);
  pending_.erase(id);
  if (!written.ok()) {
    co_return Refuse(
        api::Code::kStoreUnavailable,
        fmt::format("another gateway leads and cannot be asked: {}", conf::Std(written.status().message())),
        request);
  }
  loop_.tasks.Spawn(Remove(id, pending.version == 0 ? written->first : pending.version));
  if (!pending.body.empty()) {
    try {
      co_return ReadAnswer(json::parse(pending.body).at("answer"));
    } catch (const std::exception& error) {
      log::Error("the answer of the leading gateway cannot be read", {{"why", error.what()}});
    }
  }
  co_return Refuse(
      api::Code::kStoreUnavailable,
      "the gateway that leads has not answered; check whether it has carried out the call, and try again",
      request);
}

net::Task<void> LeaderCalls::Remove(std::string id, uint64_t version) {
  std::vector<store::Write> writes;
  writes.push_back(
      {.kind = store::kLeaderCall, .id = std::move(id), .replaces = version, .body = std::nullopt});
  (co_await store_.Commit(std::move(writes))).status().IgnoreError();  // else the leader does it later
}

void LeaderCalls::Replace(const std::vector<store::Object>& all) {
  const std::map<std::string, Seen> before = std::exchange(seen_, {});
  for (const store::Object& object : all) {
    const auto known = before.find(object.id);
    const bool same = known != before.end() && known->second.version == object.version;
    // Calls from before this gateway followed are nobody's: whoever made them does not wait any more.
    seen_[object.id] = same ? known->second : Seen{object.version, net::Now()};
  }
}

void LeaderCalls::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      seen_.erase(change.id);
    }
  }
  if (options_.leads()) RemoveOld();
}

void LeaderCalls::Take(const std::string& id, uint64_t version, const std::string& body) {
  seen_[id] = {version, net::Now()};
  const auto mine = pending_.find(id);
  const bool answered = body.starts_with("{\"answer\"");
  if (answered) {
    if (mine == pending_.end()) return;
    mine->second->body = body;
    mine->second->version = version;
    mine->second->sleep.Cancel();
    return;
  }
  if (mine != pending_.end() || !options_.leads() || stopped_) return;
  absl::StatusOr<PassedCall> call = ReadPassedCall(body);
  if (!call.ok()) {
    log::Error("a call of another gateway cannot be read", {{"why", conf::Std(call.status().message())}});
    return;
  }
  loop_.tasks.Spawn(Serve(id, version, *std::move(call)));
}

net::Task<void> LeaderCalls::Serve(std::string id, uint64_t version, PassedCall call) {
  const std::string request = call.request_id;
  Answer answer = co_await options_.serve(std::move(call));
  std::string body = conf::DumpJson(json{{"answer", Written(answer)}});
  if (body.size() > kMostAnswer) {
    answer =
        Refuse(api::Code::kInvalidValue,
               "the answer is too large to be passed between gateways; ask for less with `limit`", request);
    body = conf::DumpJson(json{{"answer", Written(answer)}});
  }
  std::vector<store::Write> writes;
  writes.push_back({.kind = store::kLeaderCall, .id = id, .replaces = version, .body = std::move(body)});
  const absl::Status written = (co_await store_.Commit(std::move(writes))).status();
  if (!written.ok() && !absl::IsAborted(written))
    log::Warn("an answer does not reach the gateway that asked", {{"why", conf::Std(written.message())}});
}

// Of gateways that have ended since.
void LeaderCalls::RemoveOld() {
  const conf::TimePoint now = net::Now();
  for (auto at = seen_.begin(); at != seen_.end();) {
    if (now - at->second.at < kForget) {
      ++at;
      continue;
    }
    loop_.tasks.Spawn(Remove(at->first, at->second.version));
    at = seen_.erase(at);
  }
}

}  // namespace gateway::admin
