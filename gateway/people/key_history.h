// KeyHistory: the API keys, rebuilt after the store was lost: from what can still be read of the damaged
// store, and from the ledger.
//
// The ledger never has a key's hash, so a key that cannot be read of the damaged store is lost, and is only
// named. What the ledger says of a key that can be read counts: one that was revoked or replaced stays so.
//
// Pure. Used by `tidegate state rebuild`, while no gateway runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/parse.h"
#include "gateway/store/store.h"

namespace gateway {

class KeyHistory {
 public:
  // Takes the ledger's records in order. Ignores records that are not about keys.
  void Take(const ledger::Record& record);

  struct Key {
    std::string id;
    std::string tenant;  // empty: an admin key's
    std::string name;
  };
  struct Rebuilt {
    std::vector<store::Write> writes;
    uint64_t kept = 0;
    std::vector<Key> lost{};  // that worked, and have to be made anew
  };
  // `stored`: what can be read of the damaged store. Keys and their events that this version cannot read are
  // left out.
  Rebuilt Rebuild(const std::vector<store::Object>& stored, conf::TimePoint now) const;

  // Whether a key with the role admin was ever made.
  bool had_admin_key() const { return had_admin_key_; }

 private:
  struct Past {
    Key key;
    bool made = false;  // the ledger tells of its making
    std::optional<conf::TimePoint> expires;
    std::optional<conf::TimePoint> revoked;
    std::string replaced_by;
    std::optional<conf::TimePoint> overlap_until;
  };

  std::map<std::string, Past> keys_;
  bool had_admin_key_ = false;
};

}  // namespace gateway
