#include "tools/engine/pooling.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "conf/json_text.h"
#include "conf/text.h"
#include "tools/engine/prose.h"

namespace tidegate_engine {
namespace {

constexpr uint32_t kDimensions = 256;

std::vector<float> Vector(uint64_t seed, uint32_t dimensions) {
  Draw draw(seed);
  std::vector<float> vector(dimensions);
  double square = 0;
  for (float& x : vector) {
    x = static_cast<float>(draw.Unit() * 2 - 1);
    square += double{x} * x;
  }
  auto norm = static_cast<float>(std::sqrt(square));
  for (float& x : vector) x /= norm;
  return vector;
}

double Score(const Prompt& prompt) {
  return Draw(prompt.seed()).Unit();
}

void AppendVector(const std::vector<float>& vector, bool base64, std::string& out) {
  if (base64) {
    auto* bytes = reinterpret_cast<const char*>(vector.data());
    out += '"';
    out += absl::Base64Escape(conf::Abseil({bytes, vector.size() * sizeof(float)}));
    out += '"';
    return;
  }
  out += '[';
  for (float x : vector) fmt::format_to(std::back_inserter(out), "{}{}", out.back() == '[' ? "" : ",", x);
  out += ']';
}

std::string EmbeddingsBody(const Pooling& request, const Job& job) {
  std::string body = fmt::format(R"({{"id":"{}","object":"list","created":{},"model":{},"data":[)", job.id,
                                 job.created, conf::Quoted(job.model));
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    fmt::format_to(std::back_inserter(body), R"({}{{"index":{},"object":"embedding","embedding":)",
                   i > 0 ? "," : "", i);
    AppendVector(Vector(request.prompts[i].seed(), request.dimensions > 0 ? request.dimensions : kDimensions),
                 request.base64, body);
    body += '}';
  }
  return body += ']';
}

std::string RerankBody(const Pooling& request, const Job& job) {
  std::vector<size_t> order(request.prompts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto better = [&](size_t a, size_t b) {
    return std::pair(-Score(request.prompts[a]), a) < std::pair(-Score(request.prompts[b]), b);
  };
  std::sort(order.begin(), order.end(), better);
  if (request.top_n > 0 && request.top_n < order.size()) order.resize(request.top_n);
  std::string body = fmt::format(R"({{"id":"{}","model":{},"results":[)", job.id, conf::Quoted(job.model));
  for (size_t i : order) {
    fmt::format_to(
        std::back_inserter(body), R"({}{{"index":{},"document":{{"text":{}}},"relevance_score":{}}})",
        body.back() == '[' ? "" : ",", i, conf::Quoted(request.documents[i]), Score(request.prompts[i]));
  }
  return body += ']';
}

std::string ScoreBody(const Pooling& request, const Job& job) {
  std::string body = fmt::format(R"({{"id":"{}","object":"list","created":{},"model":{},"data":[)", job.id,
                                 job.created, conf::Quoted(job.model));
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    fmt::format_to(std::back_inserter(body), R"({}{{"index":{},"object":"score","score":{}}})",
                   i > 0 ? "," : "", i, Score(request.prompts[i]));
  }
  return body += ']';
}

}  // namespace

std::string PoolingBody(const Pooling& request, const Job& job) {
  std::string body = request.api == Api::kRerank  ? RerankBody(request, job)
                     : request.api == Api::kScore ? ScoreBody(request, job)
                                                  : EmbeddingsBody(request, job);
  if (job.report_usage) {
    body += ',';
    AppendUsage(job.SentUsage(), body);
  }
  return body += '}';
}

}  // namespace tidegate_engine
