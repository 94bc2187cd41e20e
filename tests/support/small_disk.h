// A file system of 48 MiB that a test can fill; needs the right to mount one.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace tests {

class SmallDisk {
 public:
  SmallDisk() { mounted_ = mount("tidegate-test", folder_.path().c_str(), "tmpfs", 0, "size=48m") == 0; }
  ~SmallDisk() {
    if (mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& path() const { return folder_.path(); }

  void Fill() const {
    std::ofstream out(folder_ / "filler", std::ios::binary);
    const std::string block(64 * 1024, 'f');
    while (out.write(block.data(), static_cast<std::streamsize>(block.size())) && out.flush()) {
    }
  }
  void Empty() const { unlink((folder_ / "filler").c_str()); }

 private:
  TempDir folder_;
  bool mounted_ = false;
};

}  // namespace tests
