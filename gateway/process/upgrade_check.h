// What a start of this version finds in the state folder of the version that ran last, and what it does with it: for
// `tidegate upgrade-check`, before the upgrade. Reads only, also beside a running gateway; a file that is missing has
// nothing to upgrade.
//
// Main thread; blocks on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conf/sources.h"
#include "gateway/config/config.h"

namespace gateway {

struct UpgradeFinding {
  enum class Effect : uint8_t {
    kKept,     // used as it is
    kChanged,  // rewritten, rebuilt or read otherwise
    kRefused,  // this version does not start with it, or loses something
    kUnread,   // cannot be told: this user may not read it, or it is damaged
  };
  std::string part;  // "store", "ledger", ...
  Effect effect = Effect::kKept;
  std::string message;
};

struct UpgradeReport {
  std::string from;  // the version that started last on this state folder; empty: the ledger does not say
  int process = 0;   // of the gateway that runs there now; 0: none does
  std::vector<UpgradeFinding> findings;

  bool Has(UpgradeFinding::Effect effect) const;
};

// `sources` are those that the configuration was loaded with.
UpgradeReport CheckUpgrade(const Config& config, const conf::Sources& sources);

// Whether version `a` ("1.10.2") comes before `b`. Numbers are compared as numbers; what follows a "-" or "+" is
// ignored.
bool IsOlderVersion(std::string_view a, std::string_view b);

std::string_view Name(UpgradeFinding::Effect effect);

}  // namespace gateway
