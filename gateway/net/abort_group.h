// AbortGroup: the running operations of one owner, which all end early when the owner stops.
//
// Thread: the loop's. Owner: the object that starts the operations; it outlives them.
#pragma once

#include <vector>

#include "gateway/net/transport.h"

namespace gateway::net {

class AbortGroup {
 public:
  AbortGroup() = default;
  AbortGroup(const AbortGroup&) = delete;
  AbortGroup& operator=(const AbortGroup&) = delete;

  // One operation; lives in the operation's frame. Without a group it is never aborted.
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

    // The operation that an abort ends; ends soon after the call if the abort was earlier.
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

  // Aborts the running operations, and every later one.
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
