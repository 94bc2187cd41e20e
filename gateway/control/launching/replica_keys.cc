#include "gateway/control/launching/replica_keys.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/net/files.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/hmac.h"

namespace gateway::control {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr std::string_view kPrefix = "tgr-";

absl::StatusOr<std::string> MakeSecret() {
  std::array<uint8_t, kSecretBytes> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return absl::UnavailableError("the system has no random bytes for the keys of replicas");
  return conf::Hex(random);
}

bool IsSecret(std::string_view text) {
  std::array<uint8_t, kSecretBytes> bytes{};
  return conf::ParseHex(text, bytes);
}

}  // namespace

net::Task<absl::StatusOr<ReplicaKeys>> ReplicaKeys::Load(store::Store& store) {
  for (bool again : {true, false}) {
    absl::StatusOr<std::optional<store::Object>> stored =
        co_await store.Get(store::kSecret, store::kReplicaKeys);
    if (!stored.ok()) co_return stored.status();
    if (*stored) {
      if (!IsSecret((*stored)->body)) {
        co_return absl::DataLossError(
            fmt::format("the secret {} of the store does not have {} hexadecimal digits", store::kReplicaKeys,
                        2 * kSecretBytes));
      }
      co_return ReplicaKeys(conf::Secret("store", std::move((*stored)->body)));
    }
    absl::StatusOr<std::string> made = MakeSecret();
    if (!made.ok()) co_return made.status();
    std::vector<store::Write> writes;
    writes.push_back(store::Write::Create(store::kSecret, store::kReplicaKeys, *std::move(made)));
    // Another gateway may have made a secret at the same time. The one that is read back counts.
    const absl::Status written = (co_await store.Commit(std::move(writes))).status();
    if (!written.ok() && !(again && absl::IsAborted(written))) co_return written;
  }
  co_return absl::UnavailableError("the store has not kept the secret for the keys of replicas");
}

absl::Status ReplicaKeys::Keep(const std::string& path) const {
  const absl::StatusOr<std::string> kept = ReadCopy(path);
  if (kept.ok() && *kept == secret_.Reveal()) return absl::OkStatus();
  return net::ReplaceFile(path, secret_.Reveal(), 0600);
}

absl::StatusOr<std::string> ReplicaKeys::ReadCopy(const std::string& path) {
  absl::StatusOr<std::string> kept = net::ReadFile(path, 2 * kSecretBytes);
  if (!kept.ok() || IsSecret(*kept)) return kept;
  return absl::DataLossError(fmt::format("{}: does not have {} hexadecimal digits", path, 2 * kSecretBytes));
}

conf::Secret ReplicaKeys::Of(std::string_view replica) const {
  return {"generated",
          fmt::format("{}{}", kPrefix,
                      plugins::auth::HmacSha256(secret_.Reveal(), fmt::format("key {}", replica)))};
}

ReplicaKeys::Trial ReplicaKeys::TrialOf(std::string_view replica, size_t others) const {
  const auto digest = [&](std::string_view what) {
    return plugins::auth::HmacSha256(secret_.Reveal(), fmt::format("{} {}", what, replica));
  };
  Trial trial;
  std::array<uint8_t, kSecretBytes> bytes{};
  conf::ParseHex(digest("place"), bytes);
  trial.right = (size_t{bytes[0]} << 8 | bytes[1]) % (others + 1);
  for (size_t i = 0; i <= others; ++i) {
    trial.keys.push_back(
        i == trial.right
            ? Of(replica)
            : conf::Secret("generated", fmt::format("{}{}", kPrefix, digest(fmt::format("other {}", i)))));
  }
  return trial;
}

}  // namespace gateway::control
