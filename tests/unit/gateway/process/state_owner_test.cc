#include "gateway/process/state_owner.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace {

uid_t OwnerOf(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 ? info.st_uid : ~0u;
}

TEST(StateOwner, WhatRootMakesInAStateFolderIsItsOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const tests::TempDir folder;
  const tests::TempDir elsewhere;
  for (const std::string& path : {folder / "state.db", folder / "linked", elsewhere / "target"})
    std::ofstream(path) << "x";
  ASSERT_EQ(link((folder / "linked").c_str(), (elsewhere / "second").c_str()), 0);
  ASSERT_EQ(symlink((elsewhere / "target").c_str(), (folder / "symbolic").c_str()), 0);
  ASSERT_EQ(chown(folder.path().c_str(), 65534, 65534), 0);
  gateway::GiveToOwner(folder.path());
  EXPECT_EQ(OwnerOf(folder / "state.db"), 65534u);
  EXPECT_EQ(OwnerOf(folder / "linked"), 0u) << "it has a name elsewhere";
  EXPECT_EQ(OwnerOf(folder / "symbolic"), 0u);
  EXPECT_EQ(OwnerOf(elsewhere / "target"), 0u);
}

}  // namespace
