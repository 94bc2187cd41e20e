#include "gateway/datasets/comparison.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/html.h"
#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/datasets/example.h"

namespace gateway::datasets {
namespace {

using Json = nlohmann::ordered_json;

std::string TextOfContent(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const Json& part : content) {
    const auto found = part.is_object() ? part.find("text") : part.end();
    if (part.is_object() && found != part.end() && found->is_string())
      text += (text.empty() ? "" : "\n") + found->get<std::string>();
  }
  return text;
}

std::string TextOfMessage(const Json& message) {
  if (!message.is_object()) return {};
  std::string text = message.contains("content") ? TextOfContent(message["content"]) : std::string();
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return text;
  for (const Json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    text += fmt::format("{}{}({})", text.empty() ? "" : "\n", call["function"].value("name", Json("")).dump(),
                        call["function"].value("arguments", Json("")).dump());
  }
  return text;
}

std::string IdOf(size_t example, size_t model) {
  return fmt::format("{}:{}", example, model);
}

std::optional<int64_t> Count(const Json& usage, const char* name) {
  const auto found = usage.is_object() ? usage.find(name) : usage.end();
  if (!usage.is_object() || found == usage.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::optional<double> Number(const Json& of, const char* name) {
  const auto found = of.is_object() ? of.find(name) : of.end();
  if (!of.is_object() || found == of.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string MessageOf(const Json& error) {
  if (!error.is_object()) return {};
  const auto message = error.find("message");
  return message != error.end() && message->is_string() ? message->get<std::string>() : conf::DumpJson(error);
}

ComparedAnswer AnswerOf(const Json& line) {
  ComparedAnswer out;
  const Json response = line.value("response", Json());
  if (!response.is_object()) {
    out.error = MessageOf(line.value("error", Json()));
    if (out.error.empty()) out.error = "no answer";
    return out;
  }
  const Json body = response.value("body", Json());
  const int64_t status = Count(response, "status_code").value_or(0);
  if (const Json use = response.value("tidegate", Json()); use.is_object()) {
    out.cost_usd = Number(use, "cost_usd");
    const std::optional<double> latency = Number(use, "latency_ms");
    if (latency) out.latency_s = (*latency - Number(use, "queue_ms").value_or(0)) / 1000;
  }
  if (status < 200 || status > 299) {
    out.error = body.is_object() ? MessageOf(body.value("error", Json())) : std::string();
    if (out.error.empty()) out.error = fmt::format("status {}", status);
    return out;
  }
  const Json usage = body.is_object() ? body.value("usage", Json()) : Json();
  out.input_tokens = Count(usage, "prompt_tokens");
  out.output_tokens = Count(usage, "completion_tokens");
  const std::optional<Json> message = AnswerMessage("chat_completions", conf::DumpJson(body));
  if (message) out.text = TextOfMessage(*message);
  return out;
}

// Nearest rank.
double Quantile(const std::vector<double>& sorted, double q) {
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

std::string_view Stripped(std::string_view text) {
  return conf::Std(absl::StripAsciiWhitespace(conf::Abseil(text)));
}

ModelSummary SummaryOf(const std::string& model, size_t place, const std::vector<ComparedRow>& rows) {
  ModelSummary out;
  out.model = model;
  std::vector<double> latencies;
  double sum = 0;
  for (const ComparedRow& row : rows) {
    const ComparedAnswer& answer = row.answers[place];
    out.input_tokens += answer.input_tokens.value_or(0);
    out.output_tokens += answer.output_tokens.value_or(0);
    out.cost_usd += answer.cost_usd.value_or(0);
    if (!answer.error.empty()) {
      ++out.failed;
      continue;
    }
    ++out.answered;
    if (!row.reference.empty() && Stripped(answer.text) == Stripped(row.reference)) ++out.as_reference;
    if (!answer.latency_s) continue;
    latencies.push_back(*answer.latency_s);
    sum += *answer.latency_s;
  }
  if (latencies.empty()) return out;
  std::ranges::sort(latencies);
  out.latency_mean_s = sum / static_cast<double>(latencies.size());
  out.latency_p50_s = Quantile(latencies, 0.5);
  out.latency_p95_s = Quantile(latencies, 0.95);
  return out;
}

std::string Seconds(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.3f}", *seconds) : "-";
}

// On one line, at most `width` bytes, cut at the begin of a character.
std::string OnALine(std::string_view text, size_t width) {
  std::string out;
  for (const char c : text) out += absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c;
  if (out.size() <= width) return out;
  size_t end = width > 3 ? width - 3 : 0;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;
  return out.substr(0, end) + "...";
}

std::string Measures(const ComparedAnswer& answer) {
  std::string out;
  if (answer.output_tokens) out += fmt::format("{} tokens", *answer.output_tokens);
  if (answer.cost_usd) out += fmt::format("{}{:.6f} USD", out.empty() ? "" : ", ", *answer.cost_usd);
  if (answer.latency_s) out += fmt::format("{}{:.3f} s", out.empty() ? "" : ", ", *answer.latency_s);
  return out;
}

}  // namespace

absl::StatusOr<std::vector<ComparedExample>> ReadSet(std::string_view text, size_t most) {
  std::vector<ComparedExample> set;
  size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    if (Stripped(line).empty()) continue;
    const auto wrong = [number](std::string_view why) {
      return absl::InvalidArgumentError(conf::Abseil(fmt::format("line {}: {}", number, why)));
    };
    if (set.size() == most) return wrong(fmt::format("the set has more than {} examples", most));
    const Json read = conf::ParseOrderedJson(line);
    if (!read.is_object()) return wrong("it must be a JSON object");
    const auto messages = read.find("messages");
    if (messages == read.end() || !messages->is_array() || messages->empty())
      return wrong("it must have messages, a list that is not empty");
    ComparedExample example;
    Json asked = *messages;
    if (asked.back().is_object() && asked.back().value("role", Json()) == "assistant") {
      example.reference = TextOfMessage(asked.back());
      asked.erase(asked.size() - 1);
    }
    if (asked.empty()) return wrong("its messages are only an answer; a question must come before it");
    example.question = TextOfMessage(asked.back());
    example.messages = conf::DumpJson(asked);
    if (const auto tools = read.find("tools"); tools != read.end() && tools->is_array())
      example.tools = conf::DumpJson(*tools);
    set.push_back(std::move(example));
  }
  if (set.empty()) return absl::InvalidArgumentError("the set has no examples");
  return set;
}

std::string BatchInput(const std::vector<ComparedExample>& set, const std::vector<std::string>& models,
                       int64_t max_tokens) {
  std::string out;
  for (size_t i = 0; i < set.size(); ++i) {
    for (size_t m = 0; m < models.size(); ++m) {
      out += fmt::format(
          "{{\"custom_id\":\"{}\",\"method\":\"POST\",\"url\":\"/v1/chat/"
          "completions\",\"body\":{{\"model\":{},"
          "\"messages\":{}{}{}}}}}\n",
          IdOf(i, m), conf::DumpJson(Json(models[m])), set[i].messages,
          set[i].tools.empty() ? "" : fmt::format(",\"tools\":{}", set[i].tools),
          max_tokens > 0 ? fmt::format(",\"max_tokens\":{}", max_tokens) : "");
    }
  }
  return out;
}

Comparison Compare(const std::vector<ComparedExample>& set, const std::vector<std::string>& models,
                   std::string_view results) {
  std::map<std::string, ComparedAnswer, std::less<>> answers;
  while (!results.empty()) {
    const std::string_view line = results.substr(0, results.find('\n'));
    results.remove_prefix(std::min(line.size() + 1, results.size()));
    const Json read = conf::ParseOrderedJson(line);
    const auto id = read.is_object() ? read.find("custom_id") : read.end();
    if (read.is_object() && id != read.end() && id->is_string())
      answers[id->get<std::string>()] = AnswerOf(read);
  }
  Comparison out;
  for (size_t i = 0; i < set.size(); ++i) {
    ComparedRow& row = out.rows.emplace_back();
    row.question = set[i].question;
    row.reference = set[i].reference;
    for (size_t m = 0; m < models.size(); ++m) {
      const auto found = answers.find(IdOf(i, m));
      ComparedAnswer& answer = row.answers.emplace_back();
      if (found != answers.end()) {
        answer = found->second;
      } else {
        answer.error = "no result";
      }
    }
  }
  for (size_t m = 0; m < models.size(); ++m) out.models.push_back(SummaryOf(models[m], m, out.rows));
  return out;
}

std::string ComparisonText(const Comparison& comparison, size_t width) {
  size_t longest = 5;
  for (const ModelSummary& model : comparison.models) longest = std::max(longest, model.model.size());
  std::string out =
      fmt::format("{:<{}}  {:>8}  {:>6}  {:>9}  {:>9}  {:>9}  {:>12}  {:>10}  {:>10}\n", "MODEL", longest,
                  "ANSWERED", "FAILED", "AS IN SET", "INPUT", "OUTPUT", "COST (USD)", "P50 (S)", "P95 (S)");
  for (const ModelSummary& model : comparison.models) {
    out += fmt::format("{:<{}}  {:>8}  {:>6}  {:>9}  {:>9}  {:>9}  {:>12.6f}  {:>10}  {:>10}\n", model.model,
                       longest, model.answered, model.failed, model.as_reference, model.input_tokens,
                       model.output_tokens, model.cost_usd, Seconds(model.latency_p50_s),
                       Seconds(model.latency_p95_s));
  }
  for (size_t i = 0; i < comparison.rows.size(); ++i) {
    const ComparedRow& row = comparison.rows[i];
    out += fmt::format("\n{}. {}\n", i + 1, OnALine(row.question, width));
    if (!row.reference.empty()) out += fmt::format("   set: {}\n", OnALine(row.reference, width));
    for (size_t m = 0; m < row.answers.size(); ++m) {
      const ComparedAnswer& answer = row.answers[m];
      const std::string measures = Measures(answer);
      out += fmt::format("   {}: {}{}\n", comparison.models[m].model,
                         answer.error.empty() ? OnALine(answer.text, width)
                                              : fmt::format("ERROR {}", OnALine(answer.error, width)),
                         measures.empty() ? "" : fmt::format("  ({})", measures));
    }
  }
  return out;
}

std::string ComparisonHtml(const Comparison& comparison) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; "
      "style-src 'unsafe-inline'\">\n<title>Comparison of models</title>\n<style>\n"
      "body{font:15px/1.45 system-ui,sans-serif;margin:2rem;color:#1a1a1a;background:#fff}\n"
      "table{border-collapse:collapse;width:100%;margin:1rem 0}\n"
      "th,td{border:1px solid #ccc;padding:.5rem;text-align:left;vertical-align:top}\n"
      "td.number{text-align:right;font-variant-numeric:tabular-nums}\n"
      "pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:inherit}\n"
      ".error{color:#a40000}.measures{color:#555;font-size:.85em;margin-top:.4rem}\n"
      "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}th,td{border-color:#444}"
      ".error{color:#ff8080}.measures{color:#aaa}}\n</style></head><body>\n<h1>Comparison of models</h1>\n";
  out += fmt::format("<p>{} examples of {}, batch {}</p>\n", comparison.rows.size(),
                     conf::HtmlEscaped(comparison.set), conf::HtmlEscaped(comparison.batch));
  out +=
      "<table><thead><tr><th>Model</th><th>Answered</th><th>Failed</th><th>As in the set</th><th>Input "
      "(tokens)</th>"
      "<th>Output (tokens)</th><th>Cost (USD)</th><th>Latency, median (s)</th><th>Latency, 95 % "
      "(s)</th></tr></thead>"
      "<tbody>\n";
  for (const ModelSummary& model : comparison.models) {
    out += fmt::format("<tr><th>{}</th>", conf::HtmlEscaped(model.model));
    for (const std::string& cell :
         {fmt::format("{}", model.answered), fmt::format("{}", model.failed),
          fmt::format("{}", model.as_reference), fmt::format("{}", model.input_tokens),
          fmt::format("{}", model.output_tokens), fmt::format("{:.6f}", model.cost_usd),
          Seconds(model.latency_p50_s), Seconds(model.latency_p95_s)}) {
      out += fmt::format("<td class=\"number\">{}</td>", cell);
    }
    out += "</tr>\n";
  }
  out += "</tbody></table>\n<table><thead><tr><th>#</th><th>Question</th><th>Answer of the set</th>";
  for (const ModelSummary& model : comparison.models)
    out += fmt::format("<th>{}</th>", conf::HtmlEscaped(model.model));
  out += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < comparison.rows.size(); ++i) {
    const ComparedRow& row = comparison.rows[i];
    out += fmt::format("<tr><td class=\"number\">{}</td><td><pre>{}</pre></td><td><pre>{}</pre></td>", i + 1,
                       conf::HtmlEscaped(row.question), conf::HtmlEscaped(row.reference));
    for (const ComparedAnswer& answer : row.answers) {
      out += answer.error.empty()
                 ? fmt::format("<td><pre>{}</pre>", conf::HtmlEscaped(answer.text))
                 : fmt::format("<td><pre class=\"error\">{}</pre>", conf::HtmlEscaped(answer.error));
      out += fmt::format("<div class=\"measures\">{}</div></td>", Measures(answer));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n</body></html>\n";
}

}  // namespace gateway::datasets
