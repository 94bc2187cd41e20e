// SharedKeys: the content keys that seal shared files. They lie in the store, one for each tenant, wrapped under
// ledger.content_key, which all gateways must have; so each of them can read what another has sealed.
//
// Owner: Files. Thread: the loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/content_keys.h"
#include "gateway/net/loop.h"
#include "gateway/store/store.h"
#include "gateway/store/stored_copy.h"

namespace gateway::batches {

struct SharedKey {
  std::string tenant = {};
  std::string id = {};
  std::string wrapped = {};        // hex
  ledger::ContentKeyRef key = {};  // null: no master key of this gateway fits
  bool of_old_master = false;      // another master key than the first fits
};
std::string EncodeSharedKey(const SharedKey& key);

class SharedKeys {
 public:
  // All must outlive it. `masters`: have the master keys.
  SharedKeys(net::Loop& loop, store::Store& store, const ledger::ContentKeys& masters);

  // Wraps keys again that are not wrapped under the first master key.
  net::Task<absl::Status> Start();
  net::Task<absl::Status> CatchUp() { return copy_.CatchUp(); }
  void Stop() { copy_.Stop(); }

  // The key of a tenant; made where it has none. Unavailable: it is wrapped under a master key that this gateway
  // does not have.
  net::Task<absl::StatusOr<ledger::ContentKeyRef>> For(std::string tenant);
  // NotFound: there is none of that id, or it was erased; FailedPrecondition: as above.
  absl::StatusOr<ledger::ContentKeyRef> Find(std::string_view id) const;

  // Destroys the keys of a tenant and of the tenants below it, and tells the ledger. Returns them.
  net::Task<absl::StatusOr<std::vector<SharedKey>>> Erase(std::string tenant, std::string by,
                                                          std::string reason);

 private:
  net::Task<absl::Status> WrapAgain();

  store::Store& store_;
  const ledger::ContentKeys& masters_;
  store::StoredCopy<SharedKey> copy_;
};

}  // namespace gateway::batches
