#include "gateway/people/key_import.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "conf/hex.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/files.h"
#include "gateway/people/key_events.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/digest.h"
#include "plugins/auth/key_record.h"
#include "plugins/auth/strict_json.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;
using nlohmann::json;

constexpr char kKeysFile[] = "keys.jsonl";
constexpr char kCarriedFile[] = "key_events.json";
constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr size_t kMaxCarriedBytes = 4096;

// A line is an object whose last member, `sum`, is the begin of the SHA-256 of the text before it.
constexpr std::string_view kSumMember = ",\"sum\":\"";
constexpr size_t kSumDigits = 16;
constexpr size_t kSumTail = kSumMember.size() + kSumDigits + 2;

// The object without its sum; empty when the sum is not that of the text.
std::string OpenLine(std::string_view line) {
  if (line.size() <= kSumTail || !line.ends_with("\"}")) return {};
  const std::string_view body = line.substr(0, line.size() - kSumTail);
  const std::string_view tail = line.substr(body.size());
  if (!tail.starts_with(kSumMember) ||
      tail.substr(kSumMember.size(), kSumDigits) != conf::Hex(auth::Sha256(body)).substr(0, kSumDigits)) {
    return {};
  }
  return std::string(body) + "}";
}

// How far version 0.1 had come: it looked through the ledger after that place, and so does KeyEvents.
struct Carried {
  uint64_t event = 0;
  uint64_t ledger_seq = 0;
};

Carried ReadCarried(const std::string& path) {
  const absl::StatusOr<std::string> text = net::ReadFile(path, kMaxCarriedBytes);
  const json object = text.ok() ? conf::ParseJson(*text) : json();
  if (!object.is_object()) return {};
  const auto number = [&](const char* name) {
    const auto it = object.find(name);
    return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
  };
  return {number("event"), number("ledger_seq")};
}

// The keys as the events leave them.
class Replay {
 public:
  explicit Replay(uint64_t carried) : carried_(carried) {}

  absl::Status Apply(std::string_view line) {
    const std::string object = OpenLine(line);
    if (object.empty()) return absl::DataLossError("does not match its checksum");
    absl::StatusOr<json> parsed = auth::ParseStrictObject(object);
    if (!parsed.ok()) return parsed.status();
    const auto number = parsed->find("event");
    if (number == parsed->end() || *number != ++number_) {
      return absl::DataLossError("has not the next number: a line is missing or out of place");
    }
    parsed->erase("event");
    if (parsed->value("kind", "") == "tail_moved") return absl::OkStatus();  // of the file, not of a key
    absl::StatusOr<auth::KeyEvent> event = auth::DecodeEvent(parsed->dump());
    if (!event.ok()) return event.status();
    if (!event->id.empty()) {
      const auto old = keys_.find(event->id);
      if (old == keys_.end()) return absl::DataLossError(fmt::format("names the unknown key {}", event->id));
      if (event->kind == auth::KeyEvent::Kind::kRevoked) {
        old->second.revoked_at = event->at;
      } else {
        old->second.replaced_by = event->key->id;
        old->second.overlap_until = event->overlap_until;
      }
    }
    if (event->key && !keys_.emplace(event->key->id, *event->key).second) {
      return absl::DataLossError(fmt::format("creates the key {} again", event->key->id));
    }
    if (number_ > carried_) pending_.push_back(PendingEvent(*event));
    return absl::OkStatus();
  }

  uint64_t number() const { return number_; }

  std::vector<store::Write> Writes() && {
    std::vector<store::Write> writes;
    for (const auto& [id, key] : keys_)
      writes.push_back(store::Write::Create(store::kKey, id, auth::EncodeKey(key)));
    for (store::Write& event : pending_) writes.push_back(std::move(event));
    return writes;
  }

 private:
  const uint64_t carried_;
  uint64_t number_ = 0;
  std::map<std::string, auth::KeyRecord> keys_;
  std::vector<store::Write> pending_;
};

absl::StatusOr<std::vector<store::Write>> ReadKeys(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kKeysFile);
  absl::StatusOr<std::string> text = net::ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) text = std::string();
  if (!text.ok()) return text.status();
  const Carried carried = ReadCarried(fmt::format("{}/{}", folder, kCarriedFile));
  Replay replay(carried.event);
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t newline = rest.find('\n');
    const std::string_view line = rest.substr(0, newline);
    const bool last = newline == std::string_view::npos || newline + 1 == rest.size();
    // Left unfinished by a crash, and never acknowledged.
    if (newline == std::string_view::npos || (last && line.find('\0') != std::string_view::npos)) break;
    if (absl::Status applied = replay.Apply(line); !applied.ok()) {
      return absl::DataLossError(fmt::format(
          "{}: event {} at byte {} {}; restore the file from a backup, or move it away to start without "
          "the keys in it",
          path, replay.number(), text->size() - rest.size(), conf::Std(applied.message())));
    }
    rest.remove_prefix(newline + 1);
  }
  std::vector<store::Write> writes = std::move(replay).Writes();
  writes.push_back(KeyEventsPosition(carried.ledger_seq));
  return writes;
}

}  // namespace

store::Import KeysOfVersion01(const std::string& /*state_dir*/) {
  return {"keys", {kKeysFile, kCarriedFile}, ReadKeys};
}

}  // namespace gateway
