#include "gateway/config/state.h"

#include <gtest/gtest.h>

namespace {

using gateway::config::State;

std::string FullUrl(std::string url) {
  State state;
  state.url = std::move(url);
  return state.full_url();
}

TEST(StateConfig, AServerElsewhereIsVerifiedUnlessTheUrlSaysOtherwise) {
  EXPECT_EQ(FullUrl("postgres://u@db.example.com:5432/x"),
            "postgres://u@db.example.com:5432/x?sslmode=verify-full");
  EXPECT_EQ(FullUrl("postgres://u@127.0.0.1,db.example.com/x"),
            "postgres://u@127.0.0.1,db.example.com/x?sslmode=verify-full");
  EXPECT_EQ(FullUrl("postgres://db.example.com/x?sslmode=disable"),
            "postgres://db.example.com/x?sslmode=disable");
}

TEST(StateConfig, AServerOfThisMachineNeedsNoTls) {
  EXPECT_EQ(FullUrl("postgres://u@127.0.0.1/x"), "postgres://u@127.0.0.1/x?sslmode=disable");
  EXPECT_EQ(FullUrl("postgres://u@[::1]:5433/x"), "postgres://u@[::1]:5433/x?sslmode=disable");
  EXPECT_EQ(FullUrl("postgres:///x?host=/run/postgresql"),
            "postgres:///x?host=/run/postgresql&sslmode=disable");
  EXPECT_EQ(FullUrl("postgresql://%2Frun%2Fpostgresql/x"),
            "postgresql://%2Frun%2Fpostgresql/x?sslmode=disable");
}

}  // namespace
