#include "plugins/launchers/slurm/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins::launchers::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Hostlist, NamesEveryHostInItsOrder) {
  EXPECT_THAT(*ExpandHosts(""), IsEmpty());
  EXPECT_THAT(*ExpandHosts("login"), ElementsAre("login"));
  EXPECT_THAT(*ExpandHosts("node[2-3]"), ElementsAre("node2", "node3"));
  EXPECT_THAT(*ExpandHosts("gpu[008-010,3],login"),
              ElementsAre("gpu008", "gpu009", "gpu010", "gpu3", "login"));
  EXPECT_THAT(*ExpandHosts("r[1-2]n[1-2]-ib"), ElementsAre("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"));
}

TEST(Hostlist, RefusesMalformedLists) {
  for (const char* text : {"node[1-2", "node1]", "node[]", "node[a-b]", "node[3-1]", ",node1", "node1,",
                           "a,,b", "node[[1]]", "node[1-]", "node[99999999999]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ExpandHosts(text).status())) << text;
  }
}

TEST(Hostlist, IsBounded) {
  EXPECT_EQ(ExpandHosts("n[1-65536]")->size(), kMaxHosts);
  for (const char* text : {"n[1-65537]", "n[0-4294967295]", "n[1-1000]m[1-1000]", "a[1-65536],b"}) {
    EXPECT_TRUE(absl::IsResourceExhausted(ExpandHosts(text).status())) << text;
  }
}

TEST(Hostlist, MultipliesNoLongNames) {
  EXPECT_TRUE(ExpandHosts(std::string(kMaxHostName - 1, 'n') + "[1-9]").ok());
  for (const std::string& text :
       {std::string(kMaxHostName, 'n') + "[1-9]", std::string(kMaxHostName + 1, 'n'),
        "n[" + std::string(300, '0') + "-65535]", "n[1-9]" + std::string(kMaxHostName, 'm')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ExpandHosts(text).status())) << text;
  }
}

TEST(Hostlist, ReadsPlacesOfDevices) {
  EXPECT_THAT(*ExpandPlaces("0-2,5"), ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(*ExpandPlaces("7"), ElementsAre(7));
  for (const char* text : {"a", "0-300", "2-1", "1-"}) EXPECT_FALSE(ExpandPlaces(text).ok()) << text;
}

}  // namespace
}  // namespace plugins::launchers::slurm
