#include "gateway/config/runs.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string_view>

#include "conf/reader.h"
#include "conf/text.h"

namespace gateway::config {
namespace {

constexpr uint32_t kMostUsers = 1024;

struct UserRange {
  std::string_view prefix;
  uint32_t first = 0;
  uint32_t last = 0;
};

// "tidegate-run-0..15", "61000..61015".
std::optional<UserRange> ReadRange(std::string_view entry) {
  const size_t dots = entry.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  size_t digits = dots;
  while (digits > 0 && entry[digits - 1] >= '0' && entry[digits - 1] <= '9') --digits;
  const auto first = conf::ReadNumber<uint32_t>(entry.substr(digits, dots - digits));
  const auto last = conf::ReadNumber<uint32_t>(entry.substr(dots + 2));
  if (!first || !last || *last < *first || *last - *first >= kMostUsers) return std::nullopt;
  return UserRange{entry.substr(0, digits), *first, *last};
}

struct KnownUsers {
  std::string operator()(const std::vector<std::string>& entries) const {
    std::set<std::string> seen;
    for (const std::string& entry : entries) {
      if (entry.empty() || (entry.find("..") != std::string::npos && !ReadRange(entry))) {
        return fmt::format("\"{}\" must be a user, or a range of at most {} users such as tidegate-run-0..15",
                           entry, kMostUsers);
      }
      for (const std::string& name : RunUserNames({entry})) {
        if (!seen.insert(name).second) return fmt::format("names {} twice", name);
      }
    }
    return seen.size() > kMostUsers ? fmt::format("names {} users, and may name {}", seen.size(), kMostUsers)
                                    : "";
  }
};

}  // namespace

std::vector<std::string> RunUserNames(const std::vector<std::string>& entries) {
  std::vector<std::string> names;
  for (const std::string& entry : entries) {
    const std::optional<UserRange> range = ReadRange(entry);
    if (!range) {
      names.push_back(entry);
      continue;
    }
    for (uint32_t number = range->first; number <= range->last; ++number)
      names.push_back(fmt::format("{}{}", range->prefix, number));
  }
  return names;
}

void Bind(conf::Object& o, Runs& runs) {
  o.Optional("user", runs.user, conf::NotEmpty());
  o.Optional("users", conf::OneOrMany(runs.users), KnownUsers());
  o.Optional("same_user", runs.same_user);
  if (runs.same_user && !runs.users.empty())
    o.Error(
        "has no effect with same_user: true, which lets jobs run as the gateway's own user; remove one of "
        "the two",
        "users");
  o.Optional("processes", runs.processes, conf::Range{16U, 4'194'304U});
  o.Optional("open_files", runs.open_files, conf::Range{64U, 1'048'576U});
  o.Optional("file_gib", runs.file_gib, conf::Range{1U, 1'000'000U});
  o.Optional("log_mib", runs.log_mib, conf::Range{1U, 65'536U});
  o.Optional("logs_mib", runs.logs_mib, conf::Range{2U, 67'108'864U});
  o.Optional("logs_dir", runs.logs_dir, conf::NotEmpty());
  if (runs.logs_mib && *runs.logs_mib < 2 * runs.log_mib) {
    o.Error(fmt::format("logs_mib: {} is less than one run may keep, twice log_mib; give at least {}",
                        *runs.logs_mib, 2 * runs.log_mib),
            "logs_mib");
  }
}

}  // namespace gateway::config
