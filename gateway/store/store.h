// Store: the durable state that is not history: keys, workloads, cordons, positions of sinks. One interface;
// the backends are SQLite (sqlite_store.h) and, for several gateways, PostgreSQL.
//
// An object is (kind, id, version, body). All changes have numbers in one sequence, 1, 2, 3, …; the version
// of an object is the number of the change that wrote it, so a version is never used twice, even when an
// object is removed and made again. A write names the version that it replaces.
//
// A copy in memory is loaded by List and kept current by Changes (follower.h does both). Changes returns the last state
// of each changed object, not the states between: an object that was written three times appears once. Steps that must
// all be seen are written as objects of their own.
//
// Errors, the same from every backend:
//   Aborted            an object has another version than the write names; nothing was written
//   InvalidArgument    the write is malformed: an empty kind or id, a body that is too large
//   ResourceExhausted  no space is left for the change, or too many operations wait; nothing was written
//   Unavailable        the store does not answer, or another process locks it; nothing was written
//   Unknown            the store failed during the commit; read before trying again
//   PermissionDenied   (Commit with an epoch) that epoch no longer leads; nothing was written
//   OutOfRange         (Changes) the removals after that number are forgotten: List again
//   DataLoss           the store is damaged
//
// Thread: made, used and destroyed on one loop's thread, which no call blocks. No request waits for the store: shards
// read copies.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/task.h"

namespace gateway::store {

inline constexpr size_t kMaxNameBytes = 512;      // of a kind and of an id
inline constexpr size_t kMaxBodyBytes = 1 << 20;  // of one object
inline constexpr size_t kMaxAboutBytes = 4096;    // of a leader's description of itself

struct Object {
  std::string kind;
  std::string id;
  uint64_t version = 0;
  std::string body;

  bool operator==(const Object&) const = default;
};

struct Write {
  std::string kind;
  std::string id;
  uint64_t replaces = 0;            // the version that is there now; 0: no such object
  std::optional<std::string> body;  // absent: the object is removed

  static Write Create(std::string kind, std::string id, std::string body) {
    return {std::move(kind), std::move(id), 0, std::move(body)};
  }
  static Write Replace(const Object& old, std::string body) {
    return {old.kind, old.id, old.version, std::move(body)};
  }
  static Write Remove(const Object& old) { return {old.kind, old.id, old.version, std::nullopt}; }
};

// The numbers that the writes of one transaction were given, in their order.
struct Committed {
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t VersionOf(size_t write) const { return first + write; }
};

struct Listing {
  uint64_t number = 0;          // the last change that the objects show
  std::vector<Object> objects;  // by kind and id
};

struct Change {
  uint64_t number = 0;
  std::string id;
  std::optional<std::string> body;  // absent: the object was removed

  bool operator==(const Change&) const = default;
};

struct ChangeList {
  uint64_t number = 0;          // the last change that is in this list, or that concerns other kinds
  std::vector<Change> changes;  // by number
  bool more = false;            // there are more now: ask again, after `number`
};

// Who drives: at most one holder at a time, by the store's clock. Each new term has the next epoch.
struct Lead {
  uint64_t epoch = 0;
  std::string holder{};
  bool mine = false;      // the asking holder's
  conf::Duration left{};  // until it ends, unless it is renewed
  std::string about{};    // the holder's description of itself
};

class Store {
 public:
  // Hears, on the loop's thread, of changes up to `number` by any process; and that the store cannot be
  // read any more, with the reason, or (Ok) can be read again.
  class Listener {
   public:
    virtual void OnChange(uint64_t number) = 0;
    virtual void OnHealth(const absl::Status&) {}
    // The store was put back to an older state: a copy must be loaded again.
    virtual void OnRestored() {}

   protected:
    ~Listener() = default;
  };

  virtual ~Store() = default;

  // Absent when there is no such object.
  virtual net::Task<absl::StatusOr<std::optional<Object>>> Get(std::string kind, std::string id) = 0;

  // All objects of a kind at one moment; without a kind, of all kinds.
  virtual net::Task<absl::StatusOr<Listing>> List(std::string kind) = 0;

  // Up to `limit` objects of a kind whose ids follow `after`, by id, at one moment; fewer: these were the last. For
  // kinds that are too large for one answer. They may change from page to page; Changes returns these changes.
  virtual net::Task<absl::StatusOr<Listing>> ListPage(std::string kind, std::string after, size_t limit) = 0;

  // The changes of a kind after the change `after`: up to a page; `more`: further ones follow. A copy shows a whole
  // transaction only when no more changes follow.
  virtual net::Task<absl::StatusOr<ChangeList>> Changes(std::string kind, uint64_t after) = 0;

  // All writes or none; at least one, and an object at most once. Durable when it returns Ok. `epoch`: only if
  // that term still leads (PermissionDenied); 0: any leader.
  virtual net::Task<absl::StatusOr<Committed>> Commit(std::vector<Write> writes, uint64_t epoch = 0) = 0;

  // Takes the lead in a new epoch if it is free; renews it if `holder` has it; otherwise returns its holder.
  // A store that only one process can use gives the lead to the holder that asks last. Durable.
  virtual net::Task<absl::StatusOr<Lead>> Campaign(std::string holder, std::string about,
                                                   conf::Duration ttl) = 0;

  // The present leader, without a campaign; epoch 0: none.
  virtual net::Task<absl::StatusOr<Lead>> Leader() = 0;

  // Gives the lead back before it ends. Nothing happens if that holder does not lead in that epoch.
  virtual net::Task<absl::Status> Resign(std::string holder, uint64_t epoch) = 0;

  // Numbers up to this one count as used: for a store that continues another one.
  virtual net::Task<absl::Status> SkipTo(uint64_t number) = 0;

  // A listener is notified of every change from now on, within 100 ms. It must be removed before it goes.
  virtual void Add(Listener& listener) = 0;
  virtual void Remove(Listener& listener) = 0;
};

// The checks of every backend before it writes.
absl::Status CheckWrites(const std::vector<Write>& writes);
absl::Status CheckHolder(const std::string& holder, const std::string& about);

// The errors that every backend words in the same way.
absl::Status OtherVersionError(const Write& write, uint64_t stored);
absl::Status DeposedError(uint64_t epoch, uint64_t leading);

}  // namespace gateway::store
