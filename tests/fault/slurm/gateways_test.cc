// Several gateways of one PostgreSQL and one Redis before a real Slurm: the leader is killed or stands still, or what
// they share goes away, under load; what runs goes on, and no device is given twice.
//
// TIDEGATE_GATEWAY_KILLS says how many times the leader is killed (2 without it), TIDEGATE_GATEWAY_PAUSE for how
// many seconds it stands still (15), TIDEGATE_GATEWAY_OUTAGE for how many seconds a database is away (10). With
// TIDEGATE_GATEWAY_FIGURES, the figures are printed as lines of JSON (bench/gateways). Where Redis and haproxy are
// installed, they are used.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "tests/fault/gateway/scaling.h"
#include "tests/support/free_port.h"
#include "tests/support/postgres_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/slurm_cluster.h"

namespace tests {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Clients that send requests one after the other, as through a balancer: one that finds no gateway at an address
// takes the next. A request that was sent and got no answer was in flight.
class Load {
 public:
  Load(std::vector<uint16_t> ports, int clients) : ports_(std::move(ports)) {
    for (int i = 0; i < clients; ++i) threads_.emplace_back([this, i] { Run(static_cast<size_t>(i)); });
  }
  ~Load() { Stop(); }
  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  std::atomic<int> answered{0};
  std::atomic<int> in_flight{0};  // broken off after they were sent
  std::atomic<int> failed{0};     // answered by an error, or nobody was there to take them
  std::string first_failure;      // after Stop()

 private:
  void Run(size_t at) {
    const std::string request = Chat({{"max_tokens", 3}});
    while (!stopping_) {
      bool sent = false;
      for (size_t tries = 0; tries < 3 * ports_.size() && !sent; ++tries) {
        RawClient client(ports_[++at % ports_.size()]);
        if (!client.connected()) continue;
        sent = true;
        const Answer answer = client.Ask(request);
        if (answer.status == 200 && answer.whole) {
          ++answered;
        } else if (answer.status == 0 || !answer.whole || answer.status == 502) {
          ++in_flight;  // 502: as the balancer tells of it
        } else {
          Fail(fmt::format("{} {}", answer.status, answer.body));
        }
      }
      if (!sent) Fail("no gateway takes a connection");
      Pause(milliseconds(20));
    }
  }
  void Fail(std::string why) {
    ++failed;
    const std::lock_guard lock(mutex_);
    if (first_failure.empty()) first_failure = std::move(why);
  }

  const std::vector<uint16_t> ports_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

class SeveralGateways : public testing::Test {
 protected:
  static constexpr size_t kGateways = 3;

