// Random trees, asks, settlements, refunds and steps of time against a list of every charge ever made.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "router/limits/reservation.h"
#include "router/limits/tree.h"

namespace router::limits {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string> kModels = {"", "small", "big"};
constexpr Price kPrice{.input = 300'000, .cached_input = 100'000, .output = 1'200'000};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (const std::string& name : kModels) models_.push_back(name.empty() ? ModelRef{} : tree_.Model(name));
    specs_ = RandomTree();
    EXPECT_TRUE(tree_.Update(specs_).ok());
  }

  void Step() {
    now_ += std::chrono::milliseconds(Below(6) == 0 ? Below(30'000) : Below(400));
    if (Below(400) == 0) now_ += std::chrono::hours(Below(24 * 12));
    const int64_t dice = Below(10);
    if (dice < 6 || running_.empty()) {
      TryOne();
    } else {
      FinishOne();
    }
  }

  void FinishAll() {
    while (!running_.empty()) FinishOne();
  }

  // Every counter is what the list of charges says.
  void ExpectNoLeak() {
    const std::vector<LimitRef> limits = tree_.Limits();
    for (const LimitRef& limit : limits) {
      const LimitState state = limit.State(now_);
      EXPECT_EQ(state.reserved, 0) << limit.Id();
      EXPECT_EQ(state.used, Sum(limit, Since(limit, true))) << limit.Id();
      if (state.dimension == Dimension::kConcurrency) EXPECT_EQ(state.used, 0);
    }
    now_ += 61s;
    for (const LimitRef& limit : limits) {
      if (ShapeOf(limit.spec().dimension) == Shape::kWindow)
        EXPECT_EQ(limit.State(now_).used, 0) << limit.Id();
    }
  }

  int64_t granted() const { return granted_; }
  int64_t refused() const { return refused_; }

 private:
  struct Charge {
    std::string leaf;
    std::string model;
    conf::TimePoint at;
    int64_t requests = 1;
    int64_t input = 0;
    int64_t output = 0;
    int64_t micro_usd = 0;
    int64_t running = 1;
  };
  struct Running {
    size_t charge;
    Reservation reservation;
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  std::vector<NodeSpec> RandomTree() {
    std::vector<NodeSpec> nodes;
    for (const char* root : {"acme", "zeta"}) {
      nodes.push_back({root, RandomLimits(4)});
      for (const char* team : {"/search", "/chat"}) {
        nodes.push_back({std::string(root) + team, RandomLimits(3)});
        for (const char* key : {"/k1", "/k2"}) {
          nodes.push_back(
              {nodes.back().path.substr(0, nodes.back().path.find(team)) + team + key, RandomLimits(2)});
          leaves_.push_back(nodes.back().path);
        }
      }
    }
    return nodes;
  }

  std::vector<LimitSpec> RandomLimits(int64_t most) {
    constexpr int64_t kCapacities[kDimensions] = {30, 4000, 2000, 2500, 12, 20'000, 90'000, 5000};
    std::vector<LimitSpec> limits;
    for (int64_t i = Below(most + 1); i > 0; --i) {
      const auto d = static_cast<size_t>(Below(kDimensions));
      LimitSpec spec{static_cast<Dimension>(d), 1 + kCapacities[d] / 4 + Below(kCapacities[d]),
                     static_cast<Period>(Below(kPeriods)), kModels[static_cast<size_t>(Below(3))]};
      const bool known =
          std::any_of(limits.begin(), limits.end(), [&](const auto& l) { return l.SameLimit(spec); });
      if (!known) limits.push_back(spec);
    }
    return limits;
  }

  static int64_t AmountOf(const Charge& c, Dimension d) {
    switch (d) {
      case Dimension::kRequests:
        return c.requests;
      case Dimension::kTokens:
      case Dimension::kTokenBudget:
        return c.input + c.output;
      case Dimension::kInputTokens:
        return c.input;
      case Dimension::kOutputTokens:
        return c.output;
      case Dimension::kConcurrency:
        return c.running;
      case Dimension::kBudget:
        return c.micro_usd;
      case Dimension::kDeviceBudget:
        break;  // no request charges it
    }
    return 0;
  }

  static bool Applies(const LimitRef& limit, const Charge& c) {
    const bool on_path = c.leaf == limit.scope() || c.leaf.starts_with(limit.scope() + "/");
    return on_path && (limit.spec().model.empty() || limit.spec().model == c.model);
  }

  // From when charges count now: for windows the 60 s that no limit may be exceeded in, or, by the whole
  // second, what the limit itself counts.
  conf::TimePoint Since(const LimitRef& limit, bool by_second) const {
    const LimitSpec& spec = limit.spec();
    switch (ShapeOf(spec.dimension)) {
      case Shape::kWindow:
        return by_second ? std::chrono::floor<std::chrono::seconds>(now_) - 60s : now_ - 60s;
      case Shape::kPeriod:
        return BoundsOf(spec.period, now_).start;
      case Shape::kGauge:
        break;
    }
    return {};
  }

  int64_t Sum(const LimitRef& limit, conf::TimePoint since) const {
    int64_t sum = 0;
    for (const Charge& c : charges_) {
      if (c.at >= since && Applies(limit, c)) sum += AmountOf(c, limit.spec().dimension);
    }
    return sum;
  }

  void TryOne() {
    const std::string& leaf = leaves_[static_cast<size_t>(Below(static_cast<int64_t>(leaves_.size())))];
    const auto model = static_cast<size_t>(Below(3));
    ReserveRequest ask;
    ask.price = kPrice;
    ask.input_tokens_est = Below(300);
    ask.model_max_output = Below(2) == 0 ? 0 : 800;
    ask.output_tokens_default = Below(2) == 0 ? 0 : 200;
    ask.output_tokens_usual = Below(2) == 0 ? 0 : Below(400);
    if (Below(2) == 0) ask.output_tokens_bound = Below(500);
    const NodeRef node = tree_.Resolve(leaf);
    ReserveResult outcome = Reserve(node, models_[model], ask, now_);
    if (Grant* grant = std::get_if<Grant>(&outcome)) {
      Admit(leaf, kModels[model], std::move(*grant), ask);
      return;
    }
    ++refused_;
    const Refusal& no = std::get<Refusal>(outcome);
    ExpectJustified(no, leaf, kModels[model]);
    const bool exact = no.retry == Retry::kAtPeriodEnd || no.limit.ends_with("_per_minute");
    if (no.retry == Retry::kNever || !exact || Below(4) != 0) return;
    now_ += no.retry_after;
    ReserveResult again = Reserve(node, models_[model], ask, now_);
    if (Grant* grant = std::get_if<Grant>(&again)) {
      Admit(leaf, kModels[model], std::move(*grant), ask);
    } else {
      const Refusal& other = std::get<Refusal>(again);
      EXPECT_TRUE(other.limit != no.limit || other.scope != no.scope || other.model != no.model)
          << no.Message() << " said " << no.retry_after.count() << " ns";
    }
  }

  void Admit(const std::string& leaf, const std::string& model, Grant grant, const ReserveRequest& ask) {
    ++granted_;
    const Reservation& r = grant.reservation;
    if (grant.output_cap) EXPECT_EQ(*grant.output_cap, r.output_tokens());
    if (ask.output_tokens_bound) EXPECT_EQ(*ask.output_tokens_bound, r.output_tokens());
    charges_.push_back({leaf, model, now_, 1, r.input_tokens(), r.output_tokens(), r.micro_usd(), 1});
    running_.push_back({charges_.size() - 1, std::move(grant.reservation)});
    for (const LimitRef& limit : tree_.Limits()) {
      if (!Applies(limit, charges_.back()) || AmountOf(charges_.back(), limit.spec().dimension) == 0)
        continue;
      ASSERT_LE(Sum(limit, Since(limit, false)), limit.spec().capacity) << limit.Id();
    }
  }

  void ExpectJustified(const Refusal& no, const std::string& leaf, const std::string& model) {
    for (const LimitRef& limit : tree_.Limits()) {
      const LimitState state = limit.State(now_);
      if (state.scope != no.scope || state.name != no.limit || state.model != no.model) continue;
      Charge mine;
      mine.leaf = leaf;
      mine.model = model;
      EXPECT_TRUE(Applies(limit, mine));
      EXPECT_EQ(Sum(limit, Since(limit, true)), no.used);
      EXPECT_GT(no.used + no.asked, no.capacity);
      return;
    }
    ADD_FAILURE() << "no such limit: " << no.Message();
  }

  void FinishOne() {
    const size_t pick = static_cast<size_t>(Below(static_cast<int64_t>(running_.size())));
    std::swap(running_[pick], running_.back());
    Running done = std::move(running_.back());
    running_.pop_back();
    Charge& c = charges_[done.charge];
    c.running = 0;
    switch (Below(4)) {
      case 0:
        c.requests = c.input = c.output = c.micro_usd = 0;
        done.reservation.Refund();
        break;
      case 1:
        c.input = c.output = c.micro_usd = 0;
        done.reservation.MarkForwarded();
        break;  // and destroyed
      default:
        c.input -= Below(c.input + 1);
        c.output -= Below(c.output + 1);
        c.micro_usd = done.reservation.Settle({.input = c.input, .cached_input = 0, .output = c.output});
        break;
    }
  }

  std::mt19937_64 random_;
  LimitTree tree_;
  std::vector<ModelRef> models_;
  std::vector<std::string> leaves_;
  std::vector<NodeSpec> specs_;
  std::vector<Charge> charges_;
  std::vector<Running> running_;
  conf::TimePoint now_ = *conf::ParseTime("2026-11-28T22:00:00.123Z");
  int64_t granted_ = 0;
  int64_t refused_ = 0;
};

TEST(ExactLimits, NoWindowOrPeriodExceedsItsLimitAndNothingLeaks) {
  int64_t granted = 0;
  int64_t refused = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    for (int i = 0; i < 1200 && !testing::Test::HasFailure(); ++i) world.Step();
    world.FinishAll();
    world.ExpectNoLeak();
    granted += world.granted();
    refused += world.refused();
  }
  EXPECT_GT(granted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace router::limits
