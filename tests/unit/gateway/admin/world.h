// Everything that the operator's side works on, without shards and listeners for applications: a ledger and a
// store with keys in a folder of its own, a loop, a configuration, and states that a test sets as it likes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "conf/json_parse.h"
#include "gateway/admin/admin_server.h"
#include "gateway/admin/event_feed.h"
#include "gateway/admin/metrics.h"
#include "gateway/config/load.h"
#include "gateway/config/sources.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/export.h"
#include "gateway/net/http/fetch.h"
#include "gateway/people/overlay.h"
#include "gateway/process/ledger_options.h"
#include "gateway/process/open_state.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace tests {

using nlohmann::json;

inline constexpr std::string_view kBootstrapKey = "bootstrap-0123456789-0123456789-0123456789";

class World {
 public:
  explicit World(std::string_view more = "") {
    conf::Sources sources = gateway::SystemSources();
    sources.environment = [](const std::string& name) -> std::optional<std::string> {
      if (name == "BOOT") return std::string(kBootstrapKey);
      return std::nullopt;
    };
    const std::string text =
        "server: {listen: 127.0.0.1:0, admin: 127.0.0.1:0, state_dir: " + dir.path() + R"(}
tenants:
  - {name: demo, models: ['*'], limits: {requests_per_minute: 600}, budget: {usd: 20, period: day},
     self_service: true}
  - {name: search, parent: demo, models: [chat-small]}
models:
  - name: chat-small
    aliases: [gpt-4o-mini]
    price: {input: 0.15, output: 0.60}
    adapters: {sources: [/adapters]}
    endpoints:
      - {name: a, url: 'http://127.0.0.1:8000', engine: vllm}
      - {name: b, url: 'http://127.0.0.1:8001', engine: vllm}
  - name: chat-large
    endpoints: [{name: c, url: 'http://127.0.0.1:8002', engine: vllm}]
)" + (more.empty() ? "admin: {bootstrap_key: env:BOOT}\n" : std::string(more)) +
        (more.find("auth:") == std::string_view::npos ? "auth: {failed_per_minute: 0}\n" : "");
    gateway::LoadResult loaded = gateway::ParseConfig(text, "t.yaml", sources);
    for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << ToString(problem);
    const gateway::Config& config = *loaded.config;
    gateway::ledger::Options options;
    options.dir = gateway::LedgerDir(config);
    options.ring_bytes = 8 << 20;
    store = *gateway::OpenState(loop, config.server.state_dir);
    shared.ledger = *gateway::ledger::Ledger::Open(options);
    shared.content_keys = *gateway::ledger::ContentKeys::Open(gateway::ContentKeyOptions(config));
    EXPECT_TRUE(shared.content_keys->Ensure({"demo", "demo/search"}).ok());
    shared.keys = std::make_unique<gateway::Keys>(loop, *store);
    EXPECT_TRUE(Await(shared.keys->Start()).ok());
    shared.keys->OnTable([this] { ++published; });
    runtime = *gateway::Runtime::Build(*std::move(loaded.config), shared.learned(), gateway::net::Now());
    EXPECT_TRUE(shared.limits.Update(runtime->LimitNodes()).ok());
    shard.Bind(runtime->names());
    key_events = std::make_unique<gateway::KeyEvents>(loop, *store, *shared.ledger, ledger_dir());
    EXPECT_TRUE(Await(key_events->Start()).ok());

    sessions = std::make_unique<gateway::Sessions>(loop, *store, [] { return gateway::SessionTerms(); });
    EXPECT_TRUE(Await(sessions->Start()).ok());

    ledger_check = std::make_unique<gateway::LedgerCheck>(ledger_dir());
    operations.ledger_check = ledger_check.get();
    terminal_sign_ins = std::make_unique<gateway::TerminalSignIns>(*store, *sessions);
    operations.terminal_sign_ins = terminal_sign_ins.get();
    projects = std::make_unique<gateway::Projects>(loop, *store);
    EXPECT_TRUE(Await(projects->Start()).ok());
    grants = std::make_unique<gateway::Grants>(loop, *store);
    EXPECT_TRUE(Await(grants->Start()).ok());
    projects->OnChange([this] { UseTenants(); });
    grants->OnChange([this] { UseTenants(); });