  void SetUp() override {
    if (const std::string why = SlurmCluster::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    if (const std::string why = PostgresServer::Missing(); !why.empty()) GTEST_SKIP() << why;
    cluster_ = std::make_unique<SlurmCluster>();
    ASSERT_EQ(cluster_->Start(), "");
    database_ = std::make_unique<PostgresServer>();
    ASSERT_TRUE(database_->Start());
    ASSERT_TRUE(database_->MakeDatabase("gateways"));
    if (RedisServer::Installed()) {
      redis_.emplace();
      ASSERT_TRUE(redis_->Start());
    }
    std::ofstream(folder_ / "cluster.yaml")
        << "devices: [{name: h100, memory: 80GiB}]\n"
           "types: [{name: server, cpu: 64, memory: 500GiB, device: h100, count: 8}]\n"
           "nodes: [{name: \"node{1..4}\", type: server}]\n";
    std::ofstream(folder_ / "token") << cluster_->Token();
    std::ofstream(folder_ / "password") << PostgresServer::kPassword;
    std::filesystem::permissions(folder_ / "password", std::filesystem::perms::owner_read);
    ScaledModel model = Model();
    model.more += "placement: {devices: [{kind: h100, count: 8}]}\n";
    for (size_t i = 0; i < kGateways; ++i) {
      GatewayConfig config;
      config.port = own_ports_[i].number();  // the balancer knows it, also after a restart
      config.model = model_section_;
      config.sections = fmt::format("state: {{url: \"{}\", password: \"file:{}\"}}\n",
                                    database_->Url("gateways"), folder_ / "password");
      if (redis_) {
        config.sections += fmt::format("redis: {{url: \"redis://127.0.0.1:{}\", gateways: {}}}\n",
                                       redis_->port(), kGateways);
        config.tenant = "limits: {requests_per_minute: 1000000}";
      }
      gateways_.push_back(std::make_unique<Scaled>(model, Section(), config));
      ports_.push_back(gateways_.back()->gateway.port());
    }
    ASSERT_TRUE(Within(seconds(60), [&] { return Ready() >= replicas_; })) << gateways_[0]->Replicas();
  }
  void TearDown() override {
    if (const std::optional<size_t> leader = Leader()) gateways_[*leader]->KeepNothing();
  }

  virtual ScaledModel Model() {
    ScaledModel model;
    model.replicas = "{min: 2, max: 3}";
    return model;
  }
  // The numbers of two gateways: one that leads, and one that follows.
  std::pair<size_t, size_t> LeaderAndFollower() {
    std::optional<size_t> leader;
    EXPECT_TRUE(Within(seconds(20), [&] { return (leader = Leader()).has_value(); }));
    const size_t leads = leader.value_or(0);
    return {leads, (leads + 1) % kGateways};
  }

  std::string Section() const {
    return fmt::format(
        "launcher: slurm, cluster: {}, on_exit: keep, slurm: {{name: gateways, url: \"http://127.0.0.1:{}\", "
        "user: "
        "{}, token: \"file:{}\", partition: main, logs: {}/work, directory: {}/work}}",
        folder_ / "cluster.yaml", cluster_->rest_port(), cluster_->user(), folder_ / "token",
        cluster_->folder(), cluster_->folder());
  }

  bool Lives(size_t i) { return gateways_[i]->gateway.process().Running() && i != stopped_; }
  bool Leads(size_t i) {
    const Answer answer = gateways_[i]->gateway.AskAdmin(Get("/admin/v1/gateways", Scaled::Credentials()));
    if (answer.status != 200) return false;
    const Json told = answer.json();
    return std::ranges::any_of(told["data"], [](const Json& gateway) {
      return gateway["self"].get<bool>() && gateway["role"] == "leads";
    });
  }
  // The number of the gateway that says itself that it leads.
  std::optional<size_t> Leader() {
    std::optional<size_t> leader;
    for (size_t i = 0; i < gateways_.size(); ++i) {
      if (!Lives(i) || !Leads(i)) continue;
      // The lead may have gone from one to the other between the questions.
      EXPECT_FALSE(leader.has_value() && Leads(*leader)) << "two gateways say that they lead";
      leader = i;
    }
    return leader;
  }
  // Ready replicas, as some gateway tells; it asks the leader where it does not lead.
  size_t Ready() {
    for (size_t i = 0; i < gateways_.size(); ++i) {
      if (!Lives(i)) continue;
      const Answer answer = gateways_[i]->gateway.AskAdmin(Get("/admin/v1/replicas", Scaled::Credentials()));
      if (answer.status != 200) return 0;
      return static_cast<size_t>(std::ranges::count_if(
          answer.json()["data"], [](const Json& replica) { return replica["state"] == "ready"; }));
    }
    return 0;
  }
  // How long it takes until another gateway leads and has taken over what runs.
  std::optional<Clock::duration> Resumes(size_t without) {
    const Clock::time_point began = Clock::now();
    const bool resumed = Within(seconds(40), [&] {
      const std::optional<size_t> leader = Leader();
      return leader && *leader != without && Ready() >= 2;
    });
    return resumed ? std::optional(Clock::now() - began) : std::nullopt;
  }

  // Names of Slurm's jobs that run, each once.
  std::set<std::string> Runs() {
    std::set<std::string> names;
    std::istringstream lines(cluster_->Run({"/usr/bin/squeue", "-h", "-t", "R,PD,CG", "-o", "%j"}));
    for (std::string name; lines >> name;) {
      EXPECT_TRUE(names.insert(name).second) << name << " was started twice";
    }
    return names;
  }
  // Replicas that more than one ledger says were launched.
  int DoubleStarts() const {
    std::map<std::string, int> launches;
    for (const auto& gateway : gateways_) {
      for (const gateway::ledger::Record& record : gateway->Actions())
        launches[record.subject] += record.action == "replica.launch" ? 1 : 0;
    }
    return static_cast<int>(std::ranges::count_if(launches, [](const auto& one) { return one.second > 1; }));
  }

  // Something that all gateways use goes away and comes back, under load: no request fails, nothing that runs
  // ends, nothing starts twice, and control resumes. `event` ends when it is back.
  void Outlives(const char* what, const std::function<void()>& event) {
    const std::set<std::string> before = Runs();
    const std::optional<uint16_t> balancer = Balancer();
    Load load(balancer ? std::vector<uint16_t>{*balancer} : ports_, 8);
    ASSERT_TRUE(Within(seconds(10), [&] { return load.answered > 20; }));
    event();
    const int answered = load.answered;
    const std::optional<Clock::duration> resumed = Resumes(SIZE_MAX);
    ASSERT_TRUE(resumed.has_value());
    EXPECT_TRUE(Within(seconds(10), [&] { return load.answered > answered + 20; }));
    load.Stop();
    EXPECT_EQ(load.failed, 0) << load.first_failure;
    EXPECT_EQ(load.in_flight, 0);
    EXPECT_EQ(Runs(), before);
    EXPECT_EQ(DoubleStarts(), 0);
    if (std::getenv("TIDEGATE_GATEWAY_FIGURES") != nullptr) {
      fmt::print("{}\n", Json{{"event", what},
                              {"resumed_s", std::chrono::duration<double>(*resumed).count()},
                              {"answered", load.answered.load()},
                              {"broken_off", load.in_flight.load()},
                              {"failed", load.failed.load()}}
                             .dump());
    }
  }
  static seconds Outage() { return seconds(FromEnvironment("TIDEGATE_GATEWAY_OUTAGE", 10)); }

  // In front of all gateways; nothing where it is not installed.
  std::optional<uint16_t> Balancer() {
    if (!std::filesystem::exists("/usr/sbin/haproxy")) return std::nullopt;
    std::string servers;
    for (size_t i = 0; i < ports_.size(); ++i)
      servers += fmt::format("  server g{} 127.0.0.1:{} check inter 200ms fall 2 rise 1\n", i, ports_[i]);
    std::ofstream(folder_ / "haproxy.cfg") << fmt::format(
        "defaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n"
        "  retries 3\n  option redispatch 1\n  retry-on conn-failure\n"
        "listen gateways\n  bind 127.0.0.1:{}\n  balance roundrobin\n{}",
        balancer_port_.number(), servers);
    balancer_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{"/usr/sbin/haproxy", "-f", folder_ / "haproxy.cfg"},
        folder_ / "haproxy.log");
    const uint16_t port = balancer_port_.number();
    EXPECT_TRUE(Within(seconds(10), [&] { return RawClient(port).Ask(Get("/v1/models")).status == 200; }))
        << balancer_->Output();
    return port;
  }

