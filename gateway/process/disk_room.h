// DiskRoom: whether the disk of state_dir has room for new work, and a reserve for a start without any.
//
// What ends work (settling, cancelling, stopping, revoking) is written into room that the ledger's segment
// and the store keep for it while the gateway runs. The store gives its log back when it is closed, so a
// start on a full disk needs a little more: the reserve, a file of kReserve bytes that is removed then, and
// made again when there is room.
//
// Owner: the Process; used before its threads run, and then on the control loop.
#pragma once

#include <cstdint>
#include <string>

namespace gateway {

class DiskRoom {
 public:
  static constexpr uint64_t kReserve = uint64_t{10} << 20;

  explicit DiskRoom(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // Before anything in state_dir is opened: gives the reserve back if less than `least` bytes are free.
  void Begin(uint64_t least);
  // Whether at least that many bytes are free, and those of a reserve that was given back. Makes the reserve
  // where it is missing and there is room for both. What changed since the last look is logged, once.
  bool Look(uint64_t least);
  // Why nothing new is taken; empty: there is room.
  const std::string& trouble() const { return trouble_; }

 private:
  std::string ReservePath() const { return state_dir_ + "/reserve"; }
  bool MakeReserve() const;

  const std::string state_dir_;
  std::string trouble_;
  bool given_back_ = false;  // the reserve, and it is not made again yet
};

}  // namespace gateway
