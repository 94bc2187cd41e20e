// LeadState: whether this gateway may drive (start and stop workloads), by its own clock. The store decides who
// leads, by its clock; this says when to ask it, and until when its last answer may be trusted.
//
// A leader asks again after a third of the time to live, so that two asks in a row may fail. Other gateways ask every
// second, so that a dead leader is replaced a second after its lead has ended. A lead counts from the moment before
// the ask was sent, and a tenth of the time less than the store gives: a leader stops before the store could give the
// lead to another gateway, even where the two clocks do not run equally fast. The epoch fences calls that are still
// under way then.
//
// A lead that is won again has another epoch, and is another term: another gateway may have led in between.
//
// Pure: time and answers come in. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "conf/time.h"

namespace gateway::control {

struct LeadTimes {
  conf::Duration ttl = std::chrono::seconds(9);
  conf::Duration ask = std::chrono::seconds(1);  // between two asks of a gateway that does not lead
  // An ask without an answer is given up after this, and the next one follows.
  conf::Duration patience = std::chrono::seconds(3);

  conf::Duration renewal() const { return ttl / 3; }
  conf::Duration trusted() const { return ttl - ttl / 10; }
};

class LeadState {
 public:
  // The store's answer to an ask.
  struct Answer {
    bool mine = false;
    uint64_t epoch = 0;
    std::string holder{};  // who leads, if it is not this gateway
  };

  explicit LeadState(LeadTimes times) : times_(times) {}

  // Whether an ask is due; the caller then calls Asked and sends it.
  bool Due(conf::TimePoint now) const { return now >= next_; }
  // The number of the ask, for its answer.
  uint64_t Asked(conf::TimePoint now);
  // The answer to that ask; absent: the store gave none. The answer to an ask that was given up, or that is older
  // than one already answered, changes nothing. True: the store gives the lead in an epoch in which this gateway was
  // deposed; it counts for no term.
  bool Answered(uint64_t ask, std::optional<Answer> answer, conf::TimePoint now);
  // A write was refused, since another gateway leads.
  void Deposed(uint64_t epoch, conf::TimePoint now);
  // This gateway gives the lead back: it drives no more, and does not ask again.
  void Resign();

  // 0: this gateway may not drive now.
  uint64_t EpochAt(conf::TimePoint now) const { return now < until_ ? epoch_ : 0; }
  bool Leads(conf::TimePoint now) const { return EpochAt(now) != 0; }
  // Whether the store has confirmed the lead since then.
  bool ConfirmedSince(conf::TimePoint then) const { return confirmed_ >= then; }
  // The next moment at which something changes by time alone: an ask, or the end of the lead.
  conf::TimePoint next(conf::TimePoint now) const;
  // The leader by the last answer; empty: not known, or this gateway.
  const std::string& holder() const { return holder_; }

 private:
  const LeadTimes times_;
  uint64_t asks_ = 0;
  uint64_t answered_ = 0;  // the latest ask that was answered
  conf::TimePoint asked_{};
  conf::TimePoint next_{};  // ask again
  uint64_t epoch_ = 0;
  uint64_t lost_ = 0;            // epochs up to this one lead no more
  conf::TimePoint until_{};      // it may drive until then
  conf::TimePoint confirmed_{};  // when the last ask that the store confirmed was sent
  std::string holder_;
  bool resigned_ = false;
};

}  // namespace gateway::control
