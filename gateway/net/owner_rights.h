// AsOwner: reads the files of /proc/PID that only the owner of the process may open (fd, environ), by a process that may
// change users but is not root: CAP_SYS_PTRACE lets it examine the process, and not open these files.
#pragma once

#include <string>

namespace gateway::net {

// While it lives, this thread opens files with the rights of the owner of `path`. Without CAP_SETUID, or as root, it
// changes nothing. Not across a wait: another task of the thread would open files with them, too.
class AsOwner {
 public:
  explicit AsOwner(const std::string& path);
  ~AsOwner();
  AsOwner(const AsOwner&) = delete;
  AsOwner& operator=(const AsOwner&) = delete;

 private:
  bool changed_ = false;
};

}  // namespace gateway::net
