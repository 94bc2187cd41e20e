#include "gateway/store/store.h"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace gateway::store {
namespace {

absl::Status CheckName(const char* what, const std::string& name) {
  if (!name.empty() && name.size() <= kMaxNameBytes && name.find('\0') == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("the {} of a stored object has {} bytes; it must have 1 to {}, none of them NUL", what,
                  name.size(), kMaxNameBytes));
}

}  // namespace

absl::Status CheckWrites(const std::vector<Write>& writes) {
  if (writes.empty()) return absl::InvalidArgumentError("a transaction without a write");
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const Write& write : writes) {
    if (absl::Status kind = CheckName("kind", write.kind); !kind.ok()) return kind;
    if (absl::Status id = CheckName("id", write.id); !id.ok()) return id;
    if (write.body && write.body->size() > kMaxBodyBytes) {
      return absl::InvalidArgumentError(fmt::format("{} {} takes {} bytes; an object takes at most {}",
                                                    write.kind, write.id, write.body->size(), kMaxBodyBytes));
    }
    if (!write.body && write.replaces == 0) {
      return absl::InvalidArgumentError(
          fmt::format("{} {} is removed without naming the stored version", write.kind, write.id));
    }
    if (!seen.emplace(write.kind, write.id).second) {
      return absl::InvalidArgumentError(
          fmt::format("{} {} is written twice in one transaction", write.kind, write.id));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHolder(const std::string& holder, const std::string& about) {
  if (absl::Status name = CheckName("holder", holder); !name.ok()) return name;
  if (about.size() <= kMaxAboutBytes && about.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the description of a holder has {} bytes; it must have at most {}, none of them NUL",
                  about.size(), kMaxAboutBytes));
}

absl::Status OtherVersionError(const Write& write, uint64_t stored) {
  const auto words = [](uint64_t version) {
    return version == 0 ? std::string("none") : fmt::format("version {}", version);
  };
  return absl::AbortedError(
      fmt::format("{} \"{}\": {} is stored, and the change expects {}: another change came first; read it "
                  "again",
                  write.kind, write.id, words(stored), words(write.replaces)));
}

absl::Status DeposedError(uint64_t epoch, uint64_t leading) {
  const std::string now = leading == 0 ? "no gateway leads now" : fmt::format("epoch {} leads", leading);
  return absl::PermissionDeniedError(
      fmt::format("the change was made in epoch {}, and {}: nothing was changed", epoch, now));
}

}  // namespace gateway::store
