#include "gateway/limits/body_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace gateway {
namespace {

using Refusal = BodyMemory::Refusal;

struct World {
  BodyMemory memory;
  uint64_t process = 1000;
  std::vector<BodyMemory::Share> shares = {{"acme", 600}, {"acme/search", 400}};

  std::unique_ptr<BodyMemory::Hold> Begin(size_t depth = 2) {
    auto hold = std::make_unique<BodyMemory::Hold>(memory, process);
    for (size_t i = 0; i < depth; ++i) hold->Add(shares[i]);
    return hold;
  }
};

TEST(BodyMemory, RefusesMoreThanATenantMayHoldAndKeepsNothing) {
  World world;
  const auto first = world.Begin();
  EXPECT_TRUE(first->GrowTo(300));
  auto second = world.Begin();
  EXPECT_FALSE(second->GrowTo(101));
  EXPECT_EQ(second->refusal(), Refusal::kTenantBytes);
  EXPECT_EQ(second->refusing_tenant(), "acme/search");
  EXPECT_EQ(world.memory.bytes(), 300u);
  EXPECT_TRUE(second->GrowTo(100)) << "a refused body holds nothing";
  EXPECT_EQ(world.memory.bytes(), 400u);
  // The tenant's parent still has room.
  auto parent = world.Begin(1);
  EXPECT_TRUE(parent->GrowTo(200));
  EXPECT_FALSE(parent->GrowTo(201));
  EXPECT_EQ(parent->refusing_tenant(), "acme");
  second.reset();
  EXPECT_TRUE(parent->GrowTo(300));
}

TEST(BodyMemory, TheProcessHasABudgetOverAllTenants) {
  World world;
  world.process = 500;
  const auto one = world.Begin();
  EXPECT_TRUE(one->GrowTo(400));
  BodyMemory::Hold other(world.memory, 500);
  other.Add({"other", 1000});
  EXPECT_FALSE(other.GrowTo(101));
  EXPECT_EQ(other.refusal(), Refusal::kProcess);
  EXPECT_TRUE(other.GrowTo(100));
}

TEST(BodyMemory, NothingIsHeldAtTheEnd) {
  World world;
  world.process = 1'000'000;
  world.shares = {{"acme", 400'000}, {"acme/search", 300'000}};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&world] {
      for (int i = 0; i < 2000; ++i) {
        const auto hold = world.Begin();
        for (uint64_t bytes = 10'000; bytes <= 200'000 && hold->GrowTo(bytes); bytes += 50'000)
          EXPECT_LE(world.memory.bytes(), 300'000u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(world.memory.bytes(), 0u);
  EXPECT_TRUE(world.Begin()->GrowTo(300'000));
}

}  // namespace
}  // namespace gateway
