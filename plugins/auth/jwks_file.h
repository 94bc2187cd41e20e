// A key set in a file: read again when the file changes, into the same cache as one that is fetched.
//
// Thread: one (the control thread). Blocks on the disk for a file of at most kMaxJwksBytes.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>

#include "plugins/auth/jwks_cache.h"

namespace plugins::auth {

class JwksFile {
 public:
  JwksFile(std::string path, const JwksPolicy& policy) : path_(std::move(path)), cache_(policy) {}

  // One stat call when nothing changed. True when the published keys changed; problems are in
  // cache().last_error(), and the last good keys stay until they are too old.
  bool Poll(conf::TimePoint now);

  const JwksCache& cache() const { return cache_; }
  void SetPolicy(const JwksPolicy& policy) { cache_.SetPolicy(policy); }

 private:
  std::string path_;
  JwksCache cache_;
  struct stat seen_{};
  bool good_ = false;  // the file as seen was taken
};

}  // namespace plugins::auth
