// ScaleLaw: when to write the number of replicas of an object that Kubernetes runs, while others may change
// it, too. Pure.
//
// The number that is found at the start is taken as it is. A change by somebody else stays until the number that the
// autoscaler wants changes, or `hold` has passed; then ours is written.
#pragma once

#include <cstdint>
#include <optional>

#include "conf/time.h"

namespace gateway::control {

class ScaleLaw {
 public:
  explicit ScaleLaw(conf::Duration hold) : hold_(hold) {}

  // The number as it is now. True: somebody else has changed it since it was seen last.
  bool Update(uint32_t replicas, conf::TimePoint now) {
    const std::optional<uint32_t> before = replicas_;
    replicas_ = replicas;
    if (!before || replicas == *before) return false;
    foreign_since_ = now;
    foreign_wish_ = wish_;
    return true;
  }

  // What is to be written, where `wish` is wanted now; nothing: it stays as it is.
  std::optional<uint32_t> Next(uint32_t wish, conf::TimePoint now) {
    wish_ = wish;
    if (!replicas_) return std::nullopt;
    if (*replicas_ == wish) {
      foreign_since_.reset();
      return std::nullopt;
    }
    if (foreign_since_ && foreign_wish_ == wish && now - *foreign_since_ < hold_) return std::nullopt;
    return wish;
  }

  // Our change was taken.
  void Wrote(uint32_t replicas) {
    replicas_ = replicas;
    foreign_since_.reset();
  }

  std::optional<uint32_t> replicas() const { return replicas_; }
  bool foreign() const { return foreign_since_.has_value(); }

 private:
  const conf::Duration hold_;
  std::optional<uint32_t> replicas_;  // as seen last, or written
  std::optional<uint32_t> wish_;
  std::optional<conf::TimePoint> foreign_since_;
  std::optional<uint32_t> foreign_wish_;  // what was wanted then
};

}  // namespace gateway::control
