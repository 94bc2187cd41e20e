#include "router/facts/path_meant.h"

#include <gtest/gtest.h>

namespace router {
namespace {

TEST(PathMeant, IsThatOfAnotherBaseUrl) {
  EXPECT_EQ(PathMeant("/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(PathMeant("/v1/v1/messages?beta=true"), "/v1/messages");
  EXPECT_EQ(PathMeant("/openai/v1/models/"), "/v1/models");
  EXPECT_EQ(PathMeant("/api/embeddings"), "/v1/embeddings");
  EXPECT_EQ(PathMeant("//v1///chat/completions"), "/v1/chat/completions");
  for (const char* other :
       {"/", "", "/v1", "/v1x/models", "/v1/fine_tuning/jobs", "/nothing/models", "/v1/moderations"})
    EXPECT_EQ(PathMeant(other), "") << other;
}

}  // namespace
}  // namespace router