  TempDir folder_;
  std::unique_ptr<SlurmCluster> cluster_;
  std::unique_ptr<PostgresServer> database_;
  std::optional<RedisServer> redis_;  // where it is installed
  std::vector<std::unique_ptr<Scaled>> gateways_;
  std::vector<uint16_t> ports_;
  std::array<FreePort, kGateways> own_ports_;
  FreePort balancer_port_;
  std::unique_ptr<ChildProcess> balancer_;
  size_t stopped_ = SIZE_MAX;
  size_t replicas_ = 2;
  std::string model_section_;  // of the model's members in the configuration
};

TEST_F(SeveralGateways, OneThatIsKilledIsReplacedAndNothingStartsTwice) {
  const int kills = FromEnvironment("TIDEGATE_GATEWAY_KILLS", 2);
  const std::set<std::string> before = Runs();
  const std::optional<uint16_t> balancer = Balancer();
  Load load(balancer ? std::vector<uint16_t>{*balancer} : ports_, 8);
  std::vector<double> took;
  for (int i = 0; i < kills; ++i) {
    const std::optional<size_t> leader = Leader();
    ASSERT_TRUE(leader.has_value());
    gateways_[*leader]->gateway.Kill();
    const std::optional<Clock::duration> resumed = Resumes(*leader);
    ASSERT_TRUE(resumed.has_value()) << "kill " << i;
    took.push_back(std::chrono::duration<double>(*resumed).count());
    gateways_[*leader]->gateway.Start();
    ASSERT_TRUE(Within(seconds(20), [&] { return Ready() >= 2; }));
  }
  load.Stop();
  EXPECT_EQ(load.failed, 0) << load.first_failure;
  EXPECT_GT(load.answered, 0);
  const std::set<std::string> after = Runs();
  EXPECT_TRUE(std::ranges::includes(after, before)) << "what ran goes on";
  EXPECT_EQ(DoubleStarts(), 0);
  if (std::getenv("TIDEGATE_GATEWAY_FIGURES") != nullptr) {
    std::ranges::sort(took);
    fmt::print("{}\n", Json{{"kills", kills},
                            {"balancer", balancer ? "haproxy" : "none"},
                            {"resumed_p50_s", took[took.size() / 2]},
                            {"resumed_max_s", took.back()},
                            {"answered", load.answered.load()},
                            {"in_flight_on_the_dead", load.in_flight.load()},
                            {"failed", load.failed.load()},
                            {"double_starts", DoubleStarts()}}
                           .dump());
  }
}

TEST_F(SeveralGateways, ALeaderThatStandsStillChangesNothingWhenItWakes) {
  const std::set<std::string> before = Runs();
  const std::optional<size_t> leader = Leader();
  ASSERT_TRUE(leader.has_value());
  ChildProcess& process = gateways_[*leader]->gateway.process();
  process.Signal(SIGSTOP);
  stopped_ = *leader;
  const std::optional<Clock::duration> resumed = Resumes(*leader);
  Pause(seconds(FromEnvironment("TIDEGATE_GATEWAY_PAUSE", 15)));
  process.Signal(SIGCONT);
  stopped_ = SIZE_MAX;
  ASSERT_TRUE(resumed.has_value());
  const std::optional<size_t> other = Leader();
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(*other, *leader);
  Pause(seconds(3));
  EXPECT_EQ(Leader(), other);
  EXPECT_EQ(Runs(), before);
  EXPECT_EQ(DoubleStarts(), 0);
  EXPECT_EQ(gateways_[*leader]->gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
}

// Three adapters, and two engines with one slot each.
class AdaptersOfSeveralGateways : public SeveralGateways {
 protected:
  static constexpr const char* kNames[] = {"sql", "law", "tax"};

  ScaledModel Model() override {
    for (const char* const name : kNames) {
      std::filesystem::create_directory(adapters_ / name);
      std::ofstream(adapters_ / name + "/adapter_config.json") << "{}";
    }
    std::filesystem::permissions(adapters_.path(), std::filesystem::perms::all);
    model_section_ = fmt::format("adapters: {{sources: [{}], slots: 1}}", adapters_.path());
    ScaledModel model;
    model.replicas = "{min: 2, max: 2}";
    model.flags = {"--preset", "instant", "--enable-lora", "--max-loaded-loras", "1"};
    return model;
  }
  Answer Load(size_t gateway, const std::string& name) {
    return gateways_[gateway]->gateway.AskAdmin(
        Post("/admin/v1/models/chat-small/adapters",
             Json{{"name", name}, {"source", adapters_ / name}}.dump(), Scaled::Credentials()));
  }

  TempDir adapters_;
};

TEST_F(AdaptersOfSeveralGateways, OneThatRequestsWaitForAtAFollowerIsLoaded) {
  const auto [leader, follower] = LeaderAndFollower();
  for (const char* const name : kNames) {
    const Answer loaded = Load(follower, name);
    EXPECT_EQ(loaded.status, 201) << loaded.body;
    // At once, where it was loaded.
    const Answer answer = gateways_[follower]->gateway.Ask(Chat({{"model", name}, {"max_tokens", 2}}));
    EXPECT_EQ(answer.status, 200) << name << ": " << answer.body;
  }
  // Of three, two have a slot: one waits for one each time.
  for (int round = 0; round < 2; ++round) {
    for (const char* const name : kNames) {
      const Answer answer = gateways_[follower]->gateway.Ask(Chat({{"model", name}, {"max_tokens", 2}}));
      EXPECT_EQ(answer.status, 200) << name << ": " << answer.body;
    }
  }
  // Another leader knows of all.
  gateways_[leader]->gateway.Kill();
  ASSERT_TRUE(Resumes(leader).has_value());
  for (const char* const name : kNames) {
    const Answer answer = gateways_[follower]->gateway.Ask(Chat({{"model", name}, {"max_tokens", 2}}));
    EXPECT_EQ(answer.status, 200) << name << ": " << answer.body;
  }
}

// A new version that fails every second request.
class RolloutOfSeveralGateways : public SeveralGateways {
 protected:
  ScaledModel Model() override {
    ScaledModel model;
    replicas_ = 1;
    model.replicas = "{min: 1, max: 1}";
    model.more = fmt::format(
        "version: v1\nrollout:\n  version: v2\n"
        "  replica: {{engine: vllm, command: [\"{}\", --port, \"{{port}}\", --model, chat-small, --preset, "
        "instant, "
        "--fault, \"500@every:2\"]}}\n"
        "  steps: [50, 100]\n  hold: 5m\n  patience: 10m\n  min_requests: 40\n"
        "  bounds: {{ttft: 100, tokens_per_second: 0.01}}\n",
        TIDEGATE_ENGINE_BINARY);
    return model;
  }
  Json Rollout(size_t gateway) {
    const Json all = gateways_[gateway]->Admin("/admin/v1/rollouts")["data"];
    return all.empty() ? Json::object() : all[0];
  }
};

TEST_F(RolloutOfSeveralGateways, IsJudgedByTheRequestsOfAFollowerAlsoByTheNextLeader) {
  const auto [leader, follower] = LeaderAndFollower();
  ASSERT_TRUE(Within(seconds(60), [&] { return Rollout(follower).value("percent", 0.0) == 50.0; }))
      << Rollout(follower);
  gateways_[leader]->gateway.Kill();
  ASSERT_TRUE(Within(seconds(40), [&] {
    const std::optional<size_t> next = Leader();
    return next && *next != leader;
  }));
  ASSERT_TRUE(
      Within(seconds(40), [&] { return Rollout(follower).is_object() && !Rollout(follower).empty(); }));
  const Json after = Rollout(follower);
  EXPECT_EQ(after.value("state", ""), "running");
  EXPECT_EQ(after.value("percent", 0.0), 50.0) << "it goes on where it was";
  const size_t next = *Leader();
  const size_t asked = 3 - leader - next;  // the one that follows now
  Load load({ports_[asked]}, 4);
  EXPECT_TRUE(Within(seconds(60), [&] { return Rollout(next).value("state", "") == "rolled_back"; }))
      << Rollout(next);
  load.Stop();
  EXPECT_EQ(load.failed, 0) << load.first_failure << ": what fails there is tried again at the old version";
  EXPECT_THAT(Rollout(next).value("reason", ""), testing::HasSubstr("tries fail against"));
  int begun = 0;
  for (const auto& gateway : gateways_) begun += gateway->Names("rollout.begin");
  EXPECT_EQ(begun, 1);
}

TEST_F(SeveralGateways, ADatabaseThatIsAwayForAWhileStopsNothingThatRuns) {
  Outlives("PostgreSQL is stopped, and started again", [&] {
    database_->Stop();
    Pause(Outage());
    ASSERT_TRUE(database_->Start());
  });
}

TEST_F(SeveralGateways, ADatabaseThatIsKilledStopsNothingThatRuns) {
  Outlives("PostgreSQL is killed, and started again", [&] {
    database_->Kill();
    ASSERT_TRUE(database_->Start());
  });
}

TEST_F(SeveralGateways, ACopyOfTheDatabaseTakesOver) {
  ASSERT_TRUE(database_->MakeCopy());
  Outlives("a copy of PostgreSQL takes over", [&] { ASSERT_TRUE(database_->PromoteCopy()); });
}

TEST_F(SeveralGateways, ARedisThatIsAwayForAWhileStopsNothing) {
  if (!redis_) GTEST_SKIP() << "redis-server is not installed";
  Outlives("Redis is killed, and started again", [&] {
    redis_->Kill();
    Pause(Outage());
    ASSERT_TRUE(redis_->Start());
  });
}

}  // namespace
}  // namespace tests
