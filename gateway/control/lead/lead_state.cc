#include "gateway/control/lead/lead_state.h"

#include <algorithm>
#include <utility>

namespace gateway::control {

uint64_t LeadState::Asked(conf::TimePoint now) {
  asked_ = now;
  next_ = now + times_.patience;
  return ++asks_;
}

bool LeadState::Answered(uint64_t ask, std::optional<Answer> answer, conf::TimePoint now) {
  if (ask != asks_ || ask == answered_ || resigned_) return false;
  answered_ = ask;
  next_ = now + times_.ask;
  if (!answer) return false;
  if (!answer->mine) {
    holder_ = std::move(answer->holder);
    lost_ = std::max(lost_, epoch_);
    epoch_ = 0;
    until_ = {};
    return false;
  }
  holder_.clear();
  if (answer->epoch <= lost_) return true;
  epoch_ = answer->epoch;
  confirmed_ = asked_;
  until_ = asked_ + times_.trusted();
  next_ = std::max(asked_ + times_.renewal(), now);
  return false;
}

void LeadState::Deposed(uint64_t epoch, conf::TimePoint now) {
  lost_ = std::max(lost_, epoch);
  if (epoch_ == 0 || epoch_ > epoch) return;
  epoch_ = 0;
  until_ = {};
  next_ = std::min(next_, now + times_.ask);
}

void LeadState::Resign() {
  resigned_ = true;
  lost_ = std::max(lost_, epoch_);
  epoch_ = 0;
  until_ = {};
  next_ = conf::TimePoint::max();
}

conf::TimePoint LeadState::next(conf::TimePoint now) const {
  return until_ > now ? std::min(next_, until_) : next_;
}

}  // namespace gateway::control
