#include "plugins/auth/key_record.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "conf/hex.h"
#include "conf/json_dump.h"
#include "conf/words.h"
#include "plugins/auth/api_key.h"
#include "plugins/auth/strict_json.h"

namespace plugins::auth {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxLabelBytes = 256;
constexpr size_t kMaxListed = 256;
constexpr size_t kMaxLimitsBytes = 4096;

constexpr conf::Word<KeyEvent::Kind> kKinds[] = {{"created", KeyEvent::Kind::kCreated},
                                                 {"rotated", KeyEvent::Kind::kRotated},
                                                 {"revoked", KeyEvent::Kind::kRevoked}};

bool IsLabel(std::string_view s) {
  return s.size() <= kMaxLabelBytes && std::all_of(s.begin(), s.end(), [](char c) {
           return !absl::ascii_iscntrl(static_cast<unsigned char>(c));
         });
}

absl::Status CheckList(std::string_view field, const std::vector<std::string>& values) {
  if (values.size() > kMaxListed) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} entries, at most {} are kept with a key", field, values.size(), kMaxListed));
  }
  for (const std::string& value : values) {
    if (value.empty()) return absl::InvalidArgumentError(fmt::format("{}: an entry is empty", field));
    if (absl::Status s = CheckText(field, value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

void PutTime(ordered_json& out, const char* name, const std::optional<conf::TimePoint>& t) {
  if (t) out[name] = conf::FormatTime(*t);
}

void PutText(ordered_json& out, const char* name, const std::string& text) {
  if (!text.empty()) out[name] = text;
}

// Reads members one by one, remembers the first problem and, at the end, any member that was not read.
class Members {
 public:
  Members(const json& object, std::string_view where) : object_(object), where_(where) {}

  std::string Text(const char* name) {
    const json* v = Find(name);
    if (v == nullptr) return {};
    if (!v->is_string()) return Fail(name, "must be a string"), std::string();
    return v->get<std::string>();
  }
  std::optional<conf::TimePoint> Time(const char* name) {
    const std::string text = Text(name);
    if (text.empty()) return std::nullopt;
    const auto t = conf::ParseTime(text);
    if (!t) Fail(name, "must be an RFC 3339 time");
    return t;
  }
  std::vector<std::string> List(const char* name) {
    std::vector<std::string> out;
    const json* v = Find(name);
    if (v == nullptr) return out;
    if (!v->is_array()) return Fail(name, "must be a list"), out;
    for (const json& item : *v) {
      if (!item.is_string()) return Fail(name, "must be a list of strings"), out;
      out.push_back(item.get<std::string>());
    }
    return out;
  }
  const json* Find(const char* name) {
    const auto it = object_.find(name);
    if (it == object_.end()) return nullptr;
    ++seen_;
    return &*it;
  }
  void Fail(std::string_view name, std::string_view what) {
    if (status_.ok()) status_ = absl::DataLossError(fmt::format("{}/{}: {}", where_, name, what));
  }
  absl::Status Done() {
    if (status_.ok() && seen_ != object_.size()) {
      status_ = absl::DataLossError(fmt::format(
          "{}: has a member that this version does not know; it was written by a newer one", where_));
    }
    return status_;
  }

 private:
  const json& object_;
  std::string_view where_;
  size_t seen_ = 0;
  absl::Status status_;
};

ordered_json EncodeRecord(const KeyRecord& r) {
  ordered_json out;
  out["id"] = r.id;
  out["hash"] = conf::Hex(r.hash);
  PutText(out, "tenant", r.tenant);
  PutText(out, "role", std::string(RoleName(r.role)));
  for (const Right right : r.rights) out["rights"].push_back(RightName(right));
  PutText(out, "name", r.name);
  if (!r.permissions.models.empty()) out["models"] = r.permissions.models;
  if (!r.permissions.endpoints.empty()) out["endpoints"] = r.permissions.endpoints;
  out["created"] = conf::FormatTime(r.created);
  PutTime(out, "expires", r.expires);
  PutText(out, "priority", r.priority);
  if (!r.limits.empty()) out["limits"] = ordered_json::parse(r.limits);
  PutText(out, "created_by", r.created_by);
  PutText(out, "owner", r.owner);
  PutText(out, "rotated_from", r.rotated_from);
  PutTime(out, "revoked_at", r.revoked_at);
  PutText(out, "replaced_by", r.replaced_by);
  PutTime(out, "overlap_until", r.overlap_until);
  return out;
}

absl::StatusOr<KeyRecord> DecodeRecord(const json& object) {
  if (!object.is_object()) return absl::DataLossError("key: must be an object");
  Members members(object, "key");
  KeyRecord r;
  r.id = members.Text("id");
  if (!IsKeyId(r.id)) members.Fail("id", "must be 10 letters and digits");
  if (!conf::ParseHex(members.Text("hash"), r.hash)) members.Fail("hash", "must be 64 hex digits");
  r.tenant = members.Text("tenant");
  if (const std::string role = members.Text("role"); !role.empty()) {
    if (const auto known = RoleFromName(role); known && !IsOfTenant(*known)) {
      r.role = *known;
    } else {
      members.Fail("role", "must be viewer, operator or admin");
    }
  }
  for (const std::string& name : members.List("rights")) {
    if (const auto right = RightFromName(name)) {
      r.rights.push_back(*right);
    } else {
      members.Fail("rights", "has a right that this version does not know");
    }
  }
  r.name = members.Text("name");
  r.permissions.models = members.List("models");
  r.permissions.endpoints = members.List("endpoints");
  if (const auto created = members.Time("created")) {
    r.created = *created;
  } else {
    members.Fail("created", "is missing");
  }
  r.expires = members.Time("expires");
  r.priority = members.Text("priority");
  if (const json* limits = members.Find("limits")) r.limits = limits->dump();
  r.created_by = members.Text("created_by");
  r.owner = members.Text("owner");
  r.rotated_from = members.Text("rotated_from");
  r.revoked_at = members.Time("revoked_at");
  r.replaced_by = members.Text("replaced_by");
  r.overlap_until = members.Time("overlap_until");
  if (r.replaced_by.empty() == r.overlap_until.has_value()) {
    members.Fail("overlap_until", "must be given with replaced_by, and only then");
  }
  if (absl::Status s = members.Done(); !s.ok()) return s;
  if (absl::Status s = CheckSpec(r); !s.ok()) {
    return absl::DataLossError(fmt::format("key/{}", std::string(s.message())));
  }
  return r;
}

}  // namespace

absl::Status CheckText(std::string_view field, std::string_view value) {
  if (!IsLabel(value)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: must be text of at most {} bytes without control characters", field, kMaxLabelBytes));
  }
  // Whether it is UTF-8 is the JSON library's to say, and what is written must be readable again.
  const json text(value);
  if (text.dump(-1, ' ', false, json::error_handler_t::ignore) != conf::DumpJson(text)) {
    return absl::InvalidArgumentError(fmt::format("{}: must be UTF-8", field));
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const KeySpec& spec) {
  if (spec.role == Role::kNone && spec.tenant.empty()) {
    return absl::InvalidArgumentError(
        "tenant: an application key needs a tenant, or give a role for an admin key");
  }
  if (spec.role != Role::kNone && !spec.tenant.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("role: a key is either of tenant \"{}\" or an admin key, not both", spec.tenant));
  }
  if (spec.role == Role::kNone && !spec.rights.empty())
    return absl::InvalidArgumentError("rights: only an admin key has rights; an application's key has none");
  if (!spec.tenant.empty() && !IsTenantPath(spec.tenant)) {
    return absl::InvalidArgumentError(fmt::format("tenant: \"{}\" must be {}", spec.tenant, kTenantPathRule));
  }
  if (!spec.limits.empty()) {
    const auto limits = ParseStrictObject(spec.limits);
    if (spec.limits.size() > kMaxLimitsBytes || !limits.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("limits: must be a JSON object of at most {} bytes", kMaxLimitsBytes));
    }
  }
  for (const auto& [field, value] : {std::pair<std::string_view, const std::string&>{"name", spec.name},
                                     {"priority", spec.priority},
                                     {"created_by", spec.created_by}}) {
    if (absl::Status s = CheckText(field, value); !s.ok()) return s;
  }
  if (absl::Status s = CheckList("models", spec.permissions.models); !s.ok()) return s;
  return CheckList("endpoints", spec.permissions.endpoints);
}

std::optional<conf::TimePoint> KeyRecord::EndsAt() const {
  if (expires && overlap_until) return std::min(*expires, *overlap_until);
  return expires ? expires : overlap_until;
}

std::string_view KindName(KeyEvent::Kind kind) {
  return conf::WordOf(kKinds, kind);
}

std::string EncodeKey(const KeyRecord& record) {
  return EncodeRecord(record).dump();
}

absl::StatusOr<KeyRecord> DecodeKey(std::string_view text) {
  const absl::StatusOr<json> object = ParseStrictObject(text);
  if (!object.ok()) {
    return absl::DataLossError(fmt::format("key: {}", std::string(object.status().message())));
  }
  return DecodeRecord(*object);
}

std::string EncodeEvent(const KeyEvent& event) {
  ordered_json out;
  out["kind"] = KindName(event.kind);
  out["at"] = conf::FormatTime(event.at);
  PutText(out, "by", event.by);
  PutText(out, "id", event.id);
  PutTime(out, "overlap_until", event.overlap_until);
  PutText(out, "reason", event.reason);
  if (event.key) out["key"] = EncodeRecord(*event.key);
  return out.dump();
}

absl::StatusOr<KeyEvent> DecodeEvent(std::string_view text) {
  const absl::StatusOr<json> object = ParseStrictObject(text);
  if (!object.ok())
    return absl::DataLossError(fmt::format("event: {}", std::string(object.status().message())));
  Members members(*object, "event");
  KeyEvent event;
  const auto kind = conf::ValueOf(kKinds, members.Text("kind"));
  if (!kind) return absl::DataLossError("event/kind: is not one that this version knows");
  event.kind = *kind;
  if (const auto at = members.Time("at")) {
    event.at = *at;
  } else {
    members.Fail("at", "is missing");
  }
  event.by = members.Text("by");
  event.id = members.Text("id");
  event.overlap_until = members.Time("overlap_until");
  event.reason = members.Text("reason");
  if (const json* key = members.Find("key")) {
    absl::StatusOr<KeyRecord> record = DecodeRecord(*key);
    if (!record.ok()) return record.status();
    event.key = *std::move(record);
  }
  const bool begins = event.kind == KeyEvent::Kind::kCreated || event.kind == KeyEvent::Kind::kRotated;
  const bool ends = event.kind == KeyEvent::Kind::kRotated || event.kind == KeyEvent::Kind::kRevoked;
  if (begins != event.key.has_value())
    members.Fail("key", "must be given with created and rotated, and only then");
  if (ends != IsKeyId(event.id)) members.Fail("id", "must be given with rotated and revoked, and only then");
  if ((event.kind == KeyEvent::Kind::kRotated) != event.overlap_until.has_value()) {
    members.Fail("overlap_until", "must be given with rotated, and only then");
  }
  if (absl::Status s = members.Done(); !s.ok()) return s;
  return event;
}

ordered_json Describe(const KeyEvent& event) {
  ordered_json out = ordered_json::parse(EncodeEvent(event));
  if (const auto key = out.find("key"); key != out.end()) key->erase("hash");
  return out;
}

}  // namespace plugins::auth
