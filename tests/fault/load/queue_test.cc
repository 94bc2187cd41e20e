// Fairness and overload over real engines: shares of the service, goodput beyond the capacity, and the cost of
// waiting. Assertions count requests and tokens; measured times are properties, for bench/README.md.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "tests/fault/gateway/queued.h"

namespace tests {
namespace {

using std::chrono::steady_clock;

constexpr int kPlaces = 4;
constexpr int kTokens = 8;  // of each answer
// 4 places, 8 tokens of 5 ms each: 100 requests a second.
constexpr std::string_view kStep = "5ms";
const std::string kQueue = fmt::format("max_running: {}", kPlaces);

double Seconds(steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

double Quantile(std::vector<double> values, double q) {
  EXPECT_FALSE(values.empty());
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(static_cast<double>(values.size()) * q)];
}

double Median(const std::vector<double>& values) {
  return Quantile(values, 0.5);
}

// Clients that ask again as soon as they are answered, until they are told to stop.
class Clients {
 public:
  Clients(const GatewayProcess& gateway, int clients, const std::string& request) {
    for (int i = 0; i < clients; ++i) {
      threads_.emplace_back([&gateway, this, request] {
        RawClient client = gateway.Connect();
        while (!stop_) {
          if (client.Ask(request).status != 200) return;
          ++served_;
        }
      });
    }
  }
  ~Clients() { Stop(); }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  uint64_t served() const { return served_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> served_{0};
  std::vector<std::thread> threads_;
};

// Requests of `others` that are served for each of `ours`, while 150 of ours are.
double ServedPerOurs(const Clients& ours, const Clients& others) {
  const uint64_t ours_before = ours.served();
  const uint64_t others_before = others.served();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return ours.served() - ours_before >= 150; }));
  return static_cast<double>(others.served() - others_before) /
         static_cast<double>(ours.served() - ours_before);
}

TEST(QueueFairness, TwoTenantsGetTheSameWhateverTheySend) {
  const EngineProcess engine(Paced(kStep));
  const Queued q({.replicas = {engine.port()},
                  .model = fmt::format("queue: {{{}}}", kQueue),
                  .tenants = "  - {name: many, models: [\"*\"]}\n  - {name: few, models: [\"*\"]}\n"});
  // Who sends less must have some waiting at any time, or there is nothing to be fair about.
  Clients many(q.gateway, 120, Asking(kTokens, {}, q.KeyFor("many")));
  Clients few(q.gateway, 40, Asking(kTokens, {}, q.KeyFor("few")));
  ASSERT_TRUE(q.Waiting(160 - kPlaces));
  const double few_per_many = ServedPerOurs(many, few);
  testing::Test::RecordProperty("few_per_many", fmt::format("{:.3f}", few_per_many));
  EXPECT_NEAR(few_per_many, 1, 0.05);
}

TEST(QueueFairness, AWeightIsAShare) {
  const EngineProcess engine(Paced(kStep));
  const Queued q({.replicas = {engine.port()},
                  .model = fmt::format("queue: {{{}}}", kQueue),
                  .tenants = "  - {name: heavy, models: [\"*\"], weight: 3}\n"
                             "  - {name: light, models: [\"*\"]}\n"});
  Clients heavy(q.gateway, 60, Asking(kTokens, {}, q.KeyFor("heavy")));
  Clients light(q.gateway, 20, Asking(kTokens, {}, q.KeyFor("light")));
  ASSERT_TRUE(q.Waiting(80 - kPlaces));
  EXPECT_NEAR(1 / ServedPerOurs(heavy, light), 3, 0.25);
}

// Medians of the time that a tenant's requests take, one after the other.
double OneByOne(const GatewayProcess& gateway, const std::string& request, int times) {
  std::vector<double> took;
  RawClient client = gateway.Connect();
  for (int i = 0; i < times; ++i) {
    const auto begin = steady_clock::now();
    EXPECT_EQ(client.Ask(request).status, 200);
    took.push_back(Seconds(steady_clock::now() - begin));
  }
  return Median(took);
}

