// Faults on demand: which requests they apply to, and how those fail.
//
// As a flag: KIND[:ARG][@P | @every:N | @first:N], for instance stall:5@0.1 or 500@every:3. At run time as
// JSON, with the fields kind, arg, probability, every, first, and api (a name as in --only, or health or
// metrics; absent: all that do a model's work).
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/engine/api.h"
#include "tools/engine/prose.h"
#include "tools/engine/schema.h"

namespace tidegate_engine {

enum class FaultKind : uint8_t {
  kRefuse,  // the connection is closed right after accept
  k500,
  k503,
  k429,          // arg: seconds of Retry-After
  kHang,         // no byte is ever sent
  kStall,        // arg: tokens, after which nothing more is sent
  kDrop,         // arg: tokens after which the connection is reset
  kBadChunk,     // arg: tokens after which the chunked framing breaks
  kBadJson,      // arg: tokens after which an event is cut in its middle
  kSlowHeaders,  // arg: milliseconds for each byte of the head
  kEndless,      // generation never ends
};

struct Fault {
  FaultKind kind = FaultKind::k500;
  uint32_t arg = 0;
  std::string api;  // empty: every model API
  double probability = 1;
  uint32_t every = 0;  // each N-th request; 0: by probability
  uint32_t first = 0;  // only the first N requests; 0: all
  uint64_t seen = 0;   // requests that it could have applied to
  uint64_t fired = 0;
};

absl::StatusOr<Fault> ParseFault(std::string_view text);
absl::StatusOr<Fault> FaultFromJson(const Json& json);
Json ToJson(const Fault& fault);

class Faults {
 public:
  explicit Faults(uint64_t seed) : draw_(seed) {}

  void Add(Fault fault) { faults_.push_back(std::move(fault)); }
  void Clear() { faults_.clear(); }
  bool empty() const { return faults_.empty(); }
  const std::vector<Fault>& list() const { return faults_; }

  // The first fault that applies to this request, and its argument; refusals are checked separately, at
  // accept.
  std::optional<Fault> Pick(Api api);
  bool PickRefusal();

 private:
  bool Fires(Fault& fault);

  std::vector<Fault> faults_;
  Draw draw_;
};

}  // namespace tidegate_engine
