#include "gateway/audit/all_usage.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "gateway/ledger/signing.h"

namespace gateway {
namespace {

constexpr size_t kKeyDigits = 8;

std::vector<ledger::UsageRow> Merge(std::vector<ledger::UsageRow> own,
                                    const std::vector<ledger::UsageRow>& others) {
  if (others.empty()) return own;
  std::map<std::vector<std::string>, ledger::UsageRow> all;
  for (ledger::UsageRow& row : own) {
    std::vector<std::string> group = row.group;
    all.emplace(std::move(group), std::move(row));
  }
  for (const ledger::UsageRow& row : others) {
    ledger::UsageRow& into = all[row.group];
    into.group = row.group;
    into += row;
  }
  std::vector<ledger::UsageRow> merged;
  merged.reserve(all.size());
  for (auto& [group, row] : all) merged.push_back(std::move(row));
  return merged;
}

}  // namespace

absl::StatusOr<std::string> UsageSource(const std::string& gateway_id, const std::string& public_key_pem) {
  const absl::StatusOr<ledger::PublicKey> key = ledger::PublicKey::FromPem(public_key_pem);
  if (!key.ok()) return key.status();
  return gateway_id + "." + key->Fingerprint().substr(0, kKeyDigits);
}

absl::StatusOr<std::unique_ptr<UsageCopy>> OpenLoadedCopy(const UsageOfOthers& others) {
  absl::StatusOr<std::unique_ptr<UsageCopy>> copy = UsageCopy::OpenToRead(others.copy_path, others.source);
  if (!copy.ok()) return copy;
  const absl::StatusOr<uint64_t> number = (*copy)->Number();
  if (!number.ok()) return number.status();
  if (*number == 0)
    return absl::UnavailableError("the usage of the other gateways has not been read from the store yet");
  return copy;
}

absl::StatusOr<AllUsage> QueryAllUsage(const std::string& ledger_dir, const ledger::UsageQuery& query,
                                       const std::optional<UsageOfOthers>& others) {
  AllUsage all;
  absl::StatusOr<std::vector<ledger::UsageRow>> own = ledger::QueryUsage(ledger_dir, query, &all.last_seq);
  if (!own.ok()) return own.status();
  all.rows = *std::move(own);
  if (!others) return all;
  const absl::StatusOr<std::unique_ptr<UsageCopy>> copy = OpenLoadedCopy(*others);
  if (!copy.ok()) return copy.status();
  absl::StatusOr<std::vector<UsageMark>> marks = (*copy)->Marks();
  if (!marks.ok()) return marks.status();
  for (UsageMark& mark : *marks) {
    if (mark.source == others->source) {
      all.own = std::move(mark);
    } else {
      all.others.push_back(std::move(mark));
    }
  }
  absl::StatusOr<std::vector<std::string>> sources = (*copy)->SourcesOf(query);
  if (!sources.ok()) return sources.status();
  all.sources = *std::move(sources);
  const absl::StatusOr<std::vector<ledger::UsageRow>> rows = (*copy)->Usage(query);
  if (!rows.ok()) return rows.status();
  all.rows = Merge(std::move(all.rows), *rows);
  return all;
}

absl::StatusOr<std::vector<KnownGateway>> KnownGateways(const UsageOfOthers& others, conf::TimePoint now) {
  const absl::StatusOr<std::unique_ptr<UsageCopy>> copy =
      UsageCopy::OpenToRead(others.copy_path, others.source);
  if (!copy.ok()) return copy.status();
  const absl::StatusOr<std::vector<UsageMark>> marks = (*copy)->Marks();
  if (!marks.ok()) return marks.status();
  std::vector<KnownGateway> known;
  for (const UsageMark& mark : *marks) {
    if (now - conf::FromUnixMicros(mark.as_of_us) < kGoneForUsage)
      known.push_back({.id = mark.source.substr(0, mark.source.rfind('.')), .name = mark.gateway});
  }
  return known;
}

conf::TimePoint AsOf(const std::vector<UsageMark>& others, conf::TimePoint now) {
  conf::TimePoint as_of = now;
  for (const UsageMark& mark : others) {
    const conf::TimePoint at = conf::FromUnixMicros(mark.as_of_us);
    if (!mark.closed && now - at < kGoneForUsage) as_of = std::min(as_of, at);
  }
  return as_of;
}

}  // namespace gateway