// The median number of `others`' requests that end between the admission and the end of one of `ours`, among
// those of ours during which any ends.
double OthersMeanwhile(const std::vector<gateway::ledger::Record>& records, std::string_view ours,
                       std::string_view others) {
  std::vector<double> counts;
  for (const gateway::ledger::Record& mine : records) {
    if (mine.kind != gateway::ledger::Kind::kClose || mine.tenant != ours) continue;
    const auto meanwhile = std::ranges::count_if(records, [&](const gateway::ledger::Record& record) {
      return record.kind == gateway::ledger::Kind::kClose && record.tenant == others &&
             record.time_us >= mine.open_time_us && record.time_us <= mine.time_us;
    });
    if (meanwhile > 0) counts.push_back(static_cast<double>(meanwhile));
  }
  return Median(counts);
}

TEST(QueueFairness, ATenantWithinItsShareHardlyFeelsAnothersFlood) {
  const EngineProcess engine(Paced(kStep));
  const Queued q({.replicas = {engine.port()},
                  .model = fmt::format("queue: {{{}}}", kQueue),
                  .tenants = "  - {name: many, models: [\"*\"]}\n  - {name: few, models: [\"*\"]}\n"});
  const std::string own = Asking(kTokens, {}, q.KeyFor("few"));
  const double alone = OneByOne(q.gateway, own, 15);
  Clients flood(q.gateway, 60, Asking(kTokens, {}, q.KeyFor("many")));
  ASSERT_TRUE(q.Waiting(60 - kPlaces));
  const double beside = OneByOne(q.gateway, own, 15);
  testing::Test::RecordProperty("alone_ms", fmt::format("{:.1f}", alone * 1e3));
  testing::Test::RecordProperty("beside_ms", fmt::format("{:.1f}", beside * 1e3));
  flood.Stop();
  // It waits for the next free place only: while it waits and runs, each other place ends about two answers.
  // In one line with the flood, 56 answers would end before its own.
  EXPECT_LT(OthersMeanwhile(q.gateway.Records(), "few", "many"), 4.0 * kPlaces);
}

