#include "gateway/net/http/authority.h"

#include <gtest/gtest.h>

#include "gateway/net/url.h"

namespace gateway::net::http {
namespace {

TEST(Authority, HostHasNeitherPortNorBrackets) {
  EXPECT_EQ(HostOf("example.com"), "example.com");
  EXPECT_EQ(HostOf("example.com:8443"), "example.com");
  EXPECT_EQ(HostOf("10.0.0.7:80"), "10.0.0.7");
  EXPECT_EQ(HostOf("[::1]"), "::1");
  EXPECT_EQ(HostOf("[2001:db8::7]:443"), "2001:db8::7");
  EXPECT_EQ(HostOf(""), "");
  EXPECT_EQ(HostOf(":80"), "");
}

TEST(Authority, OnlyAnIpv6AddressIsBracketed) {
  EXPECT_EQ(Bracketed("example.com"), "example.com");
  EXPECT_EQ(Bracketed("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(Bracketed("::1"), "[::1]");
}

}  // namespace
}  // namespace gateway::net::http
