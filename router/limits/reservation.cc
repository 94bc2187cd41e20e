#include "router/limits/reservation.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "conf/reader.h"

namespace router::limits {
namespace {

Amounts AmountsOf(int64_t input, int64_t output, int64_t micro_usd) {
  Amounts a;
  a[Dimension::kRequests] = 1;
  a[Dimension::kTokens] = input + output;
  a[Dimension::kInputTokens] = input;
  a[Dimension::kOutputTokens] = output;
  a[Dimension::kConcurrency] = 1;
  a[Dimension::kBudget] = micro_usd;
  a[Dimension::kTokenBudget] = input + output;
  return a;
}

// How many output tokens fit into what `remaining` leaves of a dimension after the input.
int64_t OutputWithin(Dimension dimension, int64_t remaining, int64_t input, const ReserveRequest& ask) {
  switch (dimension) {
    case Dimension::kTokens:
    case Dimension::kTokenBudget:
      return remaining - input;
    case Dimension::kOutputTokens:
      return remaining;
    case Dimension::kBudget:
      return ask.price.ForReserving().OutputFor(remaining - ask.price.Cost(ask.units), input);
    case Dimension::kRequests:
    case Dimension::kInputTokens:
    case Dimension::kConcurrency:
    case Dimension::kDeviceBudget:
      break;
  }
  return kMaxTokens;
}

// Whether the limit applies to a request or to work that holds such devices.
bool Concerns(const Limit& limit, std::span<const std::string> devices) {
  if (limit.dimension() != Dimension::kDeviceBudget) return true;
  const std::string& kind = limit.spec().device;
  return kind.empty() ? !devices.empty() : std::ranges::find(devices, kind) != devices.end();
}

int64_t OfAll(int64_t each, int64_t choices) {
  int64_t all = 0;
  return __builtin_mul_overflow(each, choices, &all) ? kMaxTokens : std::min(all, kMaxTokens);
}

int64_t Positive(int64_t v, int64_t otherwise) {
  return v > 0 ? std::min(v, kMaxTokens) : otherwise;
}

// The refusing limit with the longest wait, and that wait.
struct WorstRefusal {
  const Limit* limit = nullptr;
  int64_t capacity = 0;
  int64_t used = 0;
  int64_t asked = 0;
  Limit::Wait wait{};

  void Take(Limit& refuses, int64_t amount, const Moment& now) {
    const Limit::Wait its = refuses.WaitFor(now, amount);
    const bool worse = limit == nullptr || its.retry > wait.retry ||
                       (its.retry == wait.retry && its.retry_after > wait.retry_after);
    if (worse) *this = {&refuses, refuses.Capacity(), refuses.Used(now), amount, its};
  }
};

Refusal RefusalOf(const WorstRefusal& worst) {
  return {.limit = worst.limit->name(),
          .dimension = worst.limit->dimension(),
          .scope = worst.limit->scope(),
          .model = worst.limit->spec().model,
          .device = worst.limit->spec().device,
          .capacity = worst.capacity,
          .used = worst.used,
          .asked = worst.asked,
          .retry = worst.wait.retry,
          .retry_after = worst.wait.retry_after};
}

}  // namespace

// One attempt to reserve. Needs the root's lock.
class Reserver {
 public:
  Reserver(const Plan& plan, const ReserveRequest& ask, const Moment& now)
      : plan_(plan),
        ask_(ask),
        now_(now),
        choices_(std::clamp<int64_t>(ask.choices, 1, kMaxTokens)),
        input_(std::clamp<int64_t>(ask.input_tokens_est, 0, kMaxTokens)),
        each_(ChooseOutput()),
        output_(OfAll(each_.tokens, choices_)),
        micro_usd_(CostOf(ask, input_, output_)),
        amounts_(AmountsOf(input_, output_, micro_usd_)) {}

  bool Admitted() const {
    return std::all_of(plan_.limits.begin(), plan_.limits.end(), [&](Limit* limit) {
      return limit->Admits(now_, amounts_[limit->dimension()]) || !Concerns(*limit, ask_.devices);
    });
  }

  Grant Charge(std::shared_ptr<const PlanSet> plans) const {
    Grant grant;
    grant.reservation.plans_ = std::move(plans);
    Charge(grant.reservation);
    grant.output_cap = each_.cap;
    return grant;
  }

  // `r`, which has no claim any more, gets this one.
  void Charge(Reservation& r) const {
    for (Limit* limit : plan_.limits) limit->Reserve(now_, amounts_[limit->dimension()]);
    r.plan_ = &plan_;
    r.at_ = now_;
    r.price_ = ask_.price;
    r.input_ = input_;
    r.output_ = output_;
    r.micro_usd_ = micro_usd_;
  }

  std::optional<int64_t> output_cap() const { return each_.cap; }