TEST(QueueOverload, AtTwiceTheCapacityGoodputStaysAndRefusalsAreEarly) {
  const EngineProcess engine(Paced("10ms"));
  const Queued q(
      {.replicas = {engine.port()}, .model = fmt::format("queue: {{{}, max_wait: 500ms}}", kQueue)});
  const auto pace = [&](int clients, std::chrono::milliseconds pause_when_refused,
                        std::vector<double>* answers, std::vector<double>* refusals) {
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> served{0};
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int i = 0; i < clients; ++i) {
      threads.emplace_back([&] {
        RawClient client = q.gateway.Connect();
        const std::string request = Asking(kTokens);
        while (!stop) {
          const auto begin = steady_clock::now();
          const Answer answer = client.Ask(request);
          const bool answered = answer.status == 200;
          if (answered || answer.code() != "queue_timeout") {
            const std::lock_guard lock(mutex);
            (answered ? answers : refusals)->push_back(Seconds(steady_clock::now() - begin));
          }
          if (answered) {
            ++served;
          } else {
            Pause(pause_when_refused);
          }
        }
      });
    }
    EXPECT_TRUE(Within(RawClient::kPatience, [&] { return served >= 20; }));  // the pace is known by now
    const uint64_t before = served;
    const auto begin = steady_clock::now();
    EXPECT_TRUE(Within(RawClient::kPatience, [&] { return served - before >= 100; }));
    const double per_second = static_cast<double>(served - before) / Seconds(steady_clock::now() - begin);
    stop = true;
    for (std::thread& thread : threads) thread.join();
    return per_second;
  };
  std::vector<double> at_peak;  // how long answers take
  std::vector<double> beyond;
  std::vector<double> refusals;
  std::vector<double> none;
  const double peak = pace(2 * kPlaces, milliseconds(10), &at_peak, &none);
  EXPECT_TRUE(none.empty());
  // Far more come than half a second of waiting has room for: 25 of 50 a second.
  const double goodput = pace(100, milliseconds(200), &beyond, &refusals) / peak;
  ASSERT_GT(refusals.size(), 50u);
  const double p90 = Quantile(refusals, 0.90);
  const double p99 = Quantile(refusals, 0.99);
  testing::Test::RecordProperty("goodput", fmt::format("{:.3f}", goodput));
  testing::Test::RecordProperty("refusal_p50_ms", fmt::format("{:.2f}", Median(refusals) * 1e3));
  testing::Test::RecordProperty("refusal_p90_ms", fmt::format("{:.2f}", p90 * 1e3));
  testing::Test::RecordProperty("refusal_p99_ms", fmt::format("{:.2f}", p99 * 1e3));
  // The gateway's own time, from the request's head to the end of the answer.
  std::vector<double> own;
  uint64_t served = 0;
  for (const gateway::ledger::Record& record : q.gateway.Records()) {
    if (record.kind != gateway::ledger::Kind::kClose) continue;
    served += record.status == 200 ? 1 : 0;
    if (record.status < 400 || record.error == "queue_timeout") continue;
    own.push_back(static_cast<double>(record.total_us) * 1e-6);
    EXPECT_EQ(record.attempts, 0) << "an early refusal never reaches the engine";
  }
  ASSERT_GT(own.size(), 50u);
  testing::Test::RecordProperty("own_p50_ms", fmt::format("{:.2f}", Median(own) * 1e3));
  testing::Test::RecordProperty("own_p99_ms", fmt::format("{:.2f}", Quantile(own, 0.99) * 1e3));
  EXPECT_EQ(engine.Stat("/requests/received"), served) << "the engine works for served requests only";
  EXPECT_EQ(engine.Stat("/tokens/generated"), served * kTokens) << "goodput is all that the engine does";
  EXPECT_EQ(engine.Stat("/tokens/for_nobody"), 0u);
}

TEST(QueueMemory, TenThousandWaitingCostLessThanAHundredMegabytes) {
  constexpr int kMany = 10'000;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is in the figure";
  if (files.rlim_cur < kMany + 500) GTEST_SKIP() << "too few file descriptors";
  const EngineProcess engine(Paced("100ms"));
  Queued q({.replicas = {engine.port()},
            .server = "limits: {connections_per_address: 16000}",
            .model = "queue: {max_running: 1, max_requests: 30000, max_bytes: 1GiB, max_wait: 10m}",
            .threads = 2});
  RawClient holder = q.Holder();
  std::vector<RawClient> clients = q.Sent(1'000, Asking(2));
  ASSERT_TRUE(q.Waiting(1'000));
  const size_t before = q.gateway.process().ResidentBytes();
  for (size_t i = clients.size(); i < kMany; ++i) clients.push_back(q.gateway.Connect());
  ASSERT_TRUE(Within(RawClient::kPatience,
                     [&] { return q.gateway.Metric("tidegate_connections_open").value_or(0) > kMany; }));
  const size_t connected = q.gateway.process().ResidentBytes();
  for (size_t i = 1'000; i < kMany; ++i) ASSERT_TRUE(clients[i].Send(Asking(2)));
  ASSERT_TRUE(q.Waiting(kMany)) << q.Queue()["waiting"];
  const size_t waiting = q.gateway.process().ResidentBytes();
  const auto each = [](size_t bytes) { return bytes / (kMany - 1'000); };
  testing::Test::RecordProperty("bytes_each_connection", std::to_string(each(connected - before)));
  testing::Test::RecordProperty("bytes_each_wait", std::to_string(each(waiting - connected)));
  EXPECT_LT(each(waiting - connected), 10'000u) << "beside their connections";
}

}  // namespace
}  // namespace tests
