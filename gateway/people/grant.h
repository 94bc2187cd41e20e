// A grant is what a tenant has for a time beside its configuration; a request asks for one. Pure; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"

namespace gateway {

// Devices that the planner keeps for jobs of the tenant and those below it.
struct DeviceAllowance {
  std::string kind = {};  // as the cluster names it
  uint32_t count = 0;     // whole devices

  bool operator==(const DeviceAllowance&) const = default;
};

// What is given, or asked for.
struct Allowance {
  std::vector<std::string> models = {};  // by name
  std::string limits = {};               // the new amounts as JSON: key_limits.h; empty: none
  std::optional<uint32_t> weight = {};   // the new share of a queue
  std::optional<DeviceAllowance> devices = {};

  bool empty() const { return models.empty() && limits.empty() && !weight && !devices; }
  bool operator==(const Allowance&) const = default;
};

// "models chat-large", "limits 600 requests/min", "weight 4", "8 devices h100", joined by "; ".
std::string InWords(const Allowance& allowance);

struct TenantGrant {
  std::string id;
  std::string tenant;  // path
  Allowance gives = {};
  conf::TimePoint from = {};
  conf::TimePoint until = {};
  std::string reason = {};
  std::string asked_by = {};                  // empty: it was given without a request
  std::string approved_by = {};               // a caller, or "rule:NAME"
  std::string request = {};                   // id; empty: none
  std::optional<conf::TimePoint> ended = {};  // before or at `until`
  std::string ended_by = {};                  // empty: it ended by itself
  bool reminded = false;                      // people were told that it ends soon

  bool operator==(const TenantGrant&) const = default;

  bool InForce(conf::TimePoint now) const { return !ended && from <= now && now < until; }
};

struct RequestComment {
  std::string by = {};
  conf::TimePoint at = {};
  std::string text = {};

  bool operator==(const RequestComment&) const = default;
};

enum class RequestState : uint8_t { kPending, kApproved, kDeclined, kWithdrawn, kExpired };
inline constexpr conf::Word<RequestState> kRequestStates[] = {{"pending", RequestState::kPending},
                                                              {"approved", RequestState::kApproved},
                                                              {"declined", RequestState::kDeclined},
                                                              {"withdrawn", RequestState::kWithdrawn},
                                                              {"expired", RequestState::kExpired}};
conf::Words<RequestState> WordsOf(RequestState);

struct GrantRequest {
  std::string id;
  std::string tenant;  // path
  Allowance wants = {};
  std::optional<conf::TimePoint> from = {};  // absent: from the approval on
  conf::TimePoint until = {};
  std::string reason = {};
  std::string asked_by = {};
  conf::TimePoint asked = {};
  conf::TimePoint expires = {};  // when nobody has decided
  RequestState state = RequestState::kPending;
  std::string decided_by = {};  // a caller, or "rule:NAME"; empty: nobody
  std::optional<conf::TimePoint> decided = {};
  std::string answer = {};  // of who decided, for the one who asked
  std::string grant = {};   // id, once it is approved
  std::string renews = {};  // id of the grant that it asks to make last longer; empty: it asks for a new one
  std::vector<RequestComment> comments = {};

  bool operator==(const GrantRequest&) const = default;
};

// "gr_" or "rq_" and 16 random digits.
std::string NewId(std::string_view prefix);

std::string EncodeGrant(const TenantGrant& grant);
absl::StatusOr<TenantGrant> DecodeGrant(std::string_view json);
std::string EncodeRequest(const GrantRequest& request);
absl::StatusOr<GrantRequest> DecodeRequest(std::string_view json);

}  // namespace gateway
