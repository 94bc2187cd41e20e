// The ledger's two sides: the cost of a request on its shard, and of a record on the ledger thread.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/journal.h"
#include "gateway/ledger/render.h"

namespace gateway::ledger {
namespace {

const OpenRecord kOpen{.time_us = 1'763'676'000'000'000,
                       .request = "req_0123456789abcdef01234567",
                       .client_request = "9f0c1d3e-77aa-4c55-8f1e-2f6f0f6c9d10",
                       .tenant = "acme/search",
                       .key = "key_0123456789ab",
                       .model = "llama-3.1-70b-instruct",
                       .api = "chat.completions",
                       .client = "10.11.12.13",
                       .stream = true};
const CloseRecord kClose{.time_us = 1'763'676'001'000'000,
                         .reason = EndReason::kDone,
                         .status = 200,
                         .counts = {.input = 1200,
                                    .cached = 800,
                                    .output = 350,
                                    .cost_micro_usd = 412,
                                    .bytes_in = 5000,
                                    .bytes_out = 60'000,
                                    .ttft_us = 180'000,
                                    .attempts = 1,
                                    .source = TokenSource::kUpstream},
                         .queue_us = 120,
                         .itl_mean_us = 21'000,
                         .itl_max_us = 44'000,
                         .total_us = 7'400'000,
                         .overhead_us = 95,
                         .served_model = "llama-3.1-70b-instruct",
                         .replica = "http://10.0.0.5:8000"};

class JournalBench : public benchmark::Fixture {
 public:
  void SetUp(benchmark::State&) override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ledger-bench-XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
    journal_ = *ShardJournal::Create(dir_ + "/journal-0", {}, &healthy_);
  }
  void TearDown(benchmark::State&) override {
    journal_.reset();
    std::filesystem::remove_all(dir_);
  }

 protected:
  std::string dir_;
  std::atomic<bool> healthy_{true};
  std::unique_ptr<ShardJournal> journal_;
};

// The ring is emptied as the ledger thread would, which costs the shard only a read of `consumed`.
BENCHMARK_F(JournalBench, OpenProgressClose)(benchmark::State& state) {
  for (auto _ : state) {
    std::optional<Ticket> ticket = journal_->Open(kOpen);
    ticket->SetReplica(kClose.replica);
    ticket->Progress(kClose.counts);
    ticket->Close(kClose);
    if (journal_->pending_bytes() > 1 << 20) journal_->Release(journal_->committed());
  }
}

BENCHMARK_F(JournalBench, Progress)(benchmark::State& state) {
  std::optional<Ticket> ticket = journal_->Open(kOpen);
  Counts counts = kClose.counts;
  for (auto _ : state) {
    ++counts.output;
    ticket->Progress(counts);
  }
  ticket->Close(kClose);
}

void RenderAndChain(benchmark::State& state) {
  Digest link{};
  std::string out;
  uint64_t seq = 1;
  size_t bytes = 0;
  for (auto _ : state) {
    out.clear();
    if (state.range(0) == 0) {
      RenderOpen(&out, seq, {0, seq}, kOpen);
    } else {
      RenderClose(&out, seq, {0, seq}, seq - 1, kOpen, kClose);
    }
    if (state.range(1) != 0) link = FinishLine(&out, 0, link);
    bytes += out.size();
    ++seq;
  }
  benchmark::DoNotOptimize(link);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(RenderAndChain)->ArgNames({"close", "chain"})->Args({0, 1})->Args({1, 0})->Args({1, 1});

}  // namespace
}  // namespace gateway::ledger
