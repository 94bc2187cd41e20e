// Section `watch` of a model: endpoints that hang, that are much slower than the others, or that are new.
#pragma once

#include "conf/time.h"

namespace conf {
class Object;
}  // namespace conf

namespace gateway::config {

struct Watch {
  conf::Duration hung_after = std::chrono::seconds(30);  // of silence, at least; 0: no replica hangs
  double slow_factor = 4;                                // times the others' median; 0: no replica is ejected
  conf::Duration slow_for = std::chrono::seconds(30);    // until one is ejected
  conf::Duration eject = std::chrono::seconds(30);       // doubles each time
  conf::Duration max_eject = std::chrono::minutes(10);
  conf::Duration slow_start = std::chrono::seconds(30);  // of endpoints that are new or back; 0: none
};

void Bind(conf::Object& object, Watch& out);

}  // namespace gateway::config
