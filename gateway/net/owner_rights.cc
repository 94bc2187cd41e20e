#include "gateway/net/owner_rights.h"

#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gateway::net {

AsOwner::AsOwner(const std::string& path) {
  struct stat entry{};
  const uid_t own = geteuid();
  if (own == 0 || stat(path.c_str(), &entry) != 0 || entry.st_uid == own) return;
  setfsuid(entry.st_uid);
  changed_ = true;
}

AsOwner::~AsOwner() {
  if (changed_) setfsuid(geteuid());
}

}  // namespace gateway::net
