// tidegate top against the real gateway: one frame as text and as JSON; and live, in a terminal of its own
// that is as it was afterwards.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <array>
#include <fstream>

#include "conf/json_parse.h"
#include "tests/fault/gateway/scaling.h"
#include "tests/support/engine_process.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kLong{40'000};

class TopFault : public testing::Test {
 protected:
  TopFault()
      : scaled_({.replicas = "{min: 1, max: 1}", .more = "placement: {devices: [{kind: gpu, count: 2}]}\n"},
                "cluster: [{kind: gpu, count: 4}]") {
    std::ofstream(folder_ / "key") << kScalingAdminKey << "\n";
    EXPECT_TRUE(scaled_.Becomes(1, "ready", kLong));
    const Answer answer = scaled_.gateway.Connect().Ask(Post(
        "/v1/chat/completions", R"({"model":"chat-small","messages":[{"role":"user","content":"hi"}]})"));
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  std::vector<std::string> Args(std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"top", "--admin", fmt::format("http://127.0.0.1:{}", scaled_.gateway.admin_port()),
                 "--key-file", folder_ / "key"});
    return more;
  }

  TempDir folder_;
  Scaled scaled_;
};

TEST_F(TopFault, OneFrameHasAllOfIt) {
  ASSERT_TRUE(Within(kLong, [&] {
    const CliResult top = RunCli(Args({"--json"}));
    const Json now = conf::ParseJson(top.out);
    // The loop's view is as old as its last tick.
    return top.code == 0 && now["traffic"][0]["requests_per_second"] > 0 &&
           now["scaling"][0]["classes"][1]["requests"] == 1 &&
           now["scaling"][0]["classes"][1]["held_requests"] == 0;
  }));
  const CliResult frame = RunCli(Args({"--once"}));
  ASSERT_EQ(frame.code, 0) << frame.err;
  EXPECT_THAT(frame.out, AllOf(HasSubstr("chat-small"), HasSubstr("A A · ·"), HasSubstr("2 of 4"),
                               HasSubstr("replica.ready"), HasSubstr("it answers")));
  EXPECT_THAT(frame.out, testing::Not(HasSubstr("\033")));
  const Json now = Json::parse(RunCli(Args({"--json"})).out);
  EXPECT_EQ(now["replicas"].size(), 1u);
  EXPECT_TRUE(now["traffic"][0]["first_token_ms"].is_object());
  EXPECT_TRUE(now["traffic"][0]["inter_token_ms"].is_null()) << "the answer came whole";
  const Json of_class = now["traffic"][0]["classes"][1];
  EXPECT_EQ(of_class["class"], "normal");
  EXPECT_GT(of_class["requests_per_second"], 0);
  EXPECT_TRUE(of_class["first_token_ms"].is_object());
  EXPECT_TRUE(now["traffic"][0]["classes"][0]["first_token_ms"].is_null()) << "of nobody";
}

// The binary in a terminal of 80 columns and 24 rows.
class InTerminal {
 public:
  explicit InTerminal(const std::vector<std::string>& args) {
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    tcgetattr(slave_, &before_);
    pid_ = fork();
    if (pid_ == 0) {
      login_tty(slave_);
      std::vector<char*> argv = {const_cast<char*>(TIDEGATE_BINARY)};
      for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
      argv.push_back(nullptr);
      execv(TIDEGATE_BINARY, argv.data());
      _exit(127);
    }
  }
  ~InTerminal() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(master_);
    close(slave_);
  }

  bool Shows(std::string_view text) {
    return Within(kLong, [&] {
      pollfd ready{.fd = master_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 20) <= 0) return false;
      std::array<char, 4096> buffer{};
      const ssize_t n = read(master_, buffer.data(), buffer.size());
      if (n > 0) seen_.append(buffer.data(), static_cast<size_t>(n));
      return seen_.find(text) != std::string::npos;
    });
  }
  void Send(std::string_view keys) {
    EXPECT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void Forget() { seen_.clear(); }
  int Ends() {
    int status = -1;
    EXPECT_TRUE(Within(kLong, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; }));
    pid_ = 0;
    return status;
  }
  bool IsAsBefore() {
    termios now{};
    tcgetattr(slave_, &now);
    return now.c_lflag == before_.c_lflag && now.c_cc[VSUSP] == before_.c_cc[VSUSP] &&
           Shows("\033[?25h\033[?1049l");
  }
  const std::string& seen() const { return seen_; }

 private:
  int master_ = -1;
  int slave_ = -1;
  pid_t pid_ = -1;
  termios before_{};
  std::string seen_;
};

TEST(TopWithoutScaling, ShowsEndpointsAndTokensOfRunningStreamsAndIsNeverRefused) {
  const TempDir folder;
  std::ofstream(folder / "key") << kScalingAdminKey << "\n";
  const EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "20ms", "--step-per-sequence", "0s"});
  GatewayProcess gateway(
      {.replicas = {engine.port()},
       .sections = fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder / "key")});
  const std::vector<std::string> args = {"top", "--admin",
                                         fmt::format("http://127.0.0.1:{}", gateway.admin_port()),
                                         "--key-file", folder / "key"};
  const auto top = [&](const std::string& more) {
    std::vector<std::string> all = args;
    all.push_back(more);
    return RunCli(all);
  };
  RawClient stream = gateway.Connect();
  stream.Send(Chat({{"stream", true}, {"max_tokens", 2000}, {"ignore_eos", true}}));
  EXPECT_TRUE(Within(kLong,
                     [&] {
                       const Json now = conf::ParseJson(top("--json").out);
                       return now["traffic"][0].value("outstanding_requests", 0) == 1 &&
                              now["traffic"][0].value("output_tokens_per_second", 0.0) > 0;
                     }))
      << "the stream still runs: " << top("--json").out;
  const CliResult frame = top("--once");
  EXPECT_EQ(frame.code, 0) << frame.err;
  EXPECT_THAT(frame.out, AllOf(HasSubstr("ENDPOINT"), testing::ContainsRegex("A  r0 +up +closed +vllm +1 ")));
  EXPECT_THAT(frame.out, testing::Not(AllOf(HasSubstr("WANTED"), HasSubstr("REPLICA"))));
  EXPECT_EQ(gateway.process().Output().find("status=409"), std::string::npos);
}

TEST_F(TopFault, IsLiveUntilQAndLeavesTheTerminalAsItWas) {
  InTerminal terminal(Args({}));
  ASSERT_TRUE(terminal.Shows("chat-small")) << terminal.seen();
  terminal.Forget();
  ASSERT_TRUE(terminal.Shows("chat-small")) << "drawn again";
  terminal.Forget();
  for (int i = 0; i < 6; ++i) terminal.Send("\033[C");  // to the right, what is beyond 80 columns
  EXPECT_TRUE(terminal.Shows("ITL P50")) << terminal.seen();
  terminal.Send("q");
  const int status = terminal.Ends();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(terminal.IsAsBefore());
}

TEST_F(TopFault, AnInterruptAndALostGatewayLeaveTheTerminalAsItWas) {
  InTerminal terminal(Args({}));
  ASSERT_TRUE(terminal.Shows("chat-small"));
  scaled_.gateway.Kill();
  EXPECT_TRUE(terminal.Shows("does not answer")) << "and what was known stays";
  terminal.Send("\x03");
  const int status = terminal.Ends();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_TRUE(terminal.IsAsBefore());
  scaled_.gateway.Start();
  EXPECT_TRUE(scaled_.Becomes(1, "ready", kLong)) << "found again: so that it ends with the gateway";
}

}  // namespace
}  // namespace tests
