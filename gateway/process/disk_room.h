// DiskRoom: whether the disk of state_dir has room for new work, and a reserve for a start without any.
//
// Records of ending work (settling, cancelling, stopping, revoking) go into room that the ledger's segment
// and the store reserve while the gateway runs. The store frees its log when it is closed, so a start on a
// full disk needs a little more: the reserve, a file of kReserve bytes, which is removed at such a start and
// created again when the disk has room.
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

  // Before anything in state_dir is opened: frees the reserve if less than `least` bytes are free.
  void Begin(uint64_t least);
  // Whether at least that many bytes are free, beside those of a reserve that was freed. Creates the reserve
  // if it is missing and there is room for both. Logs changes since the last check.
  bool Check(uint64_t least);
  // Why nothing new is taken; empty: there is room.
  const std::string& trouble() const { return trouble_; }

 private:
  std::string ReservePath() const { return state_dir_ + "/reserve"; }
  bool MakeReserve() const;

  const std::string state_dir_;
  std::string trouble_;
  bool given_back_ = false;  // the reserve was removed, and is not created again yet
};

}  // namespace gateway
