#include "gateway/people/same_person.h"

#include <gtest/gtest.h>

#include "gateway/people/jwks.h"

namespace {

using gateway::Config;
using gateway::IsSamePerson;

class SamePersonTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : {"corp", "guests"}) {
      gateway::config::Provider& provider = config_.people.providers.emplace_back();
      provider.name = name;
      provider.issuer = {"https", std::string(name) + ".example.com", 443, "/realm"};
    }
    config_.auth.jwt.emplace_back().issuer = "https://corp.example.com/realm/";
    config_.auth.jwt.emplace_back().issuer = "https://elsewhere.example.com";
  }
  std::string Token(size_t issuer, const std::string& subject) const {
    return "jwt:" + gateway::IssuerName(config_.auth.jwt[issuer].issuer, issuer) + ":" + subject;
  }

  Config config_;
};

TEST_F(SamePersonTest, ATokenAndASignInOfOneIssuerAreOneHuman) {
  EXPECT_TRUE(IsSamePerson(config_, "person:corp:ada", Token(0, "ada")));
  EXPECT_TRUE(IsSamePerson(config_, Token(0, "ada"), "person:corp:ada"));
  EXPECT_TRUE(IsSamePerson(config_, "person:corp:ada", "person:corp:ada"));
}

TEST_F(SamePersonTest, OtherSubjectsIssuersAndActorsAreOthers) {
  EXPECT_FALSE(IsSamePerson(config_, "person:corp:ada", Token(0, "bob")));
  EXPECT_FALSE(IsSamePerson(config_, "person:corp:ada", Token(1, "ada")));
  EXPECT_FALSE(IsSamePerson(config_, "person:corp:ada", "person:guests:ada"));
  EXPECT_FALSE(IsSamePerson(config_, "person:guests:ada", Token(0, "ada")));
  EXPECT_FALSE(IsSamePerson(config_, "person:cli:root", "cli:root"));
  EXPECT_FALSE(IsSamePerson(config_, "person:gone:ada", "jwt:gone-7:ada"));
  EXPECT_FALSE(IsSamePerson(config_, "", "person:corp:ada"));
}

}  // namespace