    operations.shared = &shared;
    operations.events = &events;
    operations.sessions = sessions.get();
    operations.projects = projects.get();
    operations.grants = grants.get();
    operations.key_events = key_events.get();
    operations.runtime = [this] { return runtime; };
    operations.shards = [this] { return std::vector<const gateway::ShardMetrics*>{&shard}; };
    operations.reloads = [this] { return reloads; };
    operations.reload = [this](std::string actor) -> gateway::net::Task<absl::Status> {
      reloaded_by = std::move(actor);
      co_return reload_result;
    };
    operations.outbound = [this] { return outbound; };
    operations.kv_events = [] { return gateway::KvEventsStatus(); };
    operations.record = [this](gateway::ledger::Event event) {
      EXPECT_TRUE(shared.ledger->Append(event).ok());
    };
    operations.issuers = [this] { return issuers; };
    operations.metrics = [this] { return metrics.Render(); };
  }

  ~World() {
    events.Close();
    shared.keys->Stop();
    if (key_events) key_events->Stop();
    sessions->Stop();
    projects->Stop();
    grants->Stop();
    loop.Stop();
    loop.Run();
    shared.keys.reset();
  }

  // As the process does when the tenants made at run time, or grants, have changed.
  void UseTenants() {
    std::vector<gateway::config::Tenant> tenants =
        gateway::WithProjects(runtime->configured().tenants, projects->List());
    gateway::AddGrants(tenants, grants->List(), gateway::net::Now());
    runtime = *runtime->WithInForce({.tenants = std::move(tenants)}, {}, shared.learned());
    EXPECT_TRUE(shared.limits.Update(runtime->LimitNodes()).ok());
  }

  // Runs the loop until `task` has ended; not from a coroutine on it.
  template <class T>
  T Await(gateway::net::Task<T> task) {
    return gateway::net::Await(loop, std::move(task));
  }

  std::string ledger_dir() const { return gateway::LedgerDir(runtime->config()); }

  std::string AdminKey(plugins::auth::Role role, std::vector<plugins::auth::Right> rights = {}) {
    plugins::auth::KeySpec spec;
    spec.role = role;
    spec.rights = std::move(rights);
    return MakeKey(spec);
  }
  std::string AppKey(const std::string& tenant = "demo/search") {
    plugins::auth::KeySpec spec;
    spec.tenant = tenant;
    return MakeKey(spec);
  }
  std::string MakeKey(const plugins::auth::KeySpec& spec) {
    const auto made = Await(shared.keys->Create(spec, gateway::net::Now()));
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->secret : "";
  }

  // All records of a kind, as they stand in the ledger.
  std::vector<json> Records(gateway::ledger::Kind kind) {
    EXPECT_TRUE(shared.ledger->Flush().ok());
    gateway::ledger::ExportOptions options;
    options.kinds = {kind};
    std::string text;
    EXPECT_TRUE(gateway::ledger::Export(ledger_dir(), options, [&](std::string_view lines) {
                  text += lines;
                  return true;
                }).ok());
    std::vector<json> records;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      records.push_back(json::parse(text.substr(at, text.find('\n', at) - at)));
    }
    return records;
  }

  // One request that used so many tokens.
  void Serve(std::string_view tenant, std::string_view model, uint64_t input, uint64_t output,
             gateway::ledger::EndReason reason = gateway::ledger::EndReason::kDone) {
    gateway::ledger::OpenRecord open;
    open.time_us = conf::ToUnixMicros(gateway::net::Now());
    open.request = "req_1";
    open.tenant = tenant;
    open.model = model;
    open.api = "chat.completions";
    auto ticket = shared.ledger->Shard(0).Open(open);
    ASSERT_TRUE(ticket.has_value());
    gateway::ledger::CloseRecord close;
    close.time_us = open.time_us;
    close.reason = reason;
    close.status = 200;
    close.counts.input = input;
    close.counts.output = output;
    close.counts.cost_micro_usd = static_cast<int64_t>(input + output);
    ticket->Close(close);
  }

  TempDir dir;
  TestLoop loop{[](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "a task threw: " << e.what();
    }
  }};
  std::unique_ptr<gateway::store::Store> store;
  gateway::Shared shared;
  std::shared_ptr<const gateway::Runtime> runtime;
  std::unique_ptr<gateway::KeyEvents> key_events;
  std::unique_ptr<gateway::Sessions> sessions;
  std::unique_ptr<gateway::TerminalSignIns> terminal_sign_ins;
  std::unique_ptr<gateway::LedgerCheck> ledger_check;
  std::unique_ptr<gateway::Projects> projects;
  std::unique_ptr<gateway::Grants> grants;
  gateway::ShardMetrics shard;
  gateway::ReloadState reloads;
  absl::Status reload_result;
  std::string reloaded_by;
  int published = 0;  // tables of keys
  gateway::OutboundStatus outbound;
  std::vector<gateway::Jwks::Status> issuers;
  gateway::Operations operations;
  gateway::admin::EventFeed events{loop, operations, gateway::net::Now()};
  gateway::Metrics metrics{operations};
};

