// AbortGroup: what is under way for one owner and ends early, all of it, when the owner stops.
//
// Thread: the loop's. Owner: whoever starts the operations; it outlives them.
#pragma once

#include <vector>

#include "gateway/net/transport.h"

namespace gateway::net {

class AbortGroup {
 public:
  AbortGroup() = default;
  AbortGroup(const AbortGroup&) = delete;
  AbortGroup& operator=(const AbortGroup&) = delete;

  // One operation, in its own frame. Without a group it is never aborted.
  class Member {
   public:
    explicit Member(AbortGroup* group) : group_(group) {
      if (group_) group_->members_.push_back(this);
    }
    ~Member() {
      if (group_ && !aborted_) std::erase(group_->members_, this);
    }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // From now on this is what an abort ends, soon after its call; false when it has come already.
    bool Begin(Abortable& step) {
      step_ = &step;
      return !aborted();
    }
    bool aborted() const { return aborted_ || (group_ && group_->aborted_); }

   private:
    friend class AbortGroup;
    AbortGroup* const group_;
    Abortable* step_ = nullptr;
    bool aborted_ = false;
  };

  // Those under way, and any that begins later.
  void Abort() {
    aborted_ = true;
    while (!members_.empty()) {
      Member* const member = members_.back();
      members_.pop_back();
      member->aborted_ = true;
      if (member->step_) member->step_->Abort();
    }
  }

 private:
  std::vector<Member*> members_;
  bool aborted_ = false;
};

}  // namespace gateway::net
