// A small file system that a test can fill; needs the right to mount one.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace tests {

class SmallDisk {
 public:
  explicit SmallDisk(int mib = 48) {
    const std::string size = "size=" + std::to_string(mib) + "m";
    mounted_ = mount("tidegate-test", folder_.path().c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& path() const { return folder_.path(); }

  uint64_t free() const { return std::filesystem::space(path()).available; }

  // Until no more than that is free, to the last page.
  void Fill(uint64_t leave = 0) const {
    std::ofstream out(folder_ / "filler", std::ios::binary | std::ios::app);
    const std::string page(4096, 'f');
    while (free() > leave && out.write(page.data(), static_cast<std::streamsize>(page.size())) &&
           out.flush()) {
    }
  }
  void Empty() const { unlink((folder_ / "filler").c_str()); }

 private:
  TempDir folder_;
  bool mounted_ = false;
};

}  // namespace tests
