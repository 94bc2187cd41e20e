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

// The only right that the gateway keeps, where it has it: to listen on ports below 1024.
constexpr uint32_t kKept = uint32_t{1} << CAP_NET_BIND_SERVICE;

// Programs that this process starts get no more rights than it keeps, also where it is root. Without the
// right to say so it is not root, and they have only the rights that it hands on, which are none.
void BoundRights() {
  for (int right = 0; prctl(PR_CAPBSET_READ, right) >= 0; ++right) {
    if (right != CAP_NET_BIND_SERVICE) prctl(PR_CAPBSET_DROP, right);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

bool DropRights() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return false;
  const uint32_t kept = data[0].permitted & kKept;
  data = {};
  data[0].effective = data[0].permitted = kept;
  return syscall(SYS_capset, &header, data.data()) == 0;
}

absl::Status Become(const config::Server& server) {
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
      setresuid(found->pw_uid, found->pw_uid, found->pw_uid) != 0)
    return failed(std::generic_category().message(errno));
  return absl::OkStatus();
}

}  // namespace

absl::Status BecomeUser(const config::Server& server) {
  BoundRights();
  if (!server.user.empty()) {
    if (absl::Status become = Become(server); !become.ok()) return become;
  }
  if (DropRights()) return absl::OkStatus();
  return absl::FailedPreconditionError(conf::Abseil(
      fmt::format("the gateway cannot give up its rights: {}", std::generic_category().message(errno))));
}

void KeepMemoryPrivate() {
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)  // its check for leaks is a debugger
  prctl(PR_SET_DUMPABLE, 0);
#endif
}

}  // namespace gateway
