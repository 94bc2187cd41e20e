#include "gateway/people/key_history.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "conf/json_parse.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/key_record.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;
using nlohmann::json;

std::string TextOf(const json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

}  // namespace

// As auth::Describe writes it.
void KeyHistory::Take(const ledger::Record& record) {
  if (record.kind != ledger::Kind::kKey) return;
  const json event = conf::ParseJson(record.detail);
  if (!event.is_object()) return;
  const auto at = conf::FromUnixMicros(record.time_us);
  if (const auto made = event.find("key"); made != event.end() && made->is_object()) {
    const std::string id = TextOf(*made, "id");
    Past& past = keys_[id];
    past.key = {id, TextOf(*made, "tenant"), TextOf(*made, "name")};
    past.made = true;
    had_admin_key_ = had_admin_key_ || TextOf(*made, "role") == "admin";
    past.expires = conf::ParseTime(TextOf(*made, "expires"));
  }
  const std::string ended = TextOf(event, "id");
  if (ended.empty()) return;
  Past& past = keys_[ended];
  past.key.id = ended;
  if (record.action == KindName(auth::KeyEvent::Kind::kRevoked)) {
    past.revoked = conf::ParseTime(TextOf(event, "at")).value_or(at);
  } else if (record.action == KindName(auth::KeyEvent::Kind::kRotated)) {
    past.replaced_by = event.contains("key") ? TextOf(event["key"], "id") : std::string();
    past.overlap_until = conf::ParseTime(TextOf(event, "overlap_until")).value_or(at);
  }
}

KeyHistory::Rebuilt KeyHistory::Rebuild(const std::vector<store::Object>& stored, conf::TimePoint now) const {
  Rebuilt out;
  std::set<std::string> kept;
  for (const store::Object& object : stored) {
    if (object.kind == store::kKeyEvent && auth::DecodeEvent(object.body).ok())
      out.writes.push_back(store::Write::Create(object.kind, object.id, object.body));
    if (object.kind != store::kKey) continue;
    absl::StatusOr<auth::KeyRecord> key = auth::DecodeKey(object.body);
    if (!key.ok() || key->id != object.id) continue;
    if (const auto past = keys_.find(key->id); past != keys_.end()) {
      if (!key->revoked_at) key->revoked_at = past->second.revoked;
      if (key->replaced_by.empty() && past->second.overlap_until) {
        key->replaced_by = past->second.replaced_by;
        key->overlap_until = past->second.overlap_until;
      }
    }
    out.writes.push_back(store::Write::Create(object.kind, object.id, auth::EncodeKey(*key)));
    kept.insert(key->id);
  }
  out.kept = kept.size();
  for (const auto& [id, past] : keys_) {
    const bool works = past.made && !past.revoked && !(past.expires && *past.expires <= now) &&
                       !(past.overlap_until && *past.overlap_until <= now);
    if (works && !kept.contains(id)) out.lost.push_back(past.key);
  }
  return out;
}

}  // namespace gateway
