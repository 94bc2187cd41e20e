#include "plugins/auth/jwks_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace plugins::auth {
namespace {

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

bool JwksFile::Poll(conf::TimePoint now) {
  const uint64_t before = cache_.Published().generation;
  struct stat current;
  if (stat(path_.c_str(), &current) != 0) {
    const int error = errno;
    good_ = false;
    cache_.Failed(fmt::format("{}: {}", path_, std::strerror(error)), now);
    return false;
  }
  if (good_ && SameFile(current, seen_)) {
    cache_.Unchanged(now);
    return false;
  }
  std::string text(kMaxJwksBytes + 1, '\0');
  std::ifstream in(path_, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (in.bad() || (!in && !in.eof())) {
    good_ = false;
    cache_.Failed(fmt::format("{}: cannot be read", path_), now);
    return false;
  }
  good_ = cache_.Loaded(text, now).ok();
  seen_ = current;
  return cache_.Published().generation != before;
}

}  // namespace plugins::auth
