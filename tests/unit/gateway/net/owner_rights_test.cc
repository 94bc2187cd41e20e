#include "gateway/net/owner_rights.h"

#include <dirent.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace {

// Users without an entry, who own nothing.
constexpr uid_t kBroker = 64125;
constexpr uid_t kRun = 64126;

bool Become(uid_t uid) {
  return prctl(PR_SET_KEEPCAPS, 1) == 0 && setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 &&
         setresuid(uid, uid, uid) == 0;
}

// The rights of the launch broker where the gateway is not started as root.
bool TakeBrokersRights() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  for (const int right : {CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_SYS_PTRACE})
    data[0].effective |= uint32_t{1} << right;
  data[0].permitted = data[0].effective;
  return syscall(SYS_capset, &header, data.data()) == 0;
}

bool MayList(const std::string& folder) {
  DIR* const opened = opendir(folder.c_str());
  if (opened == nullptr) return false;
  closedir(opened);
  return true;
}

TEST(AsOwner, ListsTheDescriptorsOfAnotherUsersProcess) {
  if (geteuid() != 0) GTEST_SKIP() << "this process may not change users";
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t run = fork();
  if (run == 0) {
    if (!Become(kRun) || write(ready[1], "r", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string folder = fmt::format("/proc/{}/fd", run);
  const pid_t broker = fork();
  if (broker == 0) {
    if (!Become(kBroker) || !TakeBrokersRights()) _exit(1);
    if (MayList(folder)) _exit(2);
    {
      const gateway::net::AsOwner owner(folder);
      if (!MayList(folder)) _exit(3);
    }
    _exit(MayList(folder) ? 4 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(broker, &status, 0), broker);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "2: it may list the folder anyway, 3: not as the owner, 4: still";
  kill(run, SIGKILL);
  waitpid(run, &status, 0);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
