// The script for Redis gives the same answers as GrantShare(). Starts a redis-server of its own on a socket
// in a temporary folder; skipped where none is installed.
#include "router/limits/share_script.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "router/limits/share.h"

namespace router::limits {
namespace {

using namespace std::chrono_literals;

class RedisScript : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tidegate-redis-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::vector<std::string> args = {"redis-server", "--port", "0", "--unixsocket", Socket(),        "--dir",
                                     folder_,        "--save", "",  "--logfile",    folder_ + "/log"};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    if (posix_spawnp(&server_, "redis-server", nullptr, nullptr, argv.data(), environ) != 0) {
      server_ = 0;
      GTEST_SKIP() << "no redis-server here";
    }
    // A client is a process of its own, which takes long enough between two tries.
    for (int i = 0; i < 2000 && Redis("PING\n") != "PONG\n"; ++i) {
      ASSERT_EQ(waitpid(server_, nullptr, WNOHANG), 0) << "redis-server ended";
    }
  }

  void TearDown() override {
    if (server_ > 0) {
      kill(server_, SIGTERM);
      waitpid(server_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  // What redis-cli prints for these commands, one a line.
  std::string Redis(const std::string& commands) const {
    std::ofstream(folder_ + "/commands") << commands;
    const std::string line = fmt::format("redis-cli -s {} < {}/commands 2>/dev/null", Socket(), folder_);
    FILE* pipe = popen(line.c_str(), "r");
    std::string out;
    std::array<char, 4096> buffer;
    while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
    pclose(pipe);
    return out;
  }

  std::string Socket() const { return folder_ + "/socket"; }

  std::string Load() const {
    std::string quoted;
    for (const char c : kGrantScript) {
      if (c == '\n') {
        quoted += "\\n";
      } else {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
      }
    }
    std::string sha = Redis("SCRIPT LOAD \"" + quoted + "\"\n");
    sha.erase(sha.find_last_not_of('\n') + 1);
    return sha;
  }

 private:
  std::string folder_;
  pid_t server_ = 0;
};

TEST_F(RedisScript, AnswersAsTheFunctionDoes) {
  const std::string sha = Load();
  ASSERT_EQ(sha.size(), 40u) << sha;
  std::mt19937_64 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };

  std::string commands;
  std::vector<ShareGrant> expected;
  // Beyond the present, so that the server does not expire the keys by its own clock meanwhile.
  conf::TimePoint now = *conf::ParseTime("2100-01-01T00:00:00Z");
  for (const int64_t capacity : {int64_t{0}, int64_t{10}, int64_t{1000}, kMaxCapacity}) {
    StoreState state;
    for (int i = 0; i < 1000; ++i) {
      now += std::chrono::milliseconds(below(40) == 0 ? below(90'000) : below(900));
      Claim claim;
      claim.gateway = fmt::format("gw{}", below(7));
      claim.seq = static_cast<uint64_t>(1'795'000'000'000'000 + i * 10 - below(60));
      claim.first = below(9) == 0;
      claim.capacity = capacity;
      const auto known = state.leases.find(claim.gateway);
      claim.held = known == state.leases.end() || below(5) == 0 ? below(capacity / 3 + 1)
                                                                : below(known->second.held + 1);
      claim.want = below(3) == 0 ? 0 : below(capacity + 1);
      claim.ttl = 5s;
      claim.linger = below(2) == 0 ? 61s : 1h;
      claim.recovery = 7s;
      const auto ms = [](auto t) { return std::chrono::floor<std::chrono::milliseconds>(t).count(); };
      commands +=
          fmt::format("EVALSHA {} 1 limit:{} {} {} {} {} {} {} {} {} {} {}\n", sha, capacity, claim.gateway,
                      claim.seq, claim.first ? 1 : 0, capacity, claim.held, claim.want, ms(claim.ttl),
                      ms(claim.linger), ms(claim.recovery), ms(now.time_since_epoch()));
      expected.push_back(GrantShare(state, claim, now));
    }
  }
  std::istringstream answers(Redis(commands));
  int64_t accepted = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    std::array<int64_t, 6> got{};
    for (int64_t& v : got)
      ASSERT_TRUE(answers >> v) << "answer " << i << " in " << answers.str().substr(0, 300);
    const ShareGrant& want = expected[i];
    ASSERT_EQ(got, (std::array<int64_t, 6>{want.accepted, want.share, want.target, want.held, want.gateways,
                                           want.recovering}))
        << "claim " << i;
    accepted += got[0];
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, static_cast<int64_t>(expected.size()));
}

TEST_F(RedisScript, UsesTheServersClockAndExpiresByItself) {
  const std::string sha = Load();
  EXPECT_EQ(Redis(fmt::format("EVALSHA {} 1 k a 1 1 100 0 50 5000 61000 0 0\n", sha)),
            "1\n100\n100\n100\n1\n0\n");
  const int64_t ttl = std::stoll(Redis("PTTL k\n"));
  EXPECT_GT(ttl, 60'000);
  EXPECT_LE(ttl, 66'000);
}

}  // namespace
}  // namespace router::limits
