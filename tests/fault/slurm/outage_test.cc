// What a launcher makes of a Slurm that falls silent, loses nodes or swallows answers.
#include <fmt/format.h>

#include "gateway/net/http/server.h"
#include "tests/fault/slurm/slurm_fixture.h"

namespace plugins::launchers {
namespace {

using testing::HasSubstr;

// Between launcher and slurmrestd: passes everything on, and keeps back the answers that it is told to.
class Interceptor {
 public:
  explicit Interceptor(gateway::net::Loop& loop) : loop_(loop) {}

  void Listen(uint16_t to) {
    to_ = {false, "127.0.0.1", std::to_string(to), "", ""};
    gateway::net::http::Server::Options options;
    options.acceptor.address = "127.0.0.1:0";
    auto server = gateway::net::http::Server::Listen(
        loop_, std::move(options), [this](gateway::net::http::Exchange& exchange) { return Pass(exchange); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  uint16_t port() const { return server_->port(); }
  void Stop() { server_->CloseAll(); }

  int lose_submits = 0;
  int submits = 0;

 private:
  Task<void> Pass(gateway::net::http::Exchange& exchange) {
    gateway::net::http::FetchRequest request;
    request.method = std::string(boost::beast::http::to_string(exchange.head().method));
    const std::string target(exchange.head().target);
    const size_t question = target.find('?');
    request.url = to_;
    request.url.path = target.substr(0, question);
    if (question != std::string::npos) request.url.query = target.substr(question + 1);
    for (const auto& field : exchange.head().fields) {
      const std::string name(field.name);
      if (name.starts_with("x-slurm") || name == "content-type")
        request.headers.emplace_back(name, field.value);
    }
    request.body = exchange.body();
    const bool submits_a_job = target.ends_with("/job/submit");
    if (submits_a_job) ++submits;
    auto answer = co_await gateway::net::http::Fetch(loop_, std::move(request));
    if (!answer.ok() || (submits_a_job && lose_submits-- > 0)) {
      exchange.CloseAfter();
      co_return;
    }
    co_await exchange.Send(answer->status, {}, answer->body);
  }

  gateway::net::Loop& loop_;
  gateway::net::Url to_;
  std::unique_ptr<gateway::net::http::Server> server_;
};

TEST_F(SlurmTest, ASubmissionWhoseAnswerWasLostIsMadeOnce) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    Interceptor& between = loop.Make<Interceptor>();
    between.Listen(cluster_->rest_port());
    between.lose_submits = 1;
    SlurmLauncher::Options options = Options();
    options.server.url.port = std::to_string(between.port());
    SlurmLauncher launcher(loop, options);
    const absl::Status started = co_await launcher.Start(Spec("r1", "node1", 1, kWait));
    EXPECT_TRUE(started.ok()) << started;
    EXPECT_EQ(between.submits, 1);
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 1, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    EXPECT_EQ(Jobs("r1").find('\n'), std::string::npos) << Jobs("r1");
    co_await launcher.Close();
    between.Stop();
  });
}

TEST_F(SlurmTest, AJobOfTheSameNameNeverRunsBesideTheFirst) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher launcher(loop, Options());
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 1, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    // As a submission that hung somewhere would come late.
    slurm::Client client(loop, Options().server);
    slurm::Submission late{.run = Spec("r1", "node2", 1, kWait), .partition = "main", .gres = "gpu:h100:1"};
    late.mark = {"state-1", "chat-small", "demo", 21'500};
    late.memory_mib = 1000;
    const auto second = co_await client.Submit(slurm::RenderBody(late));
    EXPECT_TRUE(second.ok()) << second.status();
    const std::string id = second.ok() ? std::to_string(*second) : "0";
    launcher.Open();  // looks, and cancels what must not be there
    const bool cancelled = co_await tests::Eventually(loop, [&] {
      return cluster_->Run({"/usr/bin/squeue", "-h", "-j", id, "-o", "%T", "-t", "all"}) == "CANCELLED";
    });
    EXPECT_TRUE(cancelled);
    EXPECT_THAT(cluster_->Run({"/usr/bin/scontrol", "show", "job", id}), HasSubstr("RunTime=00:00:00"));
    const auto first = co_await Until(loop, launcher, "r1", IsRunning);
    EXPECT_NE(first->port, 21'500);
    co_await launcher.Close();
  });
}

TEST_F(SlurmTest, WhatRunsOutlivesSlurmctldAndSlurmrestd) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher launcher(loop, Options());
    launcher.Open();
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 2, kWait))).ok());
    const auto before = co_await Until(loop, launcher, "r1", IsRunning);

    cluster_->Kill("slurmrestd");
    const auto unreachable = co_await launcher.Start(Spec("r2", "node2", 1, kWait));
    EXPECT_TRUE(absl::IsUnavailable(unreachable)) << unreachable;
    EXPECT_FALSE(launcher.health().ok());
    const auto no_list = co_await launcher.List();
    EXPECT_TRUE(absl::IsUnavailable(no_list.status())) << no_list.status();
    cluster_->Restart("slurmrestd");
    EXPECT_EQ((co_await Until(loop, launcher, "r1", IsRunning))->port, before->port);
    EXPECT_TRUE((co_await launcher.Start(Spec("r2", "node2", 1, kWait))).ok());
    co_await Until(loop, launcher, "r2", IsRunning);

    cluster_->Stop("slurmctld");
    const auto silent = co_await launcher.Start(Spec("r3", "node3", 1, kWait));
    EXPECT_TRUE(absl::IsUnavailable(silent)) << silent;
    cluster_->Restart("slurmctld");
    gateway::net::Sleep sleep(loop.watchdog);
    absl::Status third = absl::UnavailableError("");
    for (int i = 0; i < 100 && absl::IsUnavailable(third); ++i) {
      third = co_await launcher.Start(Spec("r3", "node3", 1, kWait));
      if (!third.ok()) co_await sleep.For(200ms);
    }
    EXPECT_TRUE(third.ok()) << third;
    for (const char* id : {"r1", "r2", "r3"}) {
      const auto running = co_await Until(loop, launcher, id, IsRunning);
      EXPECT_EQ(running->why, "") << id;
      EXPECT_EQ(Jobs(id).find('\n'), std::string::npos) << Jobs(id);
    }
    co_await launcher.Close();
  });
}

