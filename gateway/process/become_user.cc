#include "gateway/process/become_user.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway {
namespace {

constexpr size_t kMaxEntry = 1 << 16;

bool KeepRights(uint32_t rights) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  data[0].effective = data[0].permitted = rights;
  return syscall(SYS_capset, &header, data.data()) == 0;
}

}  // namespace

absl::Status BecomeUser(const config::Server& server) {
  if (server.user.empty()) return absl::OkStatus();
  std::vector<char> text(kMaxEntry);
  passwd entry{};
  passwd* found = nullptr;
  getpwnam_r(server.user.c_str(), &entry, text.data(), text.size(), &found);
  const auto failed = [&](std::string_view why) {
    return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("the gateway cannot become server.user {}: {}", server.user, why)));
  };
  if (found == nullptr) return failed("this machine has no such user");
  if (geteuid() == found->pw_uid) return absl::OkStatus();
  if (geteuid() != 0) return failed("it was not started as root");
  if (access(server.state_dir.c_str(), F_OK) != 0) {
    if (absl::Status made = net::MakeDirectories(server.state_dir); !made.ok()) return made;
    if (chown(server.state_dir.c_str(), found->pw_uid, found->pw_gid) != 0)
      return net::SystemError("give away", server.state_dir, errno);
  }
  prctl(PR_SET_KEEPCAPS, 1);
  if (initgroups(server.user.c_str(), found->pw_gid) != 0 ||
      setresgid(found->pw_gid, found->pw_gid, found->pw_gid) != 0 ||
      setresuid(found->pw_uid, found->pw_uid, found->pw_uid) != 0 ||
      !KeepRights(uint32_t{1} << CAP_NET_BIND_SERVICE))
    return failed(std::generic_category().message(errno));
  return absl::OkStatus();
}

void KeepMemoryPrivate() {
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)  // its check for leaks is a debugger
  prctl(PR_SET_DUMPABLE, 0);
#endif
}

}  // namespace gateway
