#include "bench/replay/report.h"

#include <fmt/format.h>

namespace bench {
namespace {

std::string Row(std::string_view name, Samples& samples) {
  const auto ms = [&](double q) { return conf::ToSeconds(samples.Quantile(q)) * 1e3; };
  return fmt::format("{:<24}{:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}{:>10}\n", name, ms(0.5), ms(0.9), ms(0.99),
                     ms(1), samples.size());
}

}  // namespace

void Report::Add(const std::string& model, const Answer& answer, uint32_t input, uint32_t output,
                 conf::Duration late) {
  ++calls_;
  late_.Add(late);
  events_ += answer.events;
  if (answer.usage) {
    Tokens& tokens = tokens_[model];
    ++tokens.calls;
    tokens.input += answer.usage->input;
    tokens.cached += answer.usage->cached;
    tokens.output += answer.usage->output;
  }
  if (answer.ending != Ending::kDone) {
    if (!answer.limit.empty()) {
      ++refusals_[answer.limit];
    } else {
      const std::string status = answer.status > 200 ? fmt::format(" {}", answer.status) : "";
      const std::string code = answer.code.empty() ? "" : " " + answer.code;
      ++errors_[fmt::format("{}{}{}", Name(answer.ending), status, code)];
    }
    return;
  }
  ++done_;
  if (!answer.usage) {
    ++without_usage_;
  } else if (answer.usage->input != input || answer.usage->output != output) {
    ++unexpected_counts_;
  }
  to_first_.Add(answer.to_first);
  total_.Add(answer.total);
  if (const auto gap = answer.MeanGap()) {
    mean_gap_.Add(*gap);
    max_gap_.Add(answer.max_gap);
  }
}

nlohmann::ordered_json Report::ToJson() {
  nlohmann::ordered_json models = nlohmann::ordered_json::object();
  for (const auto& [model, t] : tokens_) {
    models[model] = {{"calls", t.calls}, {"input", t.input}, {"cached", t.cached}, {"output", t.output}};
  }
  return {{"calls", calls_},
          {"done", done_},
          {"retries", retries_},
          {"events", events_},
          {"unexpected_counts", unexpected_counts_},
          {"without_usage", without_usage_},
          {"errors", errors_},
          {"refusals", refusals_},
          {"ttft", to_first_.Summary()},
          {"inter_token_mean", mean_gap_.Summary()},
          {"inter_token_max", max_gap_.Summary()},
          {"total", total_.Summary()},
          {"sender_lateness", late_.Summary()},
          {"tokens", models}};
}

std::string Report::ToText() {
  std::string out = fmt::format("{:<24}{:>12}{:>12}{:>12}{:>12}{:>10}\n", "milliseconds", "p50", "p90", "p99",
                                "max", "samples");
  out += Row("to first token", to_first_);
  out += Row("between tokens, mean", mean_gap_);
  out += Row("between tokens, longest", max_gap_);
  out += Row("total", total_);
  out += Row("sender's lateness", late_);
  out += fmt::format("\n{} calls, {} done, {} events\n", calls_, done_, events_);
  if (retries_ > 0) out += fmt::format("{} tries were made again\n", retries_);
  if (unexpected_counts_ > 0) {
    out += fmt::format("{} calls were counted with other lengths than they were sent with\n",
                       unexpected_counts_);
  }
  if (without_usage_ > 0) out += fmt::format("{} calls ended without usage\n", without_usage_);
  for (const auto& [kind, n] : errors_) out += fmt::format("error    {:<40}{:>10}\n", kind, n);
  for (const auto& [limit, n] : refusals_) out += fmt::format("refused  {:<40}{:>10}\n", limit, n);
  for (const auto& [model, t] : tokens_) {
    out += fmt::format("tokens   {}: {} input ({} cached), {} output in {} calls\n", model, t.input, t.cached,
                       t.output, t.calls);
  }
  return out;
}

}  // namespace bench
