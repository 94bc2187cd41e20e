#include "gateway/net/address_range.h"

#include <gtest/gtest.h>

namespace {

using gateway::net::AddressRange;

TEST(AddressRange, HoldsItsAddressesAndNoOthers) {
  const AddressRange range = *AddressRange::Parse("10.1.0.0/16");
  EXPECT_TRUE(range.Contains("10.1.255.255"));
  EXPECT_TRUE(range.Contains("::ffff:10.1.0.1")) << "as a socket of both families names it";
  EXPECT_FALSE(range.Contains("10.2.0.0"));
  EXPECT_FALSE(range.Contains("nonsense"));
  const AddressRange six = *AddressRange::Parse("2001:db8::/33");
  EXPECT_TRUE(six.Contains("2001:db8:7fff::1"));
  EXPECT_FALSE(six.Contains("2001:db8:8000::1"));
  EXPECT_TRUE(AddressRange::Parse("fe80::1")->Contains("fe80::1%eth0"));
  EXPECT_FALSE(AddressRange::Parse("127.0.0.1")->Contains("127.0.0.2"));
  EXPECT_TRUE(AddressRange::Parse("0.0.0.0/0")->Contains("8.8.8.8"));
  EXPECT_FALSE(AddressRange::Parse("0.0.0.0/0")->Contains("::1"));
}

TEST(AddressRange, OtherTextIsNone) {
  for (const char* text :
       {"", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "x", "::/129", "10.0.0/8"})
    EXPECT_FALSE(AddressRange::Parse(text)) << text;
}

}  // namespace
