#include "gateway/config/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST(Config, ReadsTheShapeThatOperatorsWrite) {
  const LoadResult result = Parse(R"(
server:  {listen: 127.0.0.1:8080, admin: 127.0.0.1:9090, threads: auto, state_dir: ./var}
tenants: [{name: search, models: [chat-small], limits: {requests_per_minute: 600, tokens_per_minute: 200000, concurrency: 64}, budget: {usd: 500, period: month}}]
models:  [{name: chat-small, aliases: [gpt-4o-mini], price: {input: 0.15, cached_input: 0.08, output: 0.60}, endpoints: [{url: http://10.0.0.5:8000, engine: vllm}], routing: {policy: least-load}}]
)");
  ASSERT_THAT(result.problems, IsEmpty());
  const Config& c = *result.config;
  EXPECT_THAT(c.server.listen, ElementsAre(config::Address{"127.0.0.1", 8080}));
  EXPECT_FALSE(c.server.threads.has_value());
  EXPECT_EQ(c.server.limits.body_bytes, 64U << 20);
  const config::Tenant& tenant = c.tenants.at(0);
  EXPECT_EQ(tenant.limits.requests_per_minute, 600U);
  EXPECT_FALSE(tenant.limits.input_tokens_per_minute.has_value());
  EXPECT_EQ(tenant.budgets.at(0).micro_usd, 500'000'000);
  EXPECT_FALSE(tenant.budgets.at(0).tokens.has_value());
  EXPECT_EQ(tenant.store_content, config::StoreContent::kNone);
  const config::Model& model = c.models.at(0);
  EXPECT_EQ(model.price.input, 150'000);
  EXPECT_EQ(model.price.cached_input, 80'000);
  EXPECT_EQ(model.price.output, 600'000);
  EXPECT_EQ(model.endpoints.at(0).name, "10.0.0.5:8000");
  EXPECT_EQ(model.endpoints.at(0).model, "chat-small");
  EXPECT_TRUE(model.endpoints.at(0).apis.Has(config::Api::kMessages));
  EXPECT_EQ(c.FindModel("gpt-4o-mini"), &model);
  EXPECT_EQ(c.FindModel("gpt"), nullptr);
  EXPECT_EQ(c.FindTenant("search"), &tenant);
}

TEST(Config, EmbeddingsNeedNoPriceOfOutput) {
  const LoadResult result = Parse(OneModel("price: {input: 0.1}"));
  ASSERT_TRUE(result.config) << conf::ToString(result.problems.at(0));
  const config::Price& price = result.config->models.at(0).price;
  EXPECT_TRUE(config::HasPriceFor(price, router::Api::kEmbeddings));
  EXPECT_FALSE(config::HasPriceFor(price, router::Api::kChatCompletions)) << "what it writes would be free";
}

TEST(Config, FillsWhatFollowsFromOtherFields) {
  const LoadResult result =
      Parse(With({{"models",
                   "[{name: m, price: {input: 1, output: 2}, endpoints: ["
                   "{url: 'https://[2001:db8::1]/gw/', engine: chat-only, model: up, api_key: env:K},"
                   "{url: http://h:80, engine: anthropic, apis: [chat, messages]}], fallbacks: [n]},"
                   "{name: n, endpoints: [{url: http://h:2, engine: tgi}]}]"},
                  {"tenants",
                   "[{name: t, models: ['*'], limits: {per_model: {m: {concurrency: 2}}},"
                   "budget: [{usd: 0.5, period: day}, {tokens: 5, period: week, model: n}]}]"}}));
  ASSERT_THAT(result.problems, IsEmpty());
  const config::Model& m = result.config->models.at(0);
  EXPECT_EQ(m.price.cached_input, 1'000'000);
  EXPECT_EQ(m.endpoints[0].url.host, "2001:db8::1");
  EXPECT_EQ(m.endpoints[0].url.port, 443);
  EXPECT_EQ(m.endpoints[0].url.path, "/gw");
  EXPECT_TRUE(m.endpoints[0].url.tls());
  EXPECT_EQ(m.endpoints[0].name, "[2001:db8::1]/gw");
  EXPECT_EQ(m.endpoints[0].model, "up");
  EXPECT_EQ(m.endpoints[0].apis, config::ApiSet{config::Api::kChat});
  EXPECT_EQ(m.endpoints[0].api_key.Reveal(), kSecret);
  EXPECT_EQ(m.endpoints[1].name, "h");
  EXPECT_EQ(m.endpoints[1].apis, (config::ApiSet{config::Api::kChat, config::Api::kMessages}));
  EXPECT_TRUE(m.fallbacks.at(0).When(config::FallbackOn::kTimeout));
  EXPECT_FALSE(m.fallbacks.at(0).When(config::FallbackOn::kContext));
  EXPECT_EQ(result.config->tenants.at(0).per_model.at("m").concurrency, 2U);
  EXPECT_EQ(result.config->tenants.at(0).budgets.at(1).model, "n");
}

TEST(Config, PathsHeadersAndParametersAreReadAndWritten) {
  const LoadResult result = Parse(With(
      {{"models",
        "[{name: m, parameters: {deny: [logit_bias]}, endpoints: [{url: http://h/v1, engine: vllm, "
        "pass_headers: "
        "[X-Team, x-team]}, {url: http://g/api/v3, engine: openai}, {url: http://k/gw, engine: vllm}]}]"},
       {"tenants",
        "[{name: t, models: ['*'], limits: {body_memory: 64MiB}, parameters: {allow: [seed], force: {seed: "
        "7, tier: "
        "'1', top: 0.5, echo: true}, tools: [function], media_hosts: ['*.x']}}]"}}));
  ASSERT_THAT(result.problems, IsEmpty());
  const config::Model& m = result.config->models.at(0);
  EXPECT_EQ(m.endpoints[0].url.path, "");
  EXPECT_EQ(m.endpoints[0].pass_headers, std::vector<std::string>{"x-team"});
  EXPECT_EQ(config::TargetBehind(m.endpoints[0].url, "/v1/x"), "/v1/x");
  EXPECT_EQ(config::TargetBehind(m.endpoints[1].url, "/v1/x"), "/x");
  EXPECT_EQ(config::TargetBehind(m.endpoints[1].url, "/tokenize"), "/tokenize");
  EXPECT_EQ(config::TargetBehind(m.endpoints[2].url, "/v1/x"), "/v1/x");
  const config::Tenant& t = result.config->tenants.at(0);
  EXPECT_EQ(t.body_memory, 64U << 20);
  ASSERT_EQ(t.parameters.force.size(), 4U);
  const nlohmann::json written = ToJson(*result.config);
  EXPECT_EQ(written["tenants"][0]["parameters"]["force"],
            (nlohmann::json{{"seed", 7}, {"tier", "1"}, {"top", 0.5}, {"echo", true}}));
  const LoadResult again = Parse(written.dump());
  ASSERT_THAT(again.problems, IsEmpty());
  EXPECT_EQ(ToJson(*again.config), written);
}

TEST(Config, AnAdapterHasFromItsBaseWhatItDoesNotSayItself) {
  const LoadResult result = Parse(With(
      {{"models",
        "[{name: sql, lora: {base: m}, max_output_tokens: 10},"
        "{name: m, price: {input: 1, output: 2}, context: 100, timeouts: {connect: 1s}, retries: {max: 7},"
        "routing: {policy: epp}, queue: {max_running: 3}, endpoints: [{url: http://h:1, engine: vllm}]},"
        "{name: tuned, lora: {base: m, adapter: t1}, price: {input: 3, output: 4}}]"},
       {"tenants", "[{name: t, models: ['*']}]"}}));
  ASSERT_THAT(result.problems, IsEmpty());
  const config::Model& sql = result.config->models.at(0);
  EXPECT_EQ(sql.lora->adapter, "sql");
  EXPECT_THAT(sql.endpoints, IsEmpty());
  EXPECT_EQ(sql.price.output, 2'000'000);
  EXPECT_EQ(sql.context, 100U);
  EXPECT_EQ(sql.max_output_tokens, 10U);
  EXPECT_EQ(sql.timeouts.connect, std::chrono::seconds(1));
  EXPECT_EQ(sql.retries.max, 7U);
  EXPECT_EQ(sql.routing.policy, router::PolicyKind::kEpp);
  EXPECT_EQ(sql.queue.max_running, 3U);
  const config::Model& tuned = result.config->models.at(2);
  EXPECT_EQ(tuned.lora->adapter, "t1");
  EXPECT_EQ(tuned.price.output, 4'000'000);
  // What is written can be read again: it says nothing of endpoints.
  EXPECT_FALSE(ToJson(*result.config)["models"][0].contains("endpoints"));
  EXPECT_FALSE(ToJson(*result.config)["models"][0].contains("routing"));
}

TEST(Config, EachProblemSaysWhereWhatAndWhatWouldBeRight) {
  const std::pair<std::string, std::string_view> kCases[] = {
      // Sections and listeners.
      {"{}\n",
       "t.yaml:/server (line 1): is required|t.yaml:/tenants (line 1): is required|t.yaml:/models (line 1): "
       "is "
       "required"},
      {With({{"modles", "[]"}}), R"(t.yaml:/modles (line 2): unknown key "modles", did you mean "models"?)"},
      {With({{"models", "[]"}, {"tenants", "[{name: t, models: ['*']}]"}}),
       "t.yaml:/models (line 1): must not be empty|t.yaml:/tenants/0/models/0 (line 3): \"*\" matches no "
       "model"},
      {OneServer("listen: 8080"),
       "t.yaml:/server/listen (line 2): expected an IP address and a port, such as 127.0.0.1:8080, "
       "0.0.0.0:8080 or "
       "[::]:8080, found \"8080\""},
      {OneServer("listen: 'gateway.internal:80'"),
       "t.yaml:/server/listen (line 2): expected an IP address and a port, such as 127.0.0.1:8080, "
       "0.0.0.0:8080 or "
       "[::]:8080, found the text \"gateway.internal:80\" in quotes"},
      {OneServer("listen: [127.0.0.1:80, 127.0.0.1:80]"),
       "t.yaml:/server/listen/1 (line 2): 127.0.0.1:80 is in the same list already"},
      {OneServer("listen: ['[::]:80', 127.0.0.1:80]"),
       "t.yaml:/server/listen/1 (line 2): 127.0.0.1:80 is taken by [::]:80 of the same list"},
      {OneServer("listen: 0.0.0.0:9090"),
       "t.yaml:/server/admin (line 2): 127.0.0.1:9090 is taken by 0.0.0.0:9090 of server.listen; the admin "
       "listener "
       "needs its own port"},
      {OneServer("listen: 127.0.0.1:9090"),
       "t.yaml:/server/admin (line 2): 127.0.0.1:9090 is in server.listen already; the admin listener needs "
       "its "
       "own port"},
      {OneServer("listen: 127.0.0.1:80, console: 127.0.0.1:80"),
       "t.yaml:/server/console (line 2): 127.0.0.1:80 is taken by another listener; the one for people needs "
       "its own port"},
      {OneServer("listen: 127.0.0.1:80, console: 0.0.0.0:8443"),
       "t.yaml:/server/console (line 2): sessions could be read on the network: set console_tls, listen on "
       "127.0.0.1, or set people.insecure: true where the network is trusted or something in front speaks "
       "TLS"},
      {OneServer("listen: 127.0.0.1:80, console_tls: {certificate: /a.crt, key: /a.key}"),
       "t.yaml:/server/console_tls (line 2): has no effect without console, the address of the listener for "
       "people"},
      {OneServer("listen: 127.0.0.1:80, threads: 0"),
       "t.yaml:/server/threads (line 2): must be between 1 and 1024, or auto for one per core"},
      {OneServer("listen: 127.0.0.1:80, limits: {body_bytes: 5GiB}"),
       "t.yaml:/server/limits/body_bytes (line 2): must be between 1024 and 4294967296"},
      {OneServer("listen: 127.0.0.1:80, limits: {body_bytes: 64MiB, body_memory: 32MiB}"),
       "t.yaml:/server/limits/body_memory (line 2): must not be less than body_bytes, or the largest bodies "
       "would never be read"},
      {OneServer("listen: 127.0.0.1:80, limits: {connections: 0}"),
       "t.yaml:/server/limits/connections (line 2): must be at least 1"},
      {OneServer("listen: 127.0.0.1:80, tls: {certificate: a.crt, key: other.key}"),
       "t.yaml:/server/tls/key (line 2): the file \"other.key\" does not belong to the certificate"},
      {OneServer("listen: 127.0.0.1:80, tls: {certificate: gone.pem, key: a.key}"),
       "t.yaml:/server/tls/certificate (line 2): cannot read \"gone.pem\": No such file or directory"},
      {OneServer("listen: 127.0.0.1:80, tls: {certificate: junk.pem, key: junk.pem}"),
       "t.yaml:/server/tls/certificate (line 2): the file \"junk.pem\" does not hold a certificate in PEM|"
       "t.yaml:/server/tls/key (line 2): the file \"junk.pem\" does not hold a private key in PEM without a "
       "passphrase"},
      {OneServer(
           "listen: 127.0.0.1:80, tls: {certificate: a.crt, key: a.key, require_client_certificate: true}"),
       "t.yaml:/server/tls/require_client_certificate (line 2): has no effect without client_ca; give the "
       "authority "
       "that signs client certificates"},
      // Who may call.
      {With({{"auth", "{keys: false}"}}),
       "t.yaml:/auth/keys (line 1): no caller could authenticate; set keys to true, or add a jwt issuer"},
      {With({{"auth", "{anonymous_tenant: serch}"}}),
       R"(t.yaml:/auth/anonymous_tenant (line 1): unknown tenant "serch", did you mean "search"?)"},
      {With({{"auth", "{anonymous_tenant: search}"}, {"server", "{listen: 0.0.0.0:8080}"}}),
       "t.yaml:/auth/anonymous_tenant (line 1): calls without credentials are for development only, and "
       "0.0.0.0:8080 "
       "can be reached from elsewhere; listen on 127.0.0.1 or remove the key"},
      {OneJwt("jwks: file:jwks.json"), "t.yaml:/auth/jwt/0/algorithms (line 1): is required"},
      {OneJwt("jwks: file:jwks.json, algorithms: []"),
       "t.yaml:/auth/jwt/0/algorithms (line 1): must not be empty"},
      {OneJwt("jwks: file:jwks.json, algorithms: [HS256, none, RS255]"),
       "t.yaml:/auth/jwt/0/algorithms/0 (line 1): \"HS256\" is symmetric: a public key could be used to sign "
       "tokens; "
       "use RS256, ES256 or EdDSA|t.yaml:/auth/jwt/0/algorithms/1 (line 1): \"none\" would accept unsigned "
       "tokens; use RS256, ES256 or EdDSA|t.yaml:/auth/jwt/0/algorithms/2 (line 1): unknown algorithm "
       "\"RS255\", did "
       "you mean \"RS256\"?"},
      {OneJwt("jwks: http://idp.example/k, algorithms: RS256"),
       "t.yaml:/auth/jwt/0/jwks (line 1): must be an https URL; over http, an attacker on the "
       "network could replace the keys"},
      {OneJwt("jwks: jwks.json, algorithms: RS256"),
       "t.yaml:/auth/jwt/0/jwks (line 1): expected https://HOST/PATH or file:PATH, found \"jwks.json\""},
      {OneJwt("jwks: file:gone.json, algorithms: RS256"),
       "t.yaml:/auth/jwt/0/jwks (line 1): cannot read \"gone.json\": No such file or directory"},
      {OneJwt("jwks: file:jwks.json, algorithms: RS256, tenant: {values: {a/b: nope}}"),
       "t.yaml:/auth/jwt/0/tenant/values/a~1b (line 1): unknown tenant \"nope\", expected one of search"},
      {With({{"admin", "{bootstrap_key: env:SHORT}"}}),
       "t.yaml:/admin/bootstrap_key (line 1): leads to a key that is too short, expected at least 32 "
       "characters"},
      {With({{"admin", "{bootstrap_key: tg-admin-123456}"}}),
       "t.yaml:/admin/bootstrap_key (line 1): a secret is given by reference only, env:NAME or file:PATH, so "
       "that it "
       "is never in a configuration file"},
      // Tenants.
      {With({{"tenants", "[{name: search}]"}}),
       "t.yaml:/tenants/0/models (line 3): is required for a tenant without a parent; \"*\" in a list stands "
       "for every "
       "model"},
      {With({{"tenants", "[{name: a b, models: [small]}]"}}),
       "t.yaml:/tenants/0/name (line 3): must be 1 to 128 printable ASCII characters without spaces, quotes "
       "and *"},
      {With({{"tenants", "[{name: a, models: [small]}, {name: a, models: [small]}]"}}),
       "t.yaml:/tenants/1/name (line 3): tenant \"a\" is given twice, first at /tenants/0"},
      {With({{"tenants", "[{name: a, models: [smal]}]"}}),
       R"(t.yaml:/tenants/0/models/0 (line 3): unknown model "smal", did you mean "small"?)"},
      {With({{"tenants", "[{name: a, models: [big-*]}]"}}),
       "t.yaml:/tenants/0/models/0 (line 3): \"big-*\" matches no model"},
      {With({{"tenants", "[{name: a, models: [s]}]"},
             {"models", "[{name: small, aliases: [s], endpoints: [{url: http://h:1, engine: vllm}]}]"}}),
       R"(t.yaml:/tenants/0/models/0 (line 3): "s" is an alias; name the model, "small")"},
      {OneTenant("parent: serch"),
       R"(t.yaml:/tenants/0/parent (line 3): unknown tenant "serch", did you mean "search"?)"},
      {OneTenant("parent: search"),
       "t.yaml:/tenants/0/parent (line 3): closes a cycle of parents: search -> search"},
      {With({{"tenants",
              "[{name: a, parent: c}, {name: b, parent: a}, {name: c, parent: b}, {name: d, parent: a}]"}}),
       "t.yaml:/tenants/0/parent (line 3): closes a cycle of parents: a -> c -> b -> a|"
       "t.yaml:/tenants/3/parent (line 3): nests tenants deeper than 8 levels: d -> a -> c -> b -> a -> c -> "
       "b -> a -> c"},
      {OneTenant("limits: {requests_per_minute: 0}"),
       "t.yaml:/tenants/0/limits/requests_per_minute (line 3): must be at least 1; remove the key for no "
       "limit"},
      {OneTenant("limits: {concurrency: }"),
       "t.yaml:/tenants/0/limits/concurrency (line 3): has no value; give one or remove the key"},
      {OneTenant("limits: {request_per_minute: 5}"),
       "t.yaml:/tenants/0/limits/request_per_minute (line 3): unknown key \"request_per_minute\", did you "
       "mean "
       "\"requests_per_minute\"?"},
      {OneTenant("limits: {per_model: {smal: {concurrency: 1}}}"),
       R"(t.yaml:/tenants/0/limits/per_model/smal (line 3): unknown model "smal", did you mean "small"?)"},
      {OneTenant("limits: {body_memory: 5}"),
       "t.yaml:/tenants/0/limits/body_memory (line 3): must be at least 1048576"},
      {OneTenant("parameters: {allow: [seed, top_k], deny: [top_k, model]}"),
       "t.yaml:/tenants/0/parameters/deny (line 3): \"top_k\" is allowed and denied; remove one|"
       "t.yaml:/tenants/0/parameters/deny (line 3): model cannot be denied; every request has one"},
      {OneTenant("parameters: {force: {model: x, seed: [1]}}"),
       "t.yaml:/tenants/0/parameters/force/model (line 3): cannot be forced; the gateway reads it from the "
       "request|"
       "t.yaml:/tenants/0/parameters/force/seed (line 3): expected text, a number, true or false, found a "
       "list"},
      {OneTenant("budget: {period: day}"),
       "t.yaml:/tenants/0/budget (line 3): give usd, tokens or device_hours"},
      {OneTenant("budget: {usd: 5}"), "t.yaml:/tenants/0/budget/period (line 3): is required"},
      {OneTenant("budget: {usd: -5, period: day}"),
       "t.yaml:/tenants/0/budget/usd (line 3): expected an amount in USD of at least 0 with at most six "
       "decimals, such "
       "as 0.15, found \"-5\""},
      {OneTenant("budget: {device_hours: 5, period: day}"),
       "t.yaml:/tenants/0/budget/device_hours (line 3): has no effect without a "
       "section scaling, which says what runs on devices"},
      {OneTenant("budget: {device_hours: 0, period: day}"),
       "t.yaml:/tenants/0/budget/device_hours (line 3): must be from 0.000001 to 100000000; remove the key "
       "for no limit|t.yaml:/tenants/0/budget/device_hours (line 3): has no effect without "
       "a section scaling, which says what runs on devices"},
      {OneTenant("budget: {usd: 5, device: h100, period: day}"),
       "t.yaml:/tenants/0/budget (line 3): device limits device_hours to one kind of device: "
       "give it with device_hours alone, and usd or tokens in an entry of their own"},
      {OneTenant("budget: {usd: 5, period: year}"),
       "t.yaml:/tenants/0/budget/period (line 3): unknown period \"year\", expected one of day, week, month"},
      {OneTenant("budget: {usd: 5, period: day, model: smal}"),
       R"(t.yaml:/tenants/0/budget/model (line 3): unknown model "smal", did you mean "small"?)"},
      {OneTenant("budget: [{usd: 5, period: day, model: smal}]"),
       R"(t.yaml:/tenants/0/budget/0/model (line 3): unknown model "smal", did you mean "small"?)"},
      {OneTenant("endpoints: [chats]"),
       R"(t.yaml:/tenants/0/endpoints/0 (line 3): unknown API family "chats", did you mean "chat"?)"},
      // Models.
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h:1, engine: vllm, kv_events: {url: "
              "'tcp://*:5557', replay: 'http://h:5558'}}]}]"}}),
       "t.yaml:/models/0/endpoints/0/kv_events/url (line 1): must be an address that the gateway can "
       "connect to, such as tcp://10.0.0.5:5557|t.yaml:/models/0/endpoints/0/kv_events/replay (line 1): must "
       "be an address that the gateway can connect to, such as tcp://10.0.0.5:5557"},
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h:1, engine: vllm, kv_events: {url: "
              "'tcp://h:5557', replay: 'tcp://h:5557'}}]}]"}}),
       "t.yaml:/models/0/endpoints/0/kv_events/replay (line 1): is the same address as url; engines replay "
       "on a separate socket"},
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h:1, engine: tgi, kv_events: {url: "
              "'tcp://h:5557'}}]}]"}}),
       "t.yaml:/models/0/endpoints/0/kv_events (line 1): is supported for the engines vllm and sglang only"},
      {With({{"models", "[{name: small, endpoints: []}]"}}),
       "t.yaml:/models/0/endpoints (line 1): must not be empty"},
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h:1, engine: vllm}]}, {name: small, endpoints: [{url: "
              "http://h:2, engine: vllm}]}]"}}),
       "t.yaml:/models/1/name (line 1): model \"small\" is given twice, first at /models/0; list its "
       "replicas as "
       "endpoints of one"},
      {OneModel("aliases: [small]"),
       "t.yaml:/models/0/aliases/0 (line 1): alias \"small\" is the name of /models/0 already"},
      {OneModel("aliases: [s, s]"),
       "t.yaml:/models/0/aliases/1 (line 1): alias \"s\" is an alias of /models/0 already"},
      {OneModel("routing: {policy: least-laod}"),
       R"(t.yaml:/models/0/routing/policy (line 1): unknown policy "least-laod", did you mean "least-load"?)"},
      {OneModel("routing: {policy: cost, cost: {running: -1, pool: .nan, other_zone: much}}"),
       "t.yaml:/models/0/routing/cost/running (line 1): must be between 0 and 1000000|"
       "t.yaml:/models/0/routing/cost/pool (line 1): expected a number, found \".nan\"|"
       "t.yaml:/models/0/routing/cost/other_zone (line 1): expected a number, found \"much\""},
      {OneModel("routing: {policy: epp, epp: {queue: 0, kv: 0, prefix: 0}}"),
       "t.yaml:/models/0/routing/epp (line 1): the weights sum to zero; give at least one scorer a weight "
       "above 0"},
      {OneModel("routing: {policy: consistent-hash, consistent_hash: {bound: 0.5}}"),
       "t.yaml:/models/0/routing/consistent_hash/bound (line 1): must be between 1 and 1000000"},
      {OneModel("routing: {policy: cache-aware, cache_aware: {match: 50}}"),
       "t.yaml:/models/0/routing/cache_aware/match (line 1): must be between 0 and 1"},
      {OneModel("routing: {canaries: [{track: v2, percent: 5}]}"),
       "t.yaml:/models/0/routing/canaries/0/track (line 1): no endpoint of this model has the track \"v2\", "
       "or any"},
      {Tracked("canaries: [{track: v3, percent: 5}, {track: v2, percent: 1}]"),
       "t.yaml:/models/0/routing/canaries/0/track (line 1): unknown track \"v3\", did you mean \"v2\"?"},
      {Tracked("canaries: [{track: v2, percent: 101}]"),
       "t.yaml:/models/0/routing/canaries/0/percent (line 1): must be between 0 and 100"},
      {Tracked("canaries: [{track: v2, percent: 60}, {track: v2, percent: 50}]"),
       "t.yaml:/models/0/routing/canaries/1/track (line 1): track \"v2\" is given twice, first at "
       "/models/0/routing/canaries/0|"
       "t.yaml:/models/0/routing/canaries (line 1): the percentages sum to 110, which is more than 100"},
      {Tracked("canaries: [{track: v2}]"),
       "t.yaml:/models/0/routing/canaries/0 (line 1): give percent or header; without them no request "
       "reaches it"},
      {Tracked("canaries: [{track: v2, percent: 1, value: v2}]"),
       "t.yaml:/models/0/routing/canaries/0/value (line 1): has no effect without a header"},
      {Tracked("canaries: [{track: v2, header: 'a b'}]"),
       "t.yaml:/models/0/routing/canaries/0/header (line 1): is not the name of an HTTP header"},
      {Tracked(""),
       "t.yaml:/models/0/endpoints/1/track (line 1): nothing is sent to the track \"v2\"; name it under "
       "routing.canaries or routing.shadows"},
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h:1, engine: vllm, weight: 0}, {url: http://h:2, "
              "engine: vllm, track: v2}], routing: {canaries: [{track: v2, percent: 1}]}}]"}}),
       "t.yaml:/models/0/endpoints (line 1): the weights sum to zero; give one endpoint without a track at "
       "least 1"},
      {OneModel("routing: {sticky: {ttl: -1s}}"),
       "t.yaml:/models/0/routing/sticky/ttl (line 1): expected a duration with a unit, such as 500ms, 30s "
       "or 5m, found \"-1s\""},
      {OneModel("routing: {sticky: {ttl: 0s}}"),
       "t.yaml:/models/0/routing/sticky/ttl (line 1): must be between 1s and 30d"},
      {OneModel("routing: {shadows: [{percent: 5}]}"),
       "t.yaml:/models/0/routing/shadows/0 (line 1): give either model or track, where the copies go"},
      {OneModel("aliases: [s], routing: {shadows: [{model: s, percent: 5}]}"),
       "t.yaml:/models/0/routing/shadows/0/model (line 1): is the model itself; give some of its endpoints a "
       "track and name that"},
      {OneModel("routing: {shadows: [{model: smal, percent: 101}]}"),
       "t.yaml:/models/0/routing/shadows/0/percent (line 1): must be between 0 and 100|"
       "t.yaml:/models/0/routing/shadows/0/model (line 1): unknown model \"smal\", did you mean \"small\"?"},
      {Tracked(
           "canaries: [{track: v2, percent: 1}], shadows: [{track: v2, percent: 60}, {track: v2, percent: "
           "60}]"),
       "t.yaml:/models/0/routing/shadows (line 1): the percentages sum to 120, which is more than 100"},
      {Tracked("shadows: [{track: v3, percent: 5}], canaries: [{track: v2, percent: 0}]"),
       "t.yaml:/models/0/routing/shadows/0/track (line 1): unknown track \"v3\", did you mean \"v2\"?"},
      {OneEndpoint("url: http://h, zone: west"),
       "t.yaml:/models/0/endpoints/0/zone (line 1): has no effect without server.zone, the gateway's own"},
      {With({{"routing_log", "{sample: 2, files: 0, file_bytes: 1}"}}),
       "t.yaml:/routing_log/sample (line 2): must be between 0 and 1|"
       "t.yaml:/routing_log/file_bytes (line 2): must be between 65536 and 1073741824|"
       "t.yaml:/routing_log/files (line 2): must be between 1 and 1000"},
      {With({{"files", "{s3: {bucket: 'a b', endpoint: 'redis://h', prefix: /x/, access_key: env:K}}"}}),
       "t.yaml:/files/s3/endpoint (line 1): expected a URL that begins with http:// or https://, found "
       "redis://|"
       "t.yaml:/files/s3/bucket (line 1): must be letters, digits, dots, hyphens and underscores, such as "
       "tidegate-files|"
       "t.yaml:/files/s3/prefix (line 1): must be names with slashes between them, such as gateway/files|"
       "t.yaml:/files/s3/secret_key (line 1): is required"},
      {With({{"files",
              "{s3: {bucket: b, endpoint: 'http://h', ca: a.crt, access_key: env:K, secret_key: k}}"}}),
       "t.yaml:/files/s3/secret_key (line 1): a secret is given by reference only, env:NAME or file:PATH, so "
       "that it is never in a configuration file|"
       "t.yaml:/files/s3/ca (line 1): has an effect only with an endpoint that begins with https://"},
      {With({{"files", "{s3: {bucket: b, endpoint: 'http://h', access_key: env:K, secret_key: env:K}}"},
             {"state", "{url: 'postgres://u@127.0.0.1/d', password: env:K}"}}),
       "t.yaml:/files (line 1): gateways that share a store and a bucket read each other's files: set "
       "ledger.content_key, to the same key at all of them"},
      {OneModel("price: {input: -0.1, output: 1}"),
       "t.yaml:/models/0/price/input (line 1): expected an amount in USD of at least 0 with at most six "
       "decimals, such "
       "as 0.15, found \"-0.1\""},
      {OneModel("price: {input: 1, output: 1, cached_input: 1, image: 0.04}"), ""},
      {OneModel("price: {image: 1, output: 1}"),
       "t.yaml:/models/0/price/output (line 1): needs input beside it, the price of the prompt tokens"},
      {OneModel("max_output_tokens: 10, context: 5"),
       "t.yaml:/models/0/max_output_tokens (line 1): must not be more than context"},
      {OneModel("timeouts: {first_byte: 1h}"),
       "t.yaml:/models/0/timeouts/first_byte (line 1): must not be longer than total"},
      {OneModel("retries: {budget: 1.5}"),
       "t.yaml:/models/0/retries/budget (line 1): must be between 0 and 1"},
      {OneModel("watch: {slow_factor: 1.5}"),
       "t.yaml:/models/0/watch/slow_factor (line 1): must be at least 2, or 0 for never"},
      {OneModel("watch: {eject: 1h}"),
       "t.yaml:/models/0/watch/eject (line 1): must not be longer than max_eject"},
      {OneModel("watch: {hung_after: 30}"),
       "t.yaml:/models/0/watch/hung_after (line 1): expected a duration with a unit, such as 500ms, 30s or "
       "5m, found \"30\""},
      {OneModel("breaker: {open: 2m}"),
       "t.yaml:/models/0/breaker/open (line 1): must not be longer than max_open"},
      {OneModel("health: {path: health}"),
       "t.yaml:/models/0/health/path (line 1): must be a path that begins with /, such as /health"},
      {OneModel("health: {interval: 1s}"),
       "t.yaml:/models/0/health/timeout (line 1): must not be longer than interval"},
      {OneModel("fallbacks: [smal]"),
       R"(t.yaml:/models/0/fallbacks/0 (line 1): unknown model "smal", did you mean "small"?)"},
      {OneModel("fallbacks: [small]"),
       "t.yaml:/models/0/fallbacks/0 (line 1): closes a cycle of fallbacks: small -> small"},
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h:1, engine: vllm}], fallbacks: [b]}, {name: b, "
              "endpoints: [{url: http://h:1, engine: vllm}], fallbacks: [{model: small, on: [context]}]}]"}}),
       "t.yaml:/models/1/fallbacks/0 (line 1): closes a cycle of fallbacks: small -> b -> small"},
      {OneModel("fallbacks: [{model: small, on: [broken]}]"),
       "t.yaml:/models/0/fallbacks/0/on/0 (line 1): unknown condition \"broken\", expected one of "
       "unavailable, "
       "overloaded, timeout, context|t.yaml:/models/0/fallbacks/0 (line 1): closes a cycle of fallbacks: "
       "small -> small"},
      // LoRA adapters.
      {Adapters("[{name: a, lora: {base: smal}}]"),
       R"(t.yaml:/models/0/lora/base (line 1): unknown model "smal", did you mean "small"?)"},
      {Adapters("[{name: a, lora: {}}]"), "t.yaml:/models/0/lora/base (line 1): is required"},
      {Adapters("[{name: a, lora: {base: a}}]"),
       "t.yaml:/models/0/lora/base (line 1): is the model itself; name the model whose endpoints serve it"},
      {Adapters("[{name: a, lora: {base: small}}, {name: b, lora: {base: a}}]"),
       "t.yaml:/models/1/lora/base (line 1): \"a\" is an adapter itself; name its base, \"small\""},
      {Adapters("[{name: a, lora: {base: paid}}]"),
       "t.yaml:/models/0/lora/base (line 1): endpoint h:3 of \"paid\" is openai, which serves no adapter by "
       "its name; the base's endpoints must all be of vllm, sglang, tgi or chat-only"},
      {Adapters("[{name: a, lora: {base: small}, endpoints: [{url: http://h:9, engine: vllm}], queue: {}}]"),
       "t.yaml:/models/0/endpoints (line 1): has no effect with lora; the base's setting applies to its "
       "adapters|"
       "t.yaml:/models/0/queue (line 1): has no effect with lora; the base's setting applies to its "
       "adapters"},
      {Adapters("[{name: a, lora: {base: small, adapter: x}}, {name: b, lora: {base: small, adapter: x}}]"),
       "t.yaml:/models/1/lora/adapter (line 1): adapter \"x\" of \"small\" is given twice, first as "
       "/models/0; give that an alias instead"},
      {Adapters("[{name: a, lora: {base: small, adapter: small}}]"),
       "t.yaml:/models/0/lora/adapter (line 1): is the base model's name at an endpoint of \"small\"; "
       "give the adapter's name there"},
      // Endpoints.
      {OneEndpoint("url: h:1"),
       "t.yaml:/models/0/endpoints/0/url (line 1): expected a URL such as http://HOST:PORT, found \"h:1\""},
      {OneEndpoint("url: http://h:80x"),
       "t.yaml:/models/0/endpoints/0/url (line 1): expected a URL such as http://HOST:PORT, found "
       "\"http://h:80x\""},
      {OneEndpoint("url: http://h:99999"),
       "t.yaml:/models/0/endpoints/0/url (line 1): has a port that is not between 1 and 65535"},
      {OneEndpoint("url: 'not a url'"),
       "t.yaml:/models/0/endpoints/0/url (line 1): expected a URL such as http://HOST:PORT, found the text "
       "\"not a url\" "
       "in quotes"},
      {OneEndpoint("url: ftp://h"),
       "t.yaml:/models/0/endpoints/0/url (line 1): expected a URL that begins with http:// or "
       "https://, found ftp://"},
      {OneEndpoint("url: http://user:hunter2@h"),
       "t.yaml:/models/0/endpoints/0/url (line 1): must not contain credentials; give them by reference, "
       "env:NAME or "
       "file:PATH"},
      {OneEndpoint("url: 'http://user:hunter2@h:99999x'"),
       "t.yaml:/models/0/endpoints/0/url (line 1): is not a URL; expected a URL such as http://HOST:PORT"},
      {OneEndpoint("url: 'http://h?key=hunter2'"),
       "t.yaml:/models/0/endpoints/0/url (line 1): must not have a query"},
      {OneEndpoint("url: http://h#x"), "t.yaml:/models/0/endpoints/0/url (line 1): must not have a fragment"},
      {OneEndpoint("url: http://:80"), "t.yaml:/models/0/endpoints/0/url (line 1): has no host"},
      {OneEndpoint("url: http://h:70000"),
       "t.yaml:/models/0/endpoints/0/url (line 1): has a port that is not between 1 and 65535"},
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h, engine: vllm}, {url: 'http://h/v1/', engine: "
              "tgi}]}]"}}),
       "t.yaml:/models/0/endpoints/1/url (line 1): http://h is listed twice, first at /models/0/endpoints/0; "
       "use weight "
       "to prefer it"},
      {OneEndpoint("url: http://h, pass_headers: [Cookie, host, X-Fine, 'a b', x-request-id]"),
       "t.yaml:/models/0/endpoints/0/pass_headers (line 1): \"Cookie\" carries a credential of the client, "
       "which no engine may see; remove it|"
       "t.yaml:/models/0/endpoints/0/pass_headers (line 1): \"host\" is a header that Tidegate sets itself; "
       "remove it|"
       "t.yaml:/models/0/endpoints/0/pass_headers (line 1): \"a b\" is not the name of an HTTP header|"
       "t.yaml:/models/0/endpoints/0/pass_headers (line 1): \"x-request-id\" is a header that Tidegate sets "
       "itself; remove it"},
      {OneEndpoint("url: http://h, api_key: hunter2"),
       "t.yaml:/models/0/endpoints/0/api_key (line 1): a secret is given by reference only, env:NAME or "
       "file:PATH, so "
       "that it is never in a configuration file"},
      {OneEndpoint("url: http://h, headers: {Authorization: Bearer hunter2}"),
       "t.yaml:/models/0/endpoints/0/headers/Authorization (line 1): carries a credential; use api_key, or "
       "give it by "
       "reference under secret_headers"},
      {OneEndpoint("url: http://h, headers: {x-tidegate-a: b, 'a b': c, x-a: 1, X-A: 2}"),
       "t.yaml:/models/0/endpoints/0/headers/x-tidegate-a (line 1): is a header that Tidegate sets itself; "
       "remove it|"
       "t.yaml:/models/0/endpoints/0/headers/a b (line 1): is not the name of an HTTP header|"
       "t.yaml:/models/0/endpoints/0/headers/X-A (line 1): is given twice; header names ignore case"},
      {OneEndpoint("url: http://h, secret_headers: {x-a: env:GONE}"),
       "t.yaml:/models/0/endpoints/0/secret_headers/x-a (line 1): environment variable GONE is not set"},
      {OneEndpoint("url: http://h, tls: {ca: a.crt}"),
       "t.yaml:/models/0/endpoints/0/tls (line 1): has no effect on a URL that begins with http:// and not "
       "with https://"},
      {OneEndpoint("url: https://h, tls: {certificate: a.crt}"),
       "t.yaml:/models/0/endpoints/0/tls (line 1): needs both certificate and key, or neither"},
      {OneEndpoint("url: https://h, tls: {ca: gone.pem}"),
       "t.yaml:/models/0/endpoints/0/tls/ca (line 1): cannot read \"gone.pem\": No such file or directory"},
      {OneEndpoint("url: http://h, weight: 0"),
       "t.yaml:/models/0/endpoints (line 1): the weights sum to zero; give one endpoint without a track at "
       "least 1"},
      {With({{"models",
              "[{name: small, endpoints: [{url: http://h, engine: vllm}, {url: 'http://h:80/', engine: "
              "tgi}]}]"}}),
       "t.yaml:/models/0/endpoints/1/url (line 1): http://h is listed twice, first at /models/0/endpoints/0; "
       "use weight "
       "to prefer it"},
      {With({{"models",
              "[{name: small, endpoints: [{name: a, url: http://h, engine: vllm}, {name: a, url: http://i, "
              "engine: tgi}]}]"}}),
       "t.yaml:/models/0/endpoints/1/name (line 1): endpoint \"a\" is given twice, first at "
       "/models/0/endpoints/0"},
      {With({{"models", "[{name: small, endpoints: [{url: http://h, engine: vlm}]}]"}}),
       R"(t.yaml:/models/0/endpoints/0/engine (line 1): unknown engine "vlm", did you mean "vllm"?)"},
      {With({{"models", "[{name: small, endpoints: [{url: http://h, engine: llama}]}]"}}),
       R"(t.yaml:/models/0/endpoints/0/engine (line 1): unknown engine "llama", did you mean "llamacpp"?)"},
      // Ledger and services.
      {With({{"ledger", "{durability: strickt}"}}),
       R"(t.yaml:/ledger/durability (line 1): unknown durability "strickt", did you mean "strict"?)"},
      {With({{"ledger", "{retention: {bytes: 100MiB}}"}}),
       "t.yaml:/ledger/retention (line 1): retention.bytes must be at least twice segment_bytes, since whole "
       "segments "
       "are dropped"},
      {OneSink("type: kafka"),
       "t.yaml:/ledger/sinks/0/type (line 1): unknown sink type \"kafka\", expected one of file, webhook, "
       "syslog|"
       "t.yaml:/ledger/sinks/0/path (line 1): is required"},
      {OneSink("type: webhook, url: https://h, path: x"),
       "t.yaml:/ledger/sinks/0/path (line 1): unknown key \"path\", expected one of name, type, url, "
       "secret_headers, "
       "tls, timeout, batch_records, batch_interval, max_backoff"},
      {OneSink("type: syslog, address: 'siem:514'"),
       "t.yaml:/ledger/sinks/0/address (line 1): expected unix:PATH, udp://HOST:PORT or tcp://HOST:PORT, "
       "found the text "
       "\"siem:514\" in quotes"},
      {With({{"ledger", "{sinks: [{name: s, type: file, path: p}, {name: s, type: file, path: p}]}"}}),
       "t.yaml:/ledger/sinks/1/name (line 1): sink \"s\" is given twice; the name identifies its "
       "position in the ledger|t.yaml:/ledger/sinks/1/path (line 1): \"p\" is written by another sink "
       "already"},
      {With({{"state", "mysql://db/x"}}),
       "t.yaml:/state (line 3): expected postgres://USER@HOST:PORT/DATABASE"},
      {With({{"state", "postgres://127.0.0.1"}}),
       "t.yaml:/state (line 3): needs the name of a database: postgres://USER@HOST:PORT/DATABASE"},
      {With({{"state", "postgres://tidegate@db.example.com/tidegate"}}),
       "t.yaml:/state (line 3): needs ca: write it as state: {url: …, password: env:NAME, ca: FILE}"},
      {With({{"state", "{url: postgres://db.example.com/x}"}}),
       "t.yaml:/state/url (line 3): needs ca: the file of the authority that signed the server's "
       "certificate, "
       "such as /etc/ssl/certs/ca-certificates.crt"},
      {With({{"state", "{url: 'postgres://db.example.com/x?sslmode=require'}"}}),
       "t.yaml:/state/url (line 3): sslmode=require does not prove which server answers; use verify-full, or "
       "disable in a network that you trust"},
      {With({{"state", "{url: 'postgres://db.example.com/x?sslmode=disable', certificate: a.pem}"}}),
       "t.yaml:/state/certificate (line 3): certificate and key belong together|"
       "t.yaml:/state/certificate (line 3): cannot read \"a.pem\": No such file or directory"},
      {With({{"state", "{url: 'postgres://127.0.0.1/x?connect_timeout=1'}"}}),
       "t.yaml:/state/url (line 3): unknown option \"connect_timeout\"; it takes sslmode and host"},
      {With({{"redis", "{url: http://r, gateways: 2}"}}),
       "t.yaml:/redis/url (line 2): expected a URL that begins with redis:// or rediss://, found http://"},
      {With({{"redis", "{url: redis://r/1, gateways: 2}"}}),
       "t.yaml:/redis/url (line 2): must end after the port; name the database under database"},
      {With({{"redis", "{url: redis://r, gateways: 2, timeout: 5s}"}}),
       "t.yaml:/redis/timeout (line 2): must be shorter than lease, so that a lease can be renewed "
       "in time"},
      {With({{"redis", "{url: redis://r, gateways: 2, when_unavailable: keep}"}}),
       "t.yaml:/redis/when_unavailable (line 2): unknown policy \"keep\", expected one of keep-share, "
       "fail-closed"},
      {With({{"telemetry", "{otlp: {endpoint: http://h:4318, sample_ratio: 2}}"}}),
       "t.yaml:/telemetry/otlp/sample_ratio (line 3): must be between 0 and 1"},
      {With({{"telemetry", "{access_log: {sample: 2}}"}}),
       "t.yaml:/telemetry/access_log/sample (line 3): must be between 0 and 1"},
      {With({{"telemetry", "{log: {level: trace}}"}}),
       "t.yaml:/telemetry/log/level (line 3): unknown level \"trace\", expected one of debug, info, warn, "
       "error"},
  };
  for (const auto& [text, expected] : kCases) {
    const std::vector<std::string> problems = Problems(text);
    EXPECT_EQ(fmt::format("{}", fmt::join(problems, "|")), expected) << text;
    const LoadResult result = Parse(text);
    EXPECT_THAT(conf::ToJson(result.problems), Not(HasSubstr("hunter2"))) << text;
  }
}

