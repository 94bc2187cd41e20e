// Source: follows one place that says where replicas are, beside requests, and reports each change.
//
// Owner: Discovery, by shared_ptr; a task of a stopped source keeps it until that has ended. Thread: the control
// loop's.
#pragma once

#include <functional>
#include <string>

#include "gateway/discovery/targets.h"

namespace gateway::discovery {

class Source {
 public:
  struct Listener {
    std::function<void(Targets)> found;        // all that serve now
    std::function<void(std::string)> trouble;  // why the last ones stay; empty: none
  };

  virtual ~Source() = default;
  virtual void Start() = 0;
  // Nothing is reported from here on.
  virtual void Stop() = 0;
};

}  // namespace gateway::discovery
