// Sharing: what this gateway knows of the others that use its store.
#pragma once

#include <functional>
#include <string>

#include "conf/time.h"

namespace gateway::batches {

struct Sharing {
  std::string gateway = {};  // the id of this one; empty: no other uses the store
  // Whether a gateway tells of itself; it may live all the same if it does not.
  std::function<bool(const std::string& gateway)> lives = [](const std::string&) { return false; };
  // How long the store must have answered before this gateway takes over a batch: longer than it takes until a
  // gateway is counted as gone.
  conf::Duration settle = std::chrono::seconds(12);
  // Results wait for so long, that many go together; ...
  conf::Duration commit_age = std::chrono::seconds(3);
  // ... and if they have waited for so long, no further line is sent.
  conf::Duration held_back_age = std::chrono::seconds(30);

  bool shared() const { return !gateway.empty(); }
};

}  // namespace gateway::batches
