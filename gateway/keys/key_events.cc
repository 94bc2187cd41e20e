#include "gateway/keys/key_events.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/ledger/files.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/tail.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;
using nlohmann::json;

constexpr size_t kMaxFileBytes = 4096;
constexpr size_t kEventsAtOnce = 256;
constexpr size_t kRecordsAtOnce = 4096;
constexpr size_t kBytesAtOnce = 4 << 20;
// How far the ledger may run ahead of the file before the file is brought up to date: what a start may have
// to look through.
constexpr uint64_t kMaxUnseen = 100'000;

// Only such a record is worth parsing.
constexpr std::string_view kKindOfKey = "\"kind\":\"key\"";
constexpr size_t kKindWithin = 96;

uint64_t Number(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

}  // namespace

ledger::Event ToLedger(const auth::KeyEvent& event) {
  ledger::Event out;
  out.kind = ledger::Kind::kKey;
  out.time_us = conf::ToUnixMicros(event.at);
  out.action = KindName(event.kind);
  out.actor = event.by;
  out.subject = event.id.empty() && event.key ? event.key->id : event.id;
  if (event.key) out.tenant = event.key->tenant;
  out.detail = Describe(event).dump();
  return out;
}

absl::Status KeyEvents::CarryOver() {
  if (!sure_) {
    if (absl::Status found = FindPlace(); !found.ok()) return found;
  }
  if (keys_.Version() < last_) last_ = 0;  // another store, whose events count from 1
  while (last_ < keys_.Version()) {
    const auto events = keys_.EventsSince(last_, kEventsAtOnce);
    if (!events.ok()) return events.status();
    if (events->empty()) break;
    for (const auth::KeyEvent& event : *events) {
      if (absl::Status recorded = Record(event); !recorded.ok()) return recorded;
    }
  }
  if (last_ != remembered_.event || ledger_.GetStats().durable_seq > remembered_.ledger_seq + kMaxUnseen) {
    return Remember();
  }
  return absl::OkStatus();
}

absl::Status KeyEvents::Record(const auth::KeyEvent& event) {
  if (absl::Status recorded = ledger_.Append(ToLedger(event)); !recorded.ok()) {
    sure_ = false;  // it may still be written
    return recorded;
  }
  last_ = event.number;
  return absl::OkStatus();
}

absl::Status KeyEvents::FindPlace() {
  // What an append before left in doubt is written now or never will be.
  if (absl::Status flushed = ledger_.Flush(); !flushed.ok()) return flushed;
  const Place from = remembered_.ledger_seq > 0 ? remembered_ : ReadFile();
  uint64_t last = from.event;
  ledger::Tail tail(ledger_dir_, from.ledger_seq);
  ledger::RecordParser parser;
  ledger::Record record;
  // An event that is damaged is not among them; if it was the last one, it is recorded again.
  while (true) {
    const auto batch = tail.Read(kRecordsAtOnce, kBytesAtOnce);
    if (!batch.ok()) return batch.status();
    if (batch->lines.empty()) break;
    for (const ledger::Tail::Line& line : batch->lines) {
      if (std::string_view(line.text).substr(0, kKindWithin).find(kKindOfKey) == std::string_view::npos)
        continue;
      if (absl::Status parsed = parser.Parse(line.text, &record); !parsed.ok()) return parsed;
      const json detail = json::parse(record.detail, nullptr, false);
      if (const uint64_t number = detail.is_object() ? Number(detail, "event") : 0; number > 0) last = number;
    }
  }
  last_ = last;
  remembered_ = from;
  sure_ = true;
  return absl::OkStatus();
}

absl::Status KeyEvents::Remember() {
  const Place place{last_, ledger_.GetStats().durable_seq};
  const std::string text = fmt::format("{{\"event\":{},\"ledger_seq\":{}}}\n", place.event, place.ledger_seq);
  if (absl::Status written = ledger::ReplaceFile(file_, text); !written.ok()) return written;
  remembered_ = place;
  return absl::OkStatus();
}

// A file that cannot be read or is not ours is as good as none: the ledger is looked through.
KeyEvents::Place KeyEvents::ReadFile() const {
  const auto text = ledger::ReadFile(file_, kMaxFileBytes);
  const json object = text.ok() ? json::parse(*text, nullptr, false) : json();
  if (!object.is_object()) return {};
  const Place place{Number(object, "event"), Number(object, "ledger_seq")};
  // A place beyond the ledger's end is of another ledger.
  return place.ledger_seq > ledger_.GetStats().durable_seq ? Place{} : place;
}

}  // namespace gateway
