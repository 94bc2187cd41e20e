#include "plugins/auth/key_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "plugins/auth/api_key.h"

namespace plugins::auth {

std::vector<KeyRecordPtr> KeyTable::List() const {
  std::vector<KeyRecordPtr> out;
  out.reserve(records_.size());
  for (const auto& [id, record] : records_) out.push_back(record);
  std::sort(out.begin(), out.end(), [](const KeyRecordPtr& a, const KeyRecordPtr& b) {
    return std::tie(a->created, a->id) < std::tie(b->created, b->id);
  });
  return out;
}

std::string Verdict::Message() const {
  switch (kind) {
    case Kind::kOk:
      return fmt::format("API key {} is valid", id);
    case Kind::kUnknown:
      return id.empty() ? std::string("the API key does not have the form of a key: tg-<id>-<secret>")
                        : fmt::format("API key {} is not known, or its secret part is wrong", id);
    case Kind::kExpired:
      return fmt::format("API key {} expired at {}", id, conf::FormatTime(*record->expires));
    case Kind::kRevoked:
      return fmt::format("API key {} was revoked at {}", id, conf::FormatTime(*record->revoked_at));
    case Kind::kReplaced:
      return fmt::format("API key {} was replaced by {} and stopped working at {}", id, record->replaced_by,
                         conf::FormatTime(*record->overlap_until));
  }
  return {};
}

Verdict Check(const KeyTable& table, std::string_view secret, conf::TimePoint now) {
  static constexpr Digest kNoHash{};
  Verdict verdict;
  verdict.id = KeyIdOf(secret);
  if (verdict.id.empty()) return verdict;
  const Digest hash = Sha256(secret);
  const KeyRecordPtr* record = table.Find(verdict.id);
  const bool equal = EqualInConstantTime(hash, record != nullptr ? (*record)->hash : kNoHash);
  if (record == nullptr || !equal) return verdict;
  verdict.record = record->get();
  const KeyRecord& key = **record;
  if (key.revoked_at) {
    verdict.kind = Verdict::Kind::kRevoked;
  } else if (key.expires && now >= *key.expires) {
    verdict.kind = Verdict::Kind::kExpired;
  } else if (key.overlap_until && now >= *key.overlap_until) {
    verdict.kind = Verdict::Kind::kReplaced;
  } else {
    verdict.kind = Verdict::Kind::kOk;
  }
  return verdict;
}

}  // namespace plugins::auth
