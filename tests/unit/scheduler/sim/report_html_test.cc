#include "scheduler/sim/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace scheduler::sim {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;

Report SomeReport(size_t samples, size_t queues, size_t heat_rows) {
  Report report;
  report.seed = 7;
  report.hours = static_cast<double>(samples);
  report.saturated_hours = 1;
  for (size_t i = 0; i < samples; ++i) {
    const double wave = 0.5 + 0.5 * std::sin(static_cast<double>(i) / 17);
    report.samples.push_back({.hour = static_cast<double>(i + 1),
                              .gar = wave,
                              .sor = wave * 0.9,
                              .gfr = 1 - wave,
                              .waiting = static_cast<uint32_t>(1000 * wave),
                              .waiting_devices = 4000 * wave});
  }
  for (size_t size = 0; size < kSizeClasses; size += 2) {
    WaitsOfClass& waits = report.waits_by_size[size];
    waits.jobs = 100;
    for (size_t step = 0; step <= 200; ++step) waits.cdf_h.push_back(static_cast<double>(step) / 10);
    waits.max_h = report.waits.max_h = waits.cdf_h.back();
  }
  for (size_t q = 0; q < queues; ++q) {
    report.queues.push_back({.name = "team-" + std::to_string(q),
                             .device_hours = static_cast<double>(q),
                             .devices = std::vector<float>(samples, static_cast<float>(q))});
  }
  report.heat.rows = heat_rows;
  report.heat.cells.assign(heat_rows * samples, 0.5F);
  return report;
}

std::vector<PolicyRuns> TwoPolicies(const Report& report) {
  return {{.name = "fifo", .reports = {report}}, {.name = "default", .reports = {report}}};
}

const RunFacts kFacts{
    .trace = "/traces/some.csv", .rows = 10, .nodes = 4, .devices = 32, .estimates = "exact"};

// The first tag that closes what is not open, or what stays open; empty for a page in balance.
std::string Unbalanced(std::string_view page) {
  static const std::set<std::string_view> kVoid = {"meta", "!doctype"};
  std::vector<std::string_view> open;
  for (size_t at = page.find('<'); at != std::string_view::npos; at = page.find('<', at)) {
    const size_t end = page.find('>', at);
    if (end == std::string_view::npos) return "a tag without end";
    std::string_view tag = page.substr(at + 1, end - at - 1);
    at = end;
    if (tag.ends_with('/')) continue;
    const bool closes = tag.starts_with('/');
    if (closes) tag.remove_prefix(1);
    tag = tag.substr(0, tag.find_first_of(" \n"));
    if (kVoid.contains(tag)) continue;
    if (!closes) {
      open.push_back(tag);
      if (tag == "script") at = page.find("</script", at);
      continue;
    }
    if (open.empty() || open.back() != tag) return std::string(tag);
    open.pop_back();
  }
  return open.empty() ? "" : std::string(open.back());
}

