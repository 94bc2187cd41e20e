#include "gateway/shard/response_owners.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway {
namespace {

TEST(ResponseOwners, KnowsTheTenantsOfTheLastResponses) {
  ResponseOwners owners;
  owners.Note("resp_1", "acme");
  EXPECT_TRUE(owners.Owns("resp_1", "acme"));
  EXPECT_FALSE(owners.Owns("resp_1", "other"));
  EXPECT_FALSE(owners.Owns("resp_2", "acme"));
  for (size_t i = 0; i < ResponseOwners::kMost + 10; ++i) owners.Note("r" + std::to_string(i), "acme");
  EXPECT_FALSE(owners.Owns("resp_1", "acme")) << "it is bounded";
  EXPECT_FALSE(owners.Owns("r0", "acme"));
  EXPECT_TRUE(owners.Owns("r" + std::to_string(ResponseOwners::kMost), "acme"));
}

}  // namespace
}  // namespace gateway