  WorstRefusal Refuse() const {
    WorstRefusal worst;
    for (Limit* limit : plan_.limits) {
      const int64_t asked = amounts_[limit->dimension()];
      if (limit->Admits(now_, asked) || !Concerns(*limit, ask_.devices)) continue;
      limit->NoteRefused(asked);
      worst.Take(*limit, asked, now_);
    }
    return worst;
  }

 private:
  // The output of one choice.
  struct Output {
    int64_t tokens = 0;          // what is reserved
    std::optional<int64_t> cap;  // the bound that the request needs: the same, unless the model's own is
  };

  static int64_t CostOf(const ReserveRequest& ask, int64_t input, int64_t output) {
    Usage usage = ask.units;
    usage.input = input;
    usage.output = output;
    return ask.price.ForReserving().Cost(usage);
  }

  // The room for one choice's output, and the room if nothing else were charged.
  struct Room {
    int64_t now = kMaxTokens;
    int64_t empty = kMaxTokens;
  };
  template <class Counts>
  Room RoomIn(const Counts& counts) const {
    Room room;
    for (Limit* limit : plan_.limits) {
      if (!counts(ShapeOf(limit->dimension()))) continue;
      room.now = std::min(room.now, OutputWithin(limit->dimension(), limit->Remaining(now_), input_, ask_));
      room.empty = std::min(room.empty, OutputWithin(limit->dimension(), limit->Effective(), input_, ask_));
    }
    return {room.now / choices_, room.empty / choices_};
  }

  // The bound, per choice, of a request that sets none: what the model and the operator allow, or what the
  // limits leave if that is less; the floor when that is below it, so that the request waits. What is
  // reserved is the bound, so that no number of such requests overshoots a limit. A limit per minute gives a
  // part of what it has, where it is known what is usual, so that others are admitted meanwhile.
  Output ChooseOutput() const {
    if (ask_.output_tokens_bound) return {std::clamp<int64_t>(*ask_.output_tokens_bound, 0, kMaxTokens), {}};
    if (!plan_.counts_output) return {};
    const int64_t model = Positive(ask_.model_max_output, kMaxTokens);
    const int64_t most = std::min(model, Positive(ask_.output_tokens_default, kMaxTokens));
    int64_t each = 0;
    if (ask_.output_tokens_usual <= 0) {
      each = Bounded(RoomIn([](Shape) { return true; }), ask_.output_tokens_floor, most);
    } else {
      Room periods = RoomIn([](Shape shape) { return shape == Shape::kPeriod; });
      Room windows = RoomIn([](Shape shape) { return shape == Shape::kWindow; });
      const int64_t unlimited = kMaxTokens / choices_;
      if (std::min(periods.empty, windows.empty) == unlimited) return {};
      const int64_t budgeted = Bounded(periods, ask_.output_tokens_floor, most);
      const int64_t usual = std::min(ask_.output_tokens_usual, budgeted);
      if (windows.now < unlimited) windows.now = PartOf(windows.now, usual);
      each = Bounded(windows, usual, budgeted);
    }
    return {each, each < model ? std::optional(each) : std::nullopt};
  }

  // The part of a minute's room that one answer may take beyond the usual: half of the rest of a small limit, where long
  // answers matter more than many, and an eighth of a large one.
  static int64_t PartOf(int64_t room, int64_t usual) {
    constexpr int64_t kLong = 8;  // usual answers; hardly any is longer
    const int64_t rest = room - usual;
    if (rest <= 0) return room;
    return usual + std::max(rest / 8, std::min(rest / 2, OfAll(usual, kLong)));
  }

  static int64_t Bounded(const Room& room, int64_t floor, int64_t most) {
    return std::clamp(room.now, std::clamp<int64_t>(std::min(floor, room.empty), 1, most), most);
  }

