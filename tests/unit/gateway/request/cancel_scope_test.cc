#include "gateway/request/cancel_scope.h"

#include <gtest/gtest.h>

namespace gateway {
namespace {

struct Operation final : net::Abortable {
  void Abort() override { ++aborts; }
  int aborts = 0;
};

TEST(CancelScope, AbortsOnlyTheRunningOperation) {
  CancelScope scope;
  Operation first;
  Operation second;
  scope.SetRunning(&first);
  scope.SetRunning(&second);
  scope.Cancel();
  EXPECT_TRUE(scope.cancelled());
  EXPECT_EQ(first.aborts, 0);
  EXPECT_EQ(second.aborts, 1);
}

TEST(CancelScope, AnEndedOperationIsNotAborted) {
  CancelScope scope;
  Operation operation;
  scope.SetRunning(&operation);
  scope.SetRunning(nullptr);
  scope.Cancel();
  EXPECT_TRUE(scope.cancelled());
  EXPECT_EQ(operation.aborts, 0);
}

TEST(CancelScope, TheNextOperationIsNotCancelled) {
  CancelScope scope;
  scope.MarkCancelled();
  scope.Reset(false);
  EXPECT_FALSE(scope.cancelled());
}

}  // namespace
}  // namespace gateway
