// ScaleLaw: when to write the number of replicas of a Kubernetes object that others may change, too. Pure.
//
// The number at the start is accepted. A foreign change stays until the autoscaler wants another number, or until
// `hold` has passed; then the autoscaler's number is written.
#pragma once

#include <cstdint>
#include <optional>

#include "conf/time.h"

namespace gateway::control {

class ScaleLaw {
 public:
  explicit ScaleLaw(conf::Duration hold) : hold_(hold) {}

  // The present number. True: a foreign change since the last update.
  bool Update(uint32_t replicas, conf::TimePoint now) {
    const std::optional<uint32_t> before = replicas_;
    replicas_ = replicas;
    if (!before || replicas == *before) return false;
    foreign_since_ = now;
    foreign_wish_ = wish_;
    return true;
  }

  // The number to write, where `wish` is wanted now; absent: nothing is to be written.
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