  const Plan& plan_;
  const ReserveRequest& ask_;
  const Moment& now_;
  const int64_t choices_;
  const int64_t input_;
  const Output each_;
  const int64_t output_;
  const int64_t micro_usd_;
  const Amounts amounts_;
};

ReserveResult Reserve(const NodeRef& node, ModelRef model, const ReserveRequest& ask, conf::TimePoint now) {
  std::shared_ptr<const PlanSet> plans;
  WorstRefusal worst;
  {
    const std::scoped_lock lock(node->root->lock);
    plans = node->plans;
    if (plans) {
      const Plan& plan = plans->For(model);
      if (plan.counts_money && !ask.priced) return Refusal{.limit = kUnpriced, .scope = node.path()};
      const Reserver reserver(plan, ask, node->root->Advance(now));
      if (reserver.Admitted()) return reserver.Charge(std::move(plans));
      worst = reserver.Refuse();
    }
  }
  if (!plans) {
    Refusal refusal;
    refusal.limit = kRemoved;
    refusal.scope = node.path();
    return refusal;
  }
  return RefusalOf(worst);
}

void ChargeDevices(const NodeRef& node, ModelRef model, std::string_view device, int64_t milliseconds,
                   conf::TimePoint at, conf::TimePoint now) {
  const std::scoped_lock lock(node->root->lock);
  if (!node->plans) return;
  const Moment& moment = node->root->Advance(now);
  for (Limit* limit : node->plans->For(model).limits) {
    const LimitSpec& spec = limit->spec();
    if (spec.dimension != Dimension::kDeviceBudget || (!spec.device.empty() && spec.device != device))
      continue;
    limit->Charge(moment, at, milliseconds);
  }
}

std::optional<Refusal> DevicesUsedUp(const NodeRef& node, std::span<const std::string> devices,
                                     conf::TimePoint now) {
  std::shared_ptr<const PlanSet> plans;
  WorstRefusal worst;
  {
    const std::scoped_lock lock(node->root->lock);
    plans = node->plans;
    if (!plans) return std::nullopt;
    const Moment& moment = node->root->Advance(now);
    for (Limit* limit : plans->any_model.limits) {
      if (limit->dimension() != Dimension::kDeviceBudget || !Concerns(*limit, devices)) continue;
      if (!limit->Admits(moment, 0)) worst.Take(*limit, 0, moment);
    }
  }
  if (worst.limit == nullptr) return std::nullopt;
  return RefusalOf(worst);
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Refund();
  plans_ = std::move(other.plans_);
  plan_ = other.plan_;
  at_ = other.at_;
  price_ = other.price_;
  input_ = other.input_;
  output_ = other.output_;
  micro_usd_ = other.micro_usd_;
  forwarded_ = other.forwarded_;
  return *this;
}

int64_t Reservation::Settle(const Usage& actual) {
  const Usage usage = Sane(actual);
  const int64_t cost = price_.Cost(usage);
  if (plans_) Close(usage, cost, true);
  return cost;
}

void Reservation::Refund() {
  if (plans_) Close({}, 0, forwarded_);
}

bool Reservation::MoveTo(ModelRef model, const ReserveRequest& ask, Move move, conf::TimePoint now,
                         std::optional<int64_t>& output_cap) {
  if (!plans_) return true;
  const std::scoped_lock lock(plans_->root->lock);
  const Plan& to = plans_->For(model);
  const bool always = move == Move::kAlways;
  if (to.counts_money && !ask.priced && !always) return false;
  // The request's own claim must not refuse it.
  const Amounts reserved = AmountsOf(input_, output_, micro_usd_);
  for (Limit* limit : plan_->limits) limit->Settle(at_, reserved[limit->dimension()], 0);
  const Moment& moment = plans_->root->Advance(now);
  const Reserver reserver(to, ask, moment);
  if (always || reserver.Admitted()) {
    reserver.Charge(*this);
    output_cap = reserver.output_cap();
    return true;
  }
  at_ = moment;
  for (Limit* limit : plan_->limits) limit->Reserve(moment, reserved[limit->dimension()]);
  return false;
}

void Reservation::Close(const Usage& actual, int64_t cost, bool forwarded) {
  const Amounts reserved = AmountsOf(input_, output_, micro_usd_);
  Amounts used = AmountsOf(actual.input, actual.output, cost);
  used[Dimension::kRequests] = forwarded ? 1 : 0;
  used[Dimension::kConcurrency] = 0;
  {
    const std::scoped_lock lock(plans_->root->lock);
    for (Limit* limit : plan_->limits) {
      limit->Settle(at_, reserved[limit->dimension()], used[limit->dimension()]);
    }
  }
  plans_.reset();
}

std::string Refusal::Message() const {
  if (limit == kRemoved) return fmt::format("{}: no longer exists", scope);
  if (limit == kUnpriced) return fmt::format("{} has a budget in money, and this has no price", scope);
  const std::string where = model.empty() ? scope : fmt::format("{} for model {}", scope, model);
  if (limit.starts_with("device_budget")) {
    constexpr double kHour = 3'600'000;  // ms
    return fmt::format("{}: {} is {:g} device-hours{}{}, {:.3f} used", where, limit,
                       static_cast<double>(capacity) / kHour, device.empty() ? "" : " of ", device,
                       static_cast<double>(used) / kHour);
  }
  if (dimension == Dimension::kBudget) {
    return fmt::format("{}: {} is {} USD, {} USD used, {} USD asked", where, limit,
                       conf::FormatMicroUsd(capacity), conf::FormatMicroUsd(used),
                       conf::FormatMicroUsd(asked));
  }
  return fmt::format("{}: {} is {}, {} used, {} asked", where, limit, capacity, used, asked);
}

}  // namespace router::limits
