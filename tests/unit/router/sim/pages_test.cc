// The pages of `tidegate simulate requests` and `traffic`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "router/sim/requests_html.h"
#include "router/sim/scaling_html.h"

namespace router::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

size_t Occurrences(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The plot with this caption.
std::string PlotOf(const std::string& page, const std::string& caption) {
  const size_t at = page.find("<figcaption>" + caption);
  EXPECT_NE(at, std::string::npos) << caption;
  return page.substr(at, page.find("</figure>", at) - at);
}

// Titles of the first table, without the name's column.
size_t FiguresFirst(const std::string& page) {
  return Occurrences(page.substr(0, page.find("<details>")), "<th scope=\"col\">") - 1;
}

Report Measured() {
  Report report;
  report.seconds = 60;
  report.ttft_cdf = {0.1, 0.5, 2};
  for (int i = 0; i < 6; ++i) {
    const bool idle = i == 2 || i == 3;
    report.first_tokens.push_back(
        {.second = 10.0 * (i + 1), .count = idle ? 0u : 3u, .ttft_p50 = 1, .ttft_p99 = 2});
  }
  return report;
}

TEST(RequestsPage, HasTenFiguresFirstAndSaysWhyRequestsWereLost) {
  Report report = Measured();
  report.lost = {.broken = 3, .expired = 7};
  const std::vector<PolicyReport> runs = {{"cost", report}, {"random", Measured()}};
  const std::string page =
      AsHtml({.trace = "a/<b>.jsonl", .requests = 9, .slo = std::chrono::seconds(2)}, runs);
  EXPECT_EQ(FiguresFirst(page), 10u);
  EXPECT_THAT(page,
              AllOf(HasSubstr("TTFT in 2s (%)"), HasSubstr("&lt;b&gt;.jsonl"), Not(HasSubstr("<b>.jsonl")),
                    HasSubstr("died or hung after the first token</th><td>cost</td><td>3</td>")));
  EXPECT_THAT(AsHtml({.trace = "x"}, std::vector<PolicyReport>{{"cost", Measured()}}),
              Not(HasSubstr("Lost requests")));
}

TEST(RequestsPage, LinesHaveAGapWhereNothingWasMeasured) {
  const std::string page = AsHtml({.trace = "x"}, std::vector<PolicyReport>{{"cost", Measured()}});
  EXPECT_EQ(Occurrences(PlotOf(page, "TTFT over time, half"), "<polyline"), 2u);
  EXPECT_EQ(Occurrences(PlotOf(page, "Time to first token"), "<polyline"), 1u);
}

TEST(ScalingPage, HasTenFiguresFirstAndGapsWhereNothingWasMeasured) {
  ElasticReport report;
  report.seconds = 60;
  for (int i = 0; i < 6; ++i) {
    const bool idle = i == 2 || i == 3;
    report.samples.push_back(
        {.second = 10.0 * (i + 1), .ready = 1, .first_tokens = idle ? 0u : 3u, .ttft_p50 = 1, .ttft_p99 = 2});
  }
  const std::vector<SizedBy> ways = {{"demand", report}};
  const std::string page = AsHtml({.trace = "x", .model = "m", .ttft = std::chrono::seconds(2)}, ways);
  EXPECT_EQ(FiguresFirst(page), 10u);
  EXPECT_EQ(Occurrences(PlotOf(page, "TTFT, half"), "<polyline"), 3u);  // two parts, and the objective
  EXPECT_EQ(Occurrences(PlotOf(page, "First tokens that came late"), "<polyline"), 2u);
  EXPECT_EQ(Occurrences(PlotOf(page, "Replicas over time"), "<polyline"), 1u);
}

}  // namespace
}  // namespace router::sim
