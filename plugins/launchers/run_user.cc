#include "plugins/launchers/run_user.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "conf/text.h"

namespace plugins::launchers {
namespace {

constexpr size_t kMaxEntry = 1 << 16;
constexpr int kMaxGroups = 64;

std::vector<gid_t> GroupsOf(const char* name, gid_t gid) {
  std::array<gid_t, kMaxGroups> all{};
  int count = kMaxGroups;
  if (getgrouplist(name, gid, all.data(), &count) < 0) count = kMaxGroups;
  std::vector<gid_t> groups(all.begin(), all.begin() + count);
  std::erase(groups, gid);
  return groups;
}

}  // namespace

absl::StatusOr<RunUser> FindRunUser(const std::string& name) {
  std::vector<char> text(kMaxEntry);
  passwd entry{};
  passwd* found = nullptr;
  const std::optional<uid_t> number = conf::ReadNumber<uid_t>(name);
  if (number) {
    getpwuid_r(*number, &entry, text.data(), text.size(), &found);
  } else {
    getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  }
  RunUser user{.name = name, .uid = 0, .gid = 0, .groups = {}, .home = "/"};
  if (found != nullptr) {
    user.uid = found->pw_uid;
    user.gid = found->pw_gid;
    user.groups = GroupsOf(found->pw_name, found->pw_gid);
    user.home = found->pw_dir;
  } else if (number) {
    user.uid = *number;
    user.gid = static_cast<gid_t>(*number);
  } else {
    return absl::NotFoundError(fmt::format(
        "this machine has no user {}; make it with: useradd --system --no-create-home {}", name, name));
  }
  if (user.uid == 0)
    return absl::InvalidArgumentError("runs cannot be root's; name a user that owns nothing else");
  return user;
}

bool MayChangeUsers() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return false;
  return std::ranges::all_of(std::array{CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_SYS_PTRACE},
                             [&](int right) { return (data[0].effective & (uint32_t{1} << right)) != 0; });
}

}  // namespace plugins::launchers