TEST(Config, ReportsEveryProblemOfEverySectionAtOnce) {
  EXPECT_THAT(
      Problems(R"(
server: {listen: here, threads: many}
tenants:
  - {name: a, models: [x], parent: ghost}
  - {name: a, models: [big]}
models:
  - name: big
    endpoints: [{url: gopher://h, engine: vllm}]
    rooting: {policy: least-load}
    fallbacks: [bigger]
redis: {gateways: 2, password: literal}
)"),
      UnorderedElementsAre(HasSubstr("/server/listen (line 2): expected an IP address"),
                           HasSubstr("/server/threads (line 2): expected a whole number of at least 0"),
                           HasSubstr("/tenants/0/models/0 (line 4): unknown model \"x\""),
                           HasSubstr("/tenants/0/parent (line 4): unknown tenant \"ghost\""),
                           HasSubstr("/tenants/1/name (line 5): tenant \"a\" is given twice"),
                           HasSubstr("/models/0/endpoints/0/url (line 8): expected a URL that begins with"),
                           HasSubstr("/models/0/rooting (line 9): unknown key \"rooting\""),
                           HasSubstr("/models/0/fallbacks/0 (line 10): unknown model \"bigger\""),
                           HasSubstr("/redis/url (line 11): is required"),
                           HasSubstr("/redis/password (line 11): a secret is given by reference only")));
}

TEST(Config, DoesNotCallANameUnknownWhenAnotherCouldNotBeRead) {
  EXPECT_THAT(Problems(With({{"models", "[{name: [small], endpoints: [{url: http://h, engine: vllm}]}]"}})),
              ElementsAre("t.yaml:/models/0/name (line 1): expected a text, found a list"));
}

// 128 + 1 + 125 + 1 + 1 bytes are as many as a record holds.
TEST(Config, ATenantsPathFitsARecordOfTheLedger) {
  const auto tenants = [](size_t middle) {
    return With(
        {{"tenants", fmt::format("[{{name: {0}, models: ['*']}}, {{name: {1}, parent: {0}}}, {{name: c, "
                                 "parent: {1}}}]",
                                 std::string(128, 'a'), std::string(middle, 'b'))}});
  };
  EXPECT_THAT(Problems(tenants(125)), testing::IsEmpty());
  EXPECT_THAT(
      Problems(tenants(126)),
      ElementsAre("t.yaml:/tenants/2/name (line 3): with its parents' names, joined by \"/\", it takes "
                  "257 bytes: must be at most 256, which is what a record of the ledger holds"));
}

TEST(Config, RulesOfApprovalAreReadWrittenAndChecked) {
  const auto people = [](std::string_view text) { return With({{"people", std::string(text)}}); };
  const LoadResult result = Parse(people(
      "{requests: {expire: 24h, approve: [{name: small, tenant: search, models: ['*'], budget: {usd: 5}}]}, "
      "webhook: {url: 'https://hooks.example.com/x'}, budget_thresholds: [90]}"));
  ASSERT_TRUE(result.config.has_value());
  const config::ApprovalRule& rule = result.config->people.requests.approve.at(0);
  EXPECT_EQ(rule.budget->micro_usd, 5'000'000);
  EXPECT_TRUE(Parse(ToJson(*result.config).dump()).config.has_value());
  EXPECT_THAT(Problems(people(
                  "{requests: {approve: [{name: a, tenant: gone, weight: 2}, {name: a, tenant: search}]}}")),
              UnorderedElementsAre(HasSubstr("unknown tenant \"gone\""), HasSubstr("\"a\" is given twice"),
                                   HasSubstr("approves nothing")));
  EXPECT_THAT(Problems(people("{budget_thresholds: [0]}")),
              ElementsAre(HasSubstr("percentages from 1 to 100")));
}

TEST(Config, ReportsAFileThatCannotBeRead) {
  const LoadResult result = LoadConfig("gone.yaml", FakeSources());
  EXPECT_FALSE(result.config.has_value());
  ASSERT_EQ(result.problems.size(), 1U);
  EXPECT_EQ(conf::ToString(result.problems[0]), "gone.yaml: cannot read it: No such file or directory");
}

TEST(Config, AFailedLoadLeavesTheRunningOneAlone) {
  const LoadResult good = Parse(With({}));
  const std::string hash = Hash(*good.config);
  EXPECT_FALSE(Parse(OneModel("translate: maybe")).config.has_value());
  EXPECT_EQ(Hash(*good.config), hash);
}

TEST(Config, GlobsMatchAnyRun) {
  const std::tuple<std::string_view, std::string_view, bool> kCases[] = {
      {"*", "", true},
      {"*", "anything", true},
      {"chat-*", "chat-small", true},
      {"chat-*", "chat", false},
      {"*-small", "a-small", true},
      {"a*b*c", "aXbYc", true},
      {"a*b*c", "aXbY", false},
      {"a**b", "ab", true},
      {"", "", true},
      {"", "a", false},
      {"abc", "abc", true},
      {"abc", "abcd", false},
      {"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false}};
  for (const auto& [pattern, name, matches] : kCases) {
    EXPECT_EQ(config::GlobMatches(pattern, name), matches) << pattern << " " << name;
  }
}

}  // namespace
}  // namespace gateway
