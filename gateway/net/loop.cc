#include "gateway/net/loop.h"

namespace gateway::net {

void Loop::Run() {
  io.run();
}

void Loop::Stop() {
  tasks.WhenIdle([this] {
    watchdog.Stop();
    work_.reset();
  });
}

}  // namespace gateway::net
