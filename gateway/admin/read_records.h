// ReadRecords: the ledger's records of reads through the admin API. Reads of one thing by one caller within ten
// minutes are one record, so that a caller who follows a log does not fill the ledger.
//
// Bounded: beyond kMaxRecent pairs of caller and thing the oldest is forgotten, and its next read recorded.
// Owner: the admin server. Thread: the control loop's.
#pragma once

#include <map>
#include <string>

#include "conf/time.h"
#include "gateway/admin/operations.h"
#include "gateway/admin/route.h"

namespace gateway::admin {

class ReadRecords {
 public:
  static constexpr size_t kMaxRecent = 4096;
  static constexpr conf::Duration kWindow = std::chrono::minutes(10);

  explicit ReadRecords(const Operations& operations) : operations_(operations) {}

  // A call that was checked, to a route with a `read`.
  void Note(const Route& route, const Call& call);

 private:
  const Operations& operations_;
  std::map<std::string, conf::TimePoint> recent_;  // when it was last recorded, by caller and thing
};

}  // namespace gateway::admin
