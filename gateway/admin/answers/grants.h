// Answers of the admin API about members, grants and requests.
#pragma once

#include <array>
#include <string_view>

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct TenantMember {
  static constexpr std::string_view kSchema = "TenantMember";

  std::string id = {};      // TENANT|WHO, for pages
  std::string tenant = {};  // path
  std::string who = {};     // the id of a person, or an e-mail address
  std::string_view role = {};
  std::string added_by = {};
  Time added = {};
};

template <class O>
constexpr void Bind(O& o, TenantMember& member) {
  o.Required("id", member.id);
  o.Required("tenant", member.tenant);
  o.Required("who", member.who);
  o.Required("role", member.role);
  o.Required("added_by", member.added_by);
  o.Required("added", member.added);
}

struct RemovedTenant {
  static constexpr std::string_view kSchema = "RemovedTenant";

  std::string path = {};
  uint64_t revoked_keys = 0;
};

template <class O>
constexpr void Bind(O& o, RemovedTenant& removed) {
  o.Required("path", removed.path);
  o.Required("revoked_keys", removed.revoked_keys);
}

struct GrantedDevices {
  static constexpr std::string_view kSchema = "GrantedDevices";

  std::string kind = {};
  uint32_t count = 0;
};

template <class O>
constexpr void Bind(O& o, GrantedDevices& devices) {
  o.Required("kind", devices.kind);
  o.Required("count", devices.count);
}

struct RequestComment {
  static constexpr std::string_view kSchema = "RequestComment";

  std::string by = {};
  Time at = {};
  std::string text = {};
};

template <class O>
constexpr void Bind(O& o, RequestComment& comment) {
  o.Required("by", comment.by);
  o.Required("at", comment.at);
  o.Required("text", comment.text);
}

// What the dates of a grant say of it now.
inline constexpr std::string_view kGrantPlanned = "planned";
inline constexpr std::string_view kGrantInForce = "in_force";
inline constexpr std::string_view kGrantEnded = "ended";
inline constexpr std::array kGrantStates = {kGrantPlanned, kGrantInForce, kGrantEnded};

struct Grant {
  static constexpr std::string_view kSchema = "Grant";

  std::string id = {};
  std::string tenant = {};
  std::string_view state = {};  // planned, in_force, ended
  std::vector<std::string> models = {};
  std::optional<conf::RawJson> limits = {};
  std::optional<uint32_t> weight = {};
  std::optional<GrantedDevices> devices = {};
  std::optional<std::string> job_queue = {};  // in which jobs use the devices
  std::string in_words = {};
  Time from = {};
  Time until = {};
  std::string reason = {};
  std::string asked_by = {};
  std::string approved_by = {};
  std::optional<std::string> request = {};
  std::optional<Time> ended = {};
  std::string ended_by = {};
  bool may_end = false;    // the caller
  bool may_renew = false;  // the caller may ask for it
};

template <class O>
constexpr void Bind(O& o, Grant& grant) {
  o.Required("id", grant.id);
  o.Required("tenant", grant.tenant);
  o.Required("state", grant.state);
  o.Required("models", grant.models);
  o.Optional("limits", grant.limits);
  o.Required("weight", grant.weight);
  o.Required("devices", grant.devices);
  o.Required("job_queue", grant.job_queue);
  o.Required("in_words", grant.in_words);
  o.Required("from", grant.from);
  o.Required("until", grant.until);
  o.Required("reason", grant.reason);
  o.Required("asked_by", grant.asked_by);
  o.Required("approved_by", grant.approved_by);
  o.Required("request", grant.request);
  o.Required("ended", grant.ended);
  o.Required("ended_by", grant.ended_by);
  o.Required("may_end", grant.may_end);
  o.Required("may_renew", grant.may_renew);
}

struct GrantRequest {
  static constexpr std::string_view kSchema = "GrantRequest";

  std::string id = {};
  std::string tenant = {};
  std::string_view state = {};  // pending, approved, declined, withdrawn, expired
  std::vector<std::string> models = {};
  std::optional<conf::RawJson> limits = {};
  std::optional<uint32_t> weight = {};
  std::optional<GrantedDevices> devices = {};
  std::string in_words = {};
  std::optional<Time> from = {};
  Time until = {};
  std::string reason = {};
  std::string asked_by = {};
  Time asked = {};
  Time expires = {};
  std::string decided_by = {};
  std::optional<Time> decided = {};
  std::string answer = {};
  std::optional<std::string> grant = {};
  std::optional<std::string> renews = {};  // a grant
  std::vector<RequestComment> comments = {};
  bool may_decide = false;    // the caller
  bool may_withdraw = false;  // likewise
  bool may_comment = false;
};

template <class O>
constexpr void Bind(O& o, GrantRequest& request) {
  o.Required("id", request.id);
  o.Required("tenant", request.tenant);
  o.Required("state", request.state);
  o.Required("models", request.models);
  o.Optional("limits", request.limits);
  o.Required("weight", request.weight);
  o.Required("devices", request.devices);
  o.Required("in_words", request.in_words);
  o.Required("from", request.from);
  o.Required("until", request.until);
  o.Required("reason", request.reason);
  o.Required("asked_by", request.asked_by);
  o.Required("asked", request.asked);
  o.Required("expires", request.expires);
  o.Required("decided_by", request.decided_by);
  o.Required("decided", request.decided);
  o.Required("answer", request.answer);
  o.Required("grant", request.grant);
  o.Required("renews", request.renews);
  o.Required("comments", request.comments);
  o.Required("may_decide", request.may_decide);
  o.Required("may_withdraw", request.may_withdraw);
  o.Required("may_comment", request.may_comment);
}

}  // namespace gateway::admin::answers