size_t Count(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The points of each polyline of a page.
std::vector<size_t> PointsOfLines(std::string_view page) {
  constexpr std::string_view kPoints = "points=\"";
  std::vector<size_t> lines;
  for (size_t at = page.find(kPoints); at != std::string_view::npos; at = page.find(kPoints, at + 1)) {
    const size_t begin = at + kPoints.size();
    lines.push_back(Count(page.substr(begin, page.find('"', begin) - begin), ","));
  }
  return lines;
}

TEST(ReportHtml, BalancesItsTags) {
  for (const size_t samples : {0U, 1U, 50U}) {
    for (const size_t queues : {0U, 3U}) {
      EXPECT_EQ(Unbalanced(AsHtml(kFacts, TwoPolicies(SomeReport(samples, queues, 4)))), "");
    }
  }
  EXPECT_EQ(Unbalanced(AsHtml(kFacts, std::vector<PolicyRuns>{{.name = "one", .reports = {Report{}}}})), "");
  EXPECT_EQ(Unbalanced("<p><b></p>"), "p");
}

TEST(ReportHtml, NeedsNothingFromElsewhere) {
  const std::string page = AsHtml(kFacts, TwoPolicies(SomeReport(50, 3, 4)));
  for (const std::string_view outside : {"http", "://", "@import", "src=", "url(", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page, HasSubstr("href=\"data:image/bmp;base64,"));
  EXPECT_EQ(Count(page, "href="), Count(page, "href=\"data:"));
}

TEST(ReportHtml, EscapesEveryName) {
  const std::string bad = "<script>alert(\"x\")</script>&'";
  Report report = SomeReport(20, 2, 2);
  for (QueueUse& queue : report.queues) queue.name = bad;
  const RunFacts facts{.trace = bad, .estimates = bad};
  const std::vector<PolicyRuns> runs = {{.name = bad, .reports = {report}},
                                        {.name = bad, .reports = {report}}};
  const std::string page = AsHtml(facts, runs);
  EXPECT_EQ(Count(page, "<script>"), 1U);  // its own
  EXPECT_THAT(page, Not(HasSubstr("alert(\"")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#39;"));
  EXPECT_EQ(Unbalanced(page), "");
}

TEST(ReportHtml, ShowsEveryMetric) {
  const std::string page = AsHtml(kFacts, TwoPolicies(SomeReport(20, 2, 2)));
  for (const Metric& metric : Metrics()) {
    const std::string unit = metric.unit.empty() ? "" : " (" + std::string(metric.unit) + ")";
    EXPECT_THAT(page, HasSubstr("<th scope=\"row\">" + std::string(metric.title) + unit + "</th>"));
  }
}

TEST(ReportHtml, ShowsTenFiguresFirstAndFoldsTheRest) {
  const std::string page = AsHtml(kFacts, TwoPolicies(SomeReport(20, 2, 2)));
  const std::string first = page.substr(0, page.find("<details>"));
  EXPECT_EQ(Count(first, "<th scope=\"row\">"), 10U);
  EXPECT_EQ(Count(first, "<svg"), 0U);
  EXPECT_EQ(Count(page, "<section>"), 1U);
}

TEST(ReportHtml, ComparesTwoPoliciesBySeedsMeanAndSpread) {
  Report low{.finished = 1};
  Report high{.finished = 1};
  low.jct_mean_h = 2;
  high.jct_mean_h = 4;
  Report other{.finished = 1};
  other.jct_mean_h = 6;
  const std::vector<PolicyRuns> runs = {{.name = "a", .reports = {low, high}},
                                        {.name = "b", .reports = {other, other}}};
  EXPECT_THAT(
      AsHtml(kFacts, runs),
      HasSubstr(
          "completion time, mean (h)</th><td>3.00 ± 1.41</td><td>6.00 ± 0.00</td><td>+3.00 (+100.0 %)</td>"));
}

TEST(ReportHtml, LeavesQueuesOutWhereThereIsOne) {
  EXPECT_THAT(AsHtml(kFacts, TwoPolicies(SomeReport(20, 1, 2))), Not(HasSubstr("Share by queue")));
  EXPECT_THAT(AsHtml(kFacts, TwoPolicies(SomeReport(20, 2, 2))), HasSubstr("Share by queue"));
}

TEST(ReportHtml, ShowsTheQueuesThatHeldTheMost) {
  const std::string page = AsHtml(kFacts, TwoPolicies(SomeReport(20, 12, 2)));
  EXPECT_THAT(page, HasSubstr("The 8 of 12 queues"));
  EXPECT_THAT(page, HasSubstr("<figcaption>team-11</figcaption>"));
  EXPECT_THAT(page, Not(HasSubstr("<figcaption>team-3</figcaption>")));
}

TEST(ReportHtml, StaysSmallHoweverLongTheTrace) {
  const std::string page = AsHtml(kFacts, TwoPolicies(SomeReport(10'000, 30, 300)));
  EXPECT_LT(page.size(), 1'000'000U);
  const std::vector<size_t> lines = PointsOfLines(page);
  EXPECT_GT(lines.size(), 10U);
  EXPECT_THAT(lines, Each(Lt(401U)));
  EXPECT_GT(*std::ranges::max_element(lines), 200U);
}

TEST(ReportHtml, LeavesOutNan) {
  Report report = SomeReport(20, 2, 2);
  report.samples[3].gar = std::numeric_limits<double>::quiet_NaN();
  const std::string page = AsHtml(kFacts, TwoPolicies(report));
  for (size_t at = page.find("points=\""); at != std::string::npos; at = page.find("points=\"", at + 1)) {
    EXPECT_THAT(page.substr(at, page.find('/', at) - at), Not(HasSubstr("nan")));
  }
}

}  // namespace
}  // namespace scheduler::sim
