// Files that the gateway has mapped, and that fail under it: it ends, and says which file.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using testing::HasSubstr;

TEST(MappedFiles, AJournalThatIsCutEndsTheGatewayWithAMessageThatNamesIt) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .threads = 1});
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  ASSERT_TRUE(gateway.Settles());
  const std::string journal = gateway.ledger_dir() + "/journal-0";
  gateway.process().Expect(SIGBUS);
  ASSERT_EQ(truncate(journal.c_str(), 0), 0);
  (void)gateway.Ask(Chat({{"max_tokens", 1}}));
  const std::optional<int> status = gateway.process().Wait(RawClient::kPatience);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status));
  EXPECT_THAT(gateway.process().Output(), HasSubstr("tidegate: " + journal + " cannot be read or written"));
  // The next one goes on with what is in segments.
  gateway.Start();
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(gateway.Verify().ok());
}

// Where the file system can: on others nothing is refused.
TEST(MappedFiles, AJournalThatBecomesImmutableEndsTheGatewayWithAMessageThatNamesIt) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .threads = 1});
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  ASSERT_TRUE(gateway.Settles());
  const std::string journal = gateway.ledger_dir() + "/journal-0";
  const int file = open(journal.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const auto set_immutable = [&](bool immutable) {
    int flags = 0;
    if (ioctl(file, FS_IOC_GETFLAGS, &flags) != 0) return false;
    flags = immutable ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
    return ioctl(file, FS_IOC_SETFLAGS, &flags) == 0;
  };
  if (!set_immutable(true)) {
    close(file);
    GTEST_SKIP() << "needs the right to make files immutable, and a file system that knows them";
  }
  gateway.process().Expect(SIGBUS);
  fsync(file);  // pages that are clean have to be asked for again
  for (int i = 0; i < 20 && gateway.process().Running(); ++i) (void)gateway.Ask(Chat({{"max_tokens", 1}}));
  const std::optional<int> status = gateway.process().Wait(RawClient::kPatience);
  EXPECT_TRUE(set_immutable(false));
  close(file);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status));
  EXPECT_THAT(gateway.process().Output(), HasSubstr("tidegate: " + journal + " cannot be read or written"));
  gateway.Start();
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(gateway.Verify().ok());
}

}  // namespace
}  // namespace tests
