// Reserve, settle, refund: a request's claim on all limits of its path at once, all or nothing.
//
// Reserve() checks and charges every limit from the key to its organisation under one short lock, so no other
// request sees a half-admitted one, and a refused one leaves no trace. The Reservation lives as long as the
// request's stream: Settle() replaces what was reserved by what was used, and however it ends, the
// concurrency permit is returned. All functions may be called from every thread; one Reservation belongs to
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

// The demand of a request. Token counts are per choice, except input_tokens_est.
struct ReserveRequest {
  int64_t input_tokens_est = 0;
  std::optional<int64_t> output_tokens_bound;  // the request's own bound (max_tokens), per choice
  int64_t output_tokens_default = 0;  // the bound for a request that sets none; 0: the model's maximum
  // The length that almost all answers without a bound do not exceed. A limit per minute admits one that may
  // take as much, and lets it take a part of what else is left. 0: not known, it may take all.
  int64_t output_tokens_usual = 0;
  int64_t output_tokens_floor = 1;  // a request waits rather than be bounded below this
  int64_t model_max_output = 0;     // 0: unknown
  int64_t choices = 1;
  Price price = {};
  bool priced = true;  // false: no budget in money admits it
  Usage units = {};    // what is not counted in tokens
  // The kinds of devices that the model holds; empty: device budgets do not apply.
  std::span<const std::string> devices = {};
};

class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept = default;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Refund(); }

  explicit operator bool() const { return plans_ != nullptr; }  // it has something to settle or refund

  // The request was sent to a replica: from now on a refund keeps its count as one request.
  void MarkForwarded() { forwarded_ = true; }

  // Charges what was used instead of what was reserved, in the same second and period, and releases the
  // permit. Returns the cost in micro-USD, which is all that it does on an empty reservation.
  int64_t Settle(const Usage& actual);

  // Claims what `ask` wants of another model instead of what is reserved, since that model serves the
  // request. False, and nothing has changed, where its limits refuse; kAlways leaves them no choice.
  // `output_cap` becomes the new grant's.
  enum class Move : uint8_t { kIfAdmitted, kAlways };
  bool MoveTo(ModelRef model, const ReserveRequest& ask, Move move, conf::TimePoint now,
              std::optional<int64_t>& output_cap);

  // Gives back everything, except the request's count if it was forwarded. Does nothing on an empty
  // reservation.
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
  // Per choice; set when the request has no bound and needs one: the shell writes it into the forwarded body.
  std::optional<int64_t> output_cap;
};

// Why a request was refused: of the refusing limits the one with the longest wait.
struct Refusal {
  std::string_view limit;                // `tokens_per_minute`, or kRemoved
  std::optional<Dimension> dimension{};  // of the limit; none with kRemoved
  std::string scope{};                   // `acme/search`
  std::string model{};                   // empty: any
  std::string device{};                  // of a device budget: the kind; empty: any
  int64_t capacity = 0;
  int64_t used = 0;   // reservations in flight included
  int64_t asked = 0;  // in the limit's unit
  Retry retry = Retry::kNever;
  conf::Duration retry_after{};  // zero with Retry::kNever

  // Whether a retry soon may succeed: `x-should-retry`.
  bool RetryHelps() const { return retry == Retry::kAfter; }

  // For the error object: `acme/search: tokens_per_minute is 1000, 800 used, 300 asked`.
  std::string Message() const;
};

// Refusal::limit where a budget in money applies and the model has no price for what is asked.
inline constexpr std::string_view kUnpriced = "unpriced";

// Refusal::limit when the node was removed while the request still held it.
inline constexpr std::string_view kRemoved = "removed";

using ReserveResult = std::variant<Grant, Refusal>;

// Charges device time, in milliseconds, to the device budgets of the node's path, in the period of `at` if
// that is the present one. For a model's replicas these are the budgets of the model and of all models; for
// other work (kUnnamed) those of all models.
void ChargeDevices(const NodeRef& node, ModelRef model, std::string_view device, int64_t milliseconds,
                   conf::TimePoint at, conf::TimePoint now);

// The used-up device budget on the node's path that admits no more devices of these kinds until its next period;
// absent when there is none.
std::optional<Refusal> DevicesUsedUp(const NodeRef& node, std::span<const std::string> devices,
                                     conf::TimePoint now);

ReserveResult Reserve(const NodeRef& node, ModelRef model, const ReserveRequest& ask, conf::TimePoint now);

}  // namespace router::limits