TEST_F(SlurmTest, ARunWhoseNodeFailsHasEndedAndIsNotStartedAgainBySlurm) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher launcher(loop, Options());
    launcher.Open();
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 2, std::string("echo begun; ") + kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    // A job is RUNNING from its allocation on. Slurm puts one back into the queue whose script has not begun.
    EXPECT_TRUE(LogHas("r1", "begun"));
    cluster_->Kill("node1");
    const auto ended = co_await Until(loop, launcher, "r1", HasEnded, 60s);
    EXPECT_THAT(ended->why, HasSubstr("node1 failed"));
    EXPECT_EQ(ended->exit_code, std::nullopt);
    const bool seen = co_await tests::Eventually(
        loop, [&] { return launcher.shared()->nodes[0].health == scheduler::Health::kQuarantined; });
    EXPECT_TRUE(seen);
    EXPECT_EQ(launcher.shared()->nodes[1].health, scheduler::Health::kHealthy);
    co_await launcher.Close();
  });
}

TEST_F(SlurmTest, AnExpiredTokenIsReadAgain) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher::Options options = Options();
    std::string token = "stale";
    options.server.token = [&token]() -> absl::StatusOr<std::string> { return token; };
    SlurmLauncher launcher(loop, options);
    const auto refused = co_await launcher.List();
    EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
    EXPECT_EQ(refused.status().message().find("stale"), absl::string_view::npos);
    token = token_;
    const auto listed = co_await launcher.List();
    EXPECT_TRUE(listed.ok()) << listed.status();
    co_await launcher.Close();
  });
}

}  // namespace
}  // namespace plugins::launchers
