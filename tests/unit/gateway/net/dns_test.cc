#include "gateway/net/dns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/dns_server.h"
#include "tests/support/loop_test.h"

namespace gateway::net {
namespace {

using testing::ElementsAre;
using Found = std::vector<absl::StatusOr<DnsAddresses>>;

Found FindAll(const DnsClient::Options& options, std::vector<std::string> names) {
  Found found;
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    DnsClient client(loop, options);
    found = co_await client.FindAddresses(std::move(names));
  });
  return found;
}

TEST(Dns, AddressesOfBothFamiliesComeWithTheirTimeToLive) {
  tests::DnsServer server;
  server.Set("vllm.test", {"10.0.0.2", "10.0.0.1", "fd00::1", "10.0.0.2"}, 7);
  const Found found = FindAll({.server = server.address()}, {"vllm.test"});
  ASSERT_EQ(found.size(), 1U);
  ASSERT_TRUE(found.front().ok()) << found.front().status();
  EXPECT_THAT(found.front()->addresses, ElementsAre("10.0.0.1", "10.0.0.2", "fd00::1"));
  EXPECT_EQ(found.front()->ttl, conf::Duration(std::chrono::seconds(7)));
}

TEST(Dns, ANameThatDoesNotExistIsNotFoundWhileOthersAre) {
  tests::DnsServer server;
  server.Set("a.test", {"10.0.0.1"});
  const Found found = FindAll({.server = server.address()}, {"none.test", "a.test"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(absl::IsNotFound(found[0].status())) << found[0].status();
  ASSERT_TRUE(found[1].ok());
  EXPECT_THAT(found[1]->addresses, ElementsAre("10.0.0.1"));
}

TEST(Dns, AServerThatFailsOrIsSilentIsUnavailable) {
  tests::DnsServer server;
  server.Set("a.test", {"10.0.0.1"});
  const DnsClient::Options options{
      .server = server.address(), .timeout = std::chrono::milliseconds(100), .tries = 1};
  server.Fail(true);
  EXPECT_TRUE(absl::IsUnavailable(FindAll(options, {"a.test"}).front().status()));
  server.Fail(false);
  server.Silence(true);
  EXPECT_TRUE(absl::IsUnavailable(FindAll(options, {"a.test"}).front().status()));
}

TEST(Dns, ServiceRecordsHaveHostsPortsAndPriorities) {
  tests::DnsServer server;
  server.SetServices("_http._tcp.test", {{"a.test", 8000, 1}, {"b.test", 8001, 2}});
  absl::StatusOr<std::vector<DnsService>> found;
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    DnsClient client(loop, {.server = server.address()});
    found = co_await client.FindServices("_http._tcp.test");
  });
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2U);
  const DnsService& a = (*found)[0].host == "a.test" ? (*found)[0] : (*found)[1];
  EXPECT_EQ(a.port, 8000);
  EXPECT_EQ(a.priority, 1);
}

TEST(Dns, ACancelledLookUpEndsAtOnce) {
  tests::DnsServer server;
  server.Silence(true);
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    DnsClient client(loop, {.server = server.address()});
    loop.Post([&client] { client.Cancel(); });
    const Found found = co_await client.FindAddresses({"a.test"});
    EXPECT_TRUE(absl::IsCancelled(found.front().status())) << found.front().status();
  });
}

}  // namespace
}  // namespace gateway::net