struct Reply {
  int status = 0;
  std::string text;
  json body;
  std::map<std::string, std::string> headers;

  std::string code() const { return body["error"]["code"]; }
  std::string message() const { return body["error"]["message"]; }
};

// A browser with a session.
struct SignedIn {
  std::string secret;
  std::string csrf;
  std::string origin = {};  // empty: none is sent
};

// Talks to an admin listener over `world` on a loop of the test's.
class AdminClient {
 public:
  AdminClient(
      TestLoop& loop, World& world,
      gateway::admin::AdminServer::Audience audience = gateway::admin::AdminServer::Audience::kEveryone)
      : loop_(loop), world_(world) {
    auto server = gateway::admin::AdminServer::Listen(
        loop, world.operations, world.runtime->config().server.admin, nullptr, audience);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = &loop.Keep(*std::move(server));
  }

  gateway::net::Task<Reply> Call(std::string method, std::string target, std::string key = "",
                                 std::string body = "", std::string content_type = "application/json") {
    gateway::net::http::FetchRequest request;
    request.method = std::move(method);
    const size_t mark = target.find('?');
    request.url = {false, "127.0.0.1", std::to_string(server_->port()), target.substr(0, mark),
                   mark == std::string::npos ? "" : target.substr(mark + 1)};
    if (!key.empty()) request.headers.emplace_back("authorization", "Bearer " + key);
    if (!body.empty()) request.headers.emplace_back("content-type", content_type);
    request.body = std::move(body);
    co_return co_await Send(std::move(request));
  }

  gateway::net::Task<Reply> CallAs(SignedIn who, std::string method, std::string target,
                                   std::string body = "") {
    gateway::net::http::FetchRequest request;
    const bool changes = method == "POST";
    request.method = std::move(method);
    const size_t mark = target.find('?');
    request.url = {false, "127.0.0.1", std::to_string(server_->port()), target.substr(0, mark),
                   mark == std::string::npos ? "" : target.substr(mark + 1)};
    request.headers.emplace_back("cookie", "other=1; tidegate=" + who.secret);
    if (!who.origin.empty()) request.headers.emplace_back("origin", who.origin);
    if (changes) {
      request.headers.emplace_back("x-csrf-token", who.csrf);
      request.headers.emplace_back("content-type", "application/json");
      request.body = std::move(body);
    }
    co_return co_await Send(std::move(request));
  }

  gateway::net::Task<int> StatusWithoutCredential(std::string method, std::string target) {
    const Reply reply = co_await Call(std::move(method), std::move(target));
    co_return reply.status;
  }

  gateway::net::Task<SignedIn> SignIn(gateway::Person person) {
    const auto begun =
        co_await world_.sessions->Begin(std::move(person), {"127.0.0.1", "test"}, {}, gateway::net::Now());
    EXPECT_TRUE(begun.ok()) << begun.status();
    co_return SignedIn{begun->secret, gateway::CsrfTokenOf(begun->secret)};
  }

  // By the cookie of an answer.
  SignedIn SessionOf(const Reply& reply) {
    const std::string& cookie = reply.headers.at("set-cookie");
    const size_t equals = cookie.find('=');
    const std::string secret = cookie.substr(equals + 1, cookie.find(';') - equals - 1);
    return {secret, gateway::CsrfTokenOf(secret)};
  }

  gateway::admin::AdminServer& server() { return *server_; }
  void Close() { server_->Close(); }

 private:
  gateway::net::Task<Reply> Send(gateway::net::http::FetchRequest request) {
    const auto response = co_await gateway::net::http::Fetch(loop_, std::move(request));
    Reply reply;
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) co_return reply;
    reply.status = response->status;
    reply.text = response->body;
    reply.body = conf::ParseJson(response->body);
    for (const auto& [name, value] : response->headers) reply.headers[name] = value;
    co_return reply;
  }

  TestLoop& loop_;
  World& world_;
  gateway::admin::AdminServer* server_;
};

// Runs `body` against an admin listener.
inline void WithAdmin(World& world, const std::function<gateway::net::Task<void>(AdminClient&)>& body) {
  AdminClient client(world.loop, world);
  world.Await([&]() -> gateway::net::Task<bool> {
    co_await body(client);
    co_return true;
  }());
  client.Close();
}

}  // namespace tests
