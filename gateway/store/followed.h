// How far a running gateway has followed the store: a small file tells it to commands on the same machine.
//
// A command that has changed something waits until the change is in force: `tidegate keys create` prints a key that the
// gateway accepts. The gateway holds a lock on the file while it runs, so that no command waits for a file that a
// killed gateway has left behind.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>

#include "conf/time.h"
#include "gateway/net/fd.h"
#include "gateway/net/loop.h"

namespace gateway::store {

// The gateway's side. Owner: the process; its only one on a path. Thread: one.
class Followed {
 public:
  // Makes the file, mode 0600, and locks it. FailedPrecondition when another process has it.
  absl::Status Open(const std::string& path);
  // Everything up to this change is in force. A file that cannot be written is tried again with the next
  // call.
  void Set(uint64_t number);

 private:
  net::Fd file_;
};

// The process of the gateway that runs with that file; 0: none does.
int GatewayWith(const std::string& path);

// How far a gateway had come by the file that it left behind; 0: it does not say.
uint64_t LastFollowed(const std::string& path);

struct FollowedBy {
  enum class Answer { kNobody, kInForce, kTimedOut };
  Answer answer = Answer::kNobody;
  int process = 0;  // the gateway's, unless kNobody
};

// The command's side: waits until the gateway of that file, if one runs, has followed to `number`.
net::Task<FollowedBy> AwaitFollowed(net::Loop& loop, std::string path, uint64_t number,
                                    conf::Duration patience);

}  // namespace gateway::store
