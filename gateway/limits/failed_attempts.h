// FailedAttempts: calls without a valid credential, by the address that they came from, those that are
// refused before a credential is looked for included. They are added up, and become one record of the ledger
// a minute, whatever their number; and an address that makes too many is told to wait. Calls with a valid
// credential are never counted, nor delayed by others from their address.
//
// At most kMostAddresses are told apart, IPv6 by its first 64 bits; the rest share one account. Owner: the
// process. Thread-safe; a short lock for each failed call.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/ledger/record.h"

namespace gateway {

class FailedAttempts {
 public:
  static constexpr size_t kMostAddresses = 1024;
  static constexpr std::string_view kOthers = "(others)";

  // One has failed with that stable code. Returns how long its address has to wait, if it has used up
  // `per_minute`, which it may also use at once; 0: no limit.
  std::optional<conf::Duration> Count(std::string_view address, std::string_view code, uint32_t per_minute,
                                      conf::TimePoint now);

  // The record of what failed since the last one; nothing when none did.
  std::optional<ledger::Event> Take(conf::TimePoint now);

 private:
  struct Account {
    std::map<std::string, uint64_t, std::less<>> codes;  // failures since the last record
    double left = 0;                                     // attempts
    conf::TimePoint filled{};
  };
  Account& AccountOf(std::string_view address, uint32_t per_minute, conf::TimePoint now);

  std::mutex mutex_;
  absl::flat_hash_map<std::string, Account> accounts_;
  uint64_t failures_ = 0;
  conf::TimePoint since_{};
};

}  // namespace gateway
