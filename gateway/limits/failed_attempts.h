// FailedAttempts: counts calls without a valid credential by address, also calls that are refused before their
// credential is checked. They become one record of the ledger a minute, whatever their number. An address with too
// many of them must wait. Calls with a valid credential are never counted, and never delayed by others from the same
// address.
//
// Distinguishes at most kMostAddresses, IPv6 by its first 64 bits; the rest share one account. Owner: the process.
// Thread-safe; a short lock for each failed call.
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

  // Counts a call that failed with this stable code. Returns how long the address has to wait if it has used up its
  // `per_minute` attempts, all of which it may also use at once; 0: no limit.
  std::optional<conf::Duration> Count(std::string_view address, std::string_view code, uint32_t per_minute,
                                      conf::TimePoint now);

  // The record of the failures since the last record; none if there are none.
  std::optional<ledger::Event> Take(conf::TimePoint now);

 private:
  struct Account {
    std::map<std::string, uint64_t, std::less<>> codes;  // failures since the last record
    double left = 0;                                     // remaining attempts
    conf::TimePoint filled{};
  };
  Account& AccountOf(std::string_view address, uint32_t per_minute, conf::TimePoint now);

  std::mutex mutex_;
  absl::flat_hash_map<std::string, Account> accounts_;
  uint64_t failures_ = 0;
  conf::TimePoint since_{};
};

}  // namespace gateway
