// Reserve, settle, refund: a request's claim on all limits of its path at once, all or nothing.
//
// Reserve() checks and charges every limit from the key to its organisation under one short lock, so nobody
// sees a request half admitted and a refused one leaves no trace. The Reservation then lives with the
// request's stream: Settle() turns what was reserved into what was used, and whatever way it ends, the
// concurrency permit comes back. All functions may be called from every thread; one Reservation belongs to
// one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "conf/time.h"
#include "router/limits/plan.h"
#include "router/limits/price.h"

namespace router::limits {

// What a request wants. Token counts of one choice, but input_tokens; 0 means unknown where it says so.
struct Ask {
  int64_t input_tokens_est = 0;
  std::optional<int64_t> output_tokens_bound;  // what the request itself sets (max_tokens), per choice
  int64_t output_tokens_default = 0;  // the bound for a request that sets none; 0: the model's maximum
  int64_t output_tokens_floor = 1;    // an answer that may not even be this long waits instead
  int64_t model_max_output = 0;       // 0: unknown
  int64_t choices = 1;
  Price price = {};
  // The kinds of devices that are held for the model; none: no budget of devices is asked.
  std::span<const std::string> devices = {};
};

class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept = default;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Refund(); }

  explicit operator bool() const { return plans_ != nullptr; }  // there is something to settle or refund

  // The request was sent to a replica: from now on a refund gives back all but the request itself.
  void MarkForwarded() { forwarded_ = true; }

  // Charges what was used instead of what was reserved, into the same second and period, and releases the
  // permit. Returns the cost in micro-USD. Does nothing but that on an empty reservation.
  int64_t Settle(const Usage& actual);

  // Gives back everything, but the request's count if it was forwarded. Nothing on an empty reservation.
  void Refund();

  int64_t input_tokens() const { return input_; }    // reserved
  int64_t output_tokens() const { return output_; }  // reserved, over all choices
  int64_t micro_usd() const { return micro_usd_; }   // reserved

 private:
  friend class Reserver;
  void Close(const Usage& actual, int64_t cost, bool forwarded);

  std::shared_ptr<const PlanSet> plans_;
  const Plan* plan_ = nullptr;
  Moment at_;
  Price price_;
  int64_t input_ = 0;
  int64_t output_ = 0;
  int64_t micro_usd_ = 0;
  bool forwarded_ = false;
};

struct Grant {
  Reservation reservation;
  // Set when the request gave no bound and must have one, per choice: to be written into what is forwarded.
  std::optional<int64_t> output_cap;
};

// Why not. Of several limits that refuse, the one that takes longest to admit the request.
struct Refusal {
  std::string_view limit;  // `tokens_per_minute`, or kRemoved
  std::string scope{};     // `acme/search`
  std::string model{};     // empty: any
  std::string device{};    // of a budget of devices: the kind; empty: any
  int64_t capacity = 0;
  int64_t used = 0;   // reservations in flight included
  int64_t asked = 0;  // in the limit's unit
  Retry retry = Retry::kNever;
  conf::Duration retry_after{};  // zero with Retry::kNever

  // Whether a client that comes again soon may succeed: `x-should-retry`.
  bool RetryHelps() const { return retry == Retry::kAfter; }

  // For the error object: `acme/search: tokens_per_minute is 1000, 800 used, 300 asked`.
  std::string Message() const;
};

// The limit of a refusal for a node that was removed while someone still held it.
inline constexpr std::string_view kRemoved = "removed";

using Outcome = std::variant<Grant, Refusal>;

// Charges what was held of devices, in milliseconds, to the budgets of the node's path: for a model's
// replicas to those of the model and of any, for anything else (kUnnamed) to the latter. In the period of
// `at`, if that is the present one.
void ChargeDevices(const NodeRef& node, ModelRef model, std::string_view device, int64_t milliseconds,
                   conf::TimePoint at, conf::TimePoint now);

// The budget of devices on the node's path that is used up, and lets nobody hold more of these kinds until
// its next period.
std::optional<Refusal> DevicesUsedUp(const NodeRef& node, std::span<const std::string> devices,
                                     conf::TimePoint now);

Outcome Reserve(const NodeRef& node, ModelRef model, const Ask& ask, conf::TimePoint now);

}  // namespace router::limits
