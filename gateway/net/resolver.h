// Resolver: looks up the addresses of names on threads of its own, for all loops of the process.
//
// A look-up cannot be interrupted, but a wait for one can: the waiter leaves, and the answer is kept for the
// next one. Each name is looked up once at a time, a few names at once. An answer is used again for a moment
// without asking and, when no name server answers, for as long as that lasts: an outage of the name server
// does not move a replica. A name that no longer exists is forgotten.
//
// Owner: the process. Any thread. Bounded by `max_names`: names that were not asked for longest are
// forgotten.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <boost/asio/ip/address.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "conf/time.h"
#include "gateway/net/stream.h"
#include "gateway/net/task.h"

namespace gateway::net {

using Addresses = std::vector<asio::ip::address>;

struct Resolved {
  ErrorCode error;
  Addresses addresses;
};

class Resolver {
 public:
  // Blocks. asio::error::host_not_found: the name does not exist; any other error: unknown.
  using Lookup = std::function<Resolved(const std::string& name)>;
  struct Options {
    size_t threads = 4;
    size_t max_names = 1024;
    conf::Duration fresh = std::chrono::seconds(1);            // used without asking again
    conf::Duration patience = std::chrono::milliseconds(500);  // for a new answer, if an older one is known
  };

  explicit Resolver(Options options, Lookup lookup = SystemLookup);
  ~Resolver();  // waits for the look-ups under way
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Never destroyed: a look-up may hang when the process ends.
  static Resolver& OfProcess();
  // A look-up by the C library, with the system's settings: hosts file, DNS, and so on.
  static Resolved SystemLookup(const std::string& name);

  // One wait for one name, on one loop's thread. Lives until Get() has returned.
  class Wait {
   public:
    Wait(Resolver& resolver, IoContext& io) : resolver_(resolver), io_(io) {}
    Task<Resolved> Get(std::string name);
    // Get() returns soon with operation_aborted, whatever the look-up does.
    void Abort();

   private:
    friend class Resolver;
    struct State;
    Resolver& resolver_;
    IoContext& io_;
    std::shared_ptr<State> state_;
  };

 private:
  using Waiting = std::shared_ptr<Wait::State>;
  struct Name {
    Addresses last_good;
    conf::TimePoint found_at{};
    conf::TimePoint asked_at{};
    bool looking = false;
    std::vector<Waiting> waiting;
  };

  // The answer, if it is known at once; otherwise `waiting` gets it, on its loop, unless it leaves before.
  std::optional<Resolved> Ask(const Waiting& waiting);
  void Leave(const Waiting& waiting);
  Addresses LastGood(const std::string& name);

  // With the lock held.
  Name* Find(const std::string& name);
  void Answer(Name& name, Resolved found);

  void Work();

  const Options options_;
  const Lookup lookup_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  absl::flat_hash_map<std::string, std::unique_ptr<Name>> names_;
  std::deque<std::string> queue_;  // each name once
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace gateway::net
