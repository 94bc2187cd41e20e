#include "router/routes/route_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace router {
namespace {

using ::testing::HasSubstr;

ReplicaSpec Endpoint(std::string identity, double weight = 1) {
  ReplicaSpec spec;
  spec.identity = std::move(identity);
  spec.weight = weight;
  return spec;
}

ModelSpec Serving(std::string name, std::vector<ReplicaSpec> replicas) {
  ModelSpec spec;
  spec.name = std::move(name);
  spec.replicas = std::move(replicas);
  return spec;
}

TEST(RouteTable, FindsModelsByNameAndAlias) {
  ModelSpec a = Serving("a", {Endpoint("a1"), Endpoint("a2")});
  a.aliases = {"gpt-4o-mini"};
  a.fallbacks = {{.model = "b"}};
  ModelSpec b = Serving("b", {Endpoint("b1")});
  b.replicas[0].upstream_model = "org/\"b\"";
  const auto table = RouteTable::Build({a, b});
  ASSERT_TRUE(table.ok()) << table.status();
  const ModelId id = *table->Find("gpt-4o-mini");
  EXPECT_EQ(table->Find("a"), id);
  EXPECT_EQ(table->Find("c"), std::nullopt);
  EXPECT_EQ(table->model(id).spec.name, "a");
  ASSERT_EQ(table->model(id).fallbacks.size(), 1U);
  EXPECT_EQ(table->model(id).fallbacks[0].model, *table->Find("b"));
  ASSERT_EQ(table->replicas(id).size(), 2U);
  EXPECT_EQ(table->replicas(id)[1].spec.identity, "a2");
  const Replica& b1 = table->replicas(*table->Find("b"))[0];
  EXPECT_EQ(&table->replica(b1.id), &b1);
  EXPECT_EQ(b1.model, *table->Find("b"));
  EXPECT_EQ(b1.upstream_model_json, R"("org/\"b\"")");
  EXPECT_EQ(table->replicas(id)[0].upstream_model_json, "");
}

TEST(RouteTable, NamesEveryFaultAtOnce) {
  ModelSpec a = Serving("a", {Endpoint("x"), Endpoint("x", -1), Endpoint("")});
  a.aliases = {"a"};
  ModelSpec b = Serving("b", {Endpoint("y", 0), Endpoint("z", 0)});
  b.fallbacks = {{.model = "nobody"}, {.model = "b"}};
  const auto table = RouteTable::Build({a, b, Serving("", {Endpoint("w", 1e300)})});
  ASSERT_FALSE(table.ok());
  const std::string message(table.status().message().data(), table.status().message().size());
  for (const char* part :
       {"the name \"a\" is given to two models", "replica \"x\" is listed twice", "weight -1",
        "has no identity", "model \"b\": the weights of its stable replicas sum to 0",
        "fallback \"nobody\" is not a model", "model \"b\" falls back to itself", "a name is empty",
        "weight 1e+300"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(RouteTable, TheReplicasOfANewVersionMayBeReadyBeforeAnyOther) {
  ModelSpec model = Serving("m", {Endpoint("new")});
  model.replicas[0].track = "v2";
  model.canaries = {{.track = "v2", .percent = 50}};
  EXPECT_FALSE(RouteTable::Build({model}).ok());
  model.launches = true;
  EXPECT_TRUE(RouteTable::Build({model}).ok());
}

TEST(RouteTable, NamesPoliciesAsOperatorsWriteThem) {
  for (const auto& [name, kind] : PolicyWords()) {
    EXPECT_EQ(PolicyName(kind), name);
    EXPECT_EQ(PolicyByName(name), kind);
  }
  EXPECT_EQ(PolicyByName("least-load"), PolicyKind::kLeastLoad);
  EXPECT_EQ(PolicyByName("prefx"), std::nullopt);
}

}  // namespace
}  // namespace router
