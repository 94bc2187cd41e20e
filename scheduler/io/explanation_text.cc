#include "scheduler/io/explanation_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "conf/json_fields.h"
#include "conf/shown.h"
#include "conf/time.h"
#include "scheduler/io/units.h"
#include "scheduler/io/work_json.h"

namespace scheduler {

template <class O>
constexpr void Bind(O& o, Obstacle& t) {
  o.Required("filter", t.filter);
  o.Required("nodes", t.nodes);
}

template <class O>
constexpr void Bind(O& o, RoleFinding& t) {
  o.Required("role", t.role);
  o.Required("each", t.each);
  o.Required("wanted", t.wanted);
  o.Required("needed", t.needed);
  o.Required("fit_now", t.fit_now);
  o.Required("fit_unreserved", t.fit_unreserved);
  o.Required("fit_empty", t.fit_empty);
  o.Required("nodes_with_room", t.nodes_with_room);
  o.Required("obstacles", t.obstacles);
}

template <class O>
constexpr void Bind(O& o, KindFinding& t) {
  o.Required("kind", t.kind);
  o.Required("free", t.free);
  o.Required("total", t.total);
}

template <class O>
constexpr void Bind(O& o, DomainFinding& t) {
  o.Required("level", t.level);
  o.Required("domain", t.domain);
  o.Required("fit", t.fit);
  o.Required("needed", t.needed);
  o.Required("holds_when_empty", t.holds_when_empty);
  o.Optional("until", t.until);
}

template <class O>
constexpr void Bind(O& o, ReservationFinding& t) {
  o.Required("job", t.job);
  o.Required("start", t.start);
  o.Required("nodes", t.nodes);
}

template <class O>
constexpr void Bind(O& o, ReleaseFinding& t) {
  o.Required("jobs", t.jobs);
  o.Required("count", t.count);
  o.Optional("at", t.at);
  o.Optional("end_unknown", t.end_unknown);
}

template <class O>
constexpr void Bind(O& o, QuotaRefusal& t) {
  o.Required("queue", t.queue);
  o.Required("bound", t.bound);
  o.Required("kind", t.kind);
  o.Required("has_milli", t.has);
  o.Required("asked_milli", t.asked);
  o.Required("most_milli", t.most);
  o.Optional("counts", t.counts);
  o.Optional("user", t.user);
}

template <class O>
constexpr void Bind(O& o, QuotaFinding& t) {
  o.Inline(t.refusal);
  o.Required("release", t.release);
}

template <class O>
constexpr void Bind(O& o, ResourceShort& t) {
  o.Required("resource", t.name);
  o.Required("asked", t.asked);
  o.Required("free", t.free);
  o.Required("total", t.total);
}

template <class O>
constexpr void Bind(O& o, ResourceFinding& t) {
  o.Inline(t.lack);
  o.Optional("held_by", t.held_by);
  o.Required("release", t.release);
}

template <class O>
constexpr void Bind(O& o, PinnedFinding& t) {
  o.Required("node", t.node);
  o.Optional("held_by", t.held_by);
}

template <class O>
constexpr void Bind(O& o, OrderPart& t) {
  o.Required("term", t.name);
  o.Required("weight", t.weight);
  o.Required("value", t.value);
}

template <class O>
constexpr void Bind(O& o, RunEstimate& t) {
  o.Required("expected", t.expected);
  o.Required("spread", t.spread);
  o.Required("runs", t.runs);
  o.Inline(t.of);
}

template <class O>
constexpr void Bind(O& o, OrderFinding& t) {
  o.Required("ahead", t.ahead);
  o.Required("waiting", t.waiting);
  o.Required("terms", t.parts);
  o.Optional("run", t.run);
}

template <class O>
constexpr void Bind(O& o, Explanation& t) {
  o.Required("job", t.job);
  o.Required("cause", t.cause);
  o.Required("causes", t.causes);
  o.Required("phase", t.phase);
  o.Required("as_of", t.as_of);
  o.Required("submitted", t.submitted);
  o.Required("nodes", t.nodes);
  o.Required("roles", t.roles);
  o.Required("kinds", t.kinds);
  o.Optional("domain", t.domain);
  o.Optional("pinned", t.pinned);
  o.Optional("quotas", t.quotas);
  o.Optional("resources", t.resources);
  o.Optional("unfinished", t.unfinished);
  o.Optional("not_before", t.not_before);
  o.Optional("reservations", t.reservations);
  o.Optional("reserved_start", t.reserved_start);
  o.Optional("line_stopped_by", t.line_stopped_by);
  o.Optional("order", t.order);
  o.Optional("release", t.release);
}

}  // namespace scheduler

namespace scheduler::io {
namespace {

// The words of each filter for the nodes that it excludes.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kObstacles = {
    {{"kind", "have no devices of that kind"},
     {"labels", "do not have the labels that it asks for"},
     {"health", "are not healthy and take no work"},
     {"cpu", "lack free cores"},
     {"memory", "lack free memory"},
     {"isolation", "are shared with others"},
     {"devices", "lack free devices"},
     {"power", "have no power budget left"}}};

template <size_t N>
std::string_view SentenceOf(const std::array<std::pair<std::string_view, std::string_view>, N>& table,
                            std::string_view word) {
  for (const auto& [name, sentence] : table) {
    if (name == word) return sentence;
  }
  return word;
}

// "2 h 30 min"
std::string OfMinutes(int64_t minutes) {
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / 1440, minutes % 1440 / 60);
}

// "in 3 h 20 min", in whole minutes above one.
std::string In(conf::Duration left) {
  const int64_t seconds = std::chrono::ceil<std::chrono::seconds>(left).count();
  if (seconds <= 0) return "now";
  if (seconds < 60) return fmt::format("in {} s", seconds);
  return "in " + OfMinutes((seconds + 59) / 60);
}

std::string At(conf::TimePoint at, conf::TimePoint now) {
  return fmt::format("{} ({})", In(at - now), conf::FormatTime(at).substr(0, 19) + "Z");
}

constexpr std::string_view kNoEndKnown = "; the time is not known";

std::string Ended(const ReleaseFinding& release) {
  if (release.count == 1) return fmt::format("when job {} has ended", release.jobs.front());
  constexpr size_t kShown = 5;
  const std::vector<std::string> shown(
      release.jobs.begin(),
      release.jobs.begin() + static_cast<std::ptrdiff_t>(std::min(release.jobs.size(), kShown)));
  const size_t more = release.count - shown.size();
  return fmt::format("when {} jobs have ended ({}{})", release.count, fmt::join(shown, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : std::string());
}

std::string MayHaveThem(const ReleaseFinding& release, conf::TimePoint now) {
  if (release.end_unknown) return fmt::format("; it may have them {}{}", Ended(release), kNoEndKnown);
  if (!release.at) return {};
  return fmt::format("; it may have them {}, expected {}", Ended(release), At(*release.at, now));
}

std::string Headline(const Explanation& e) {
  switch (e.cause) {
    case WaitCause::kNotPending:
      return fmt::format("Job {} does not wait: it is {}.", e.job, Name(e.phase));
    case WaitCause::kNeverFits:
      return fmt::format("Job {} can never start: it does not fit even on the empty cluster.", e.job);
    case WaitCause::kDependency:
      return fmt::format("Job {} waits for other jobs to end.", e.job);
    case WaitCause::kNotBefore:
      return fmt::format("Job {} waits for its own start time.", e.job);
    case WaitCause::kQuota:
      return fmt::format("Job {} waits: a quota of its queue is used up.", e.job);
    case WaitCause::kResource:
      return fmt::format("Job {} waits for the resource {}.", e.job, e.resources.front().lack.name);
    case WaitCause::kCapacity:
      return fmt::format("Job {} waits: not enough devices, cores or memory are free.", e.job);
    case WaitCause::kTopology:
      return fmt::format("Job {} waits: enough is free, but not within one {}.", e.job, e.domain->level);
    case WaitCause::kPinned:
      return fmt::format("Job {} waits for its own devices on {}: {}.", e.job, e.pinned->node,
                         e.pinned->held_by.empty()
                             ? std::string("the node takes no work now, or the node lacks cores or memory")
                             : fmt::format("{} holds them", fmt::join(e.pinned->held_by, ", ")));
    case WaitCause::kReservation:
      return fmt::format("Job {} waits: the free nodes are reserved for jobs ahead of it.", e.job);
    case WaitCause::kLine:
      return fmt::format("Job {} waits in line behind job {}, which has not started.", e.job,
                         e.line_stopped_by);
    case WaitCause::kNextCycle:
      return fmt::format("Job {} can start: the next planning cycle places it.", e.job);
  }
  return {};
}

void AddRole(std::vector<std::string>& out, const RoleFinding& role, const Explanation& e) {
  const std::string name = role.role.empty() ? "" : fmt::format("role {}: ", role.role);
  const std::string elastic = role.wanted > role.needed ? fmt::format(" (up to {})", role.wanted) : "";
  out.push_back(fmt::format("{}It needs {} member{}{} of {} each; {} would fit now, {} on the empty cluster.",
                            name, role.needed, role.needed == 1 ? "" : "s", elastic, role.each, role.fit_now,
                            role.fit_empty));
  std::vector<std::string> kept_off;
  kept_off.reserve(role.obstacles.size());
  for (const Obstacle& obstacle : role.obstacles) {
    kept_off.push_back(fmt::format("{} {}", obstacle.nodes, SentenceOf(kObstacles, obstacle.filter)));
  }
  if (kept_off.empty()) return;
  out.push_back(fmt::format("{}Of {}, {} {} room; {}.", name, conf::Counted(e.nodes, "node"),
                            role.nodes_with_room, role.nodes_with_room == 1 ? "has" : "have",
                            fmt::join(kept_off, ", ")));
}

// How each bound introduces its number.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kBounds = {
    {{"limit", "the limit is"},
     {"user-limit", "each user may have"},
     {"deserved", "it does not borrow, and deserves"},
     {"lent", "not counting what other queues do not lend, there are"}}};

std::string Long(conf::Duration length) {
  const int64_t minutes = std::chrono::round<std::chrono::minutes>(length).count();
  if (minutes == 0) return fmt::format("{} s", std::chrono::round<std::chrono::seconds>(length).count());
  return OfMinutes(minutes);
}

// "as those of user ada did (about 41 runs count)"
std::string LearnedFrom(const RunEstimate& run) {
  if (run.runs <= 0) return "no earlier run is known";
  std::string of = "all such jobs";
  if (!run.of.application.empty()) {
    of = "application " + run.of.application;
    if (!run.of.user.empty()) of += " by " + run.of.user;
  } else if (!run.of.user.empty() || !run.of.tenant.empty()) {
    of = run.of.user.empty() ? "tenant " + run.of.tenant : "user " + run.of.user;
  }
  return fmt::format("learned from {}, of which {:.0f} {} count", of, std::ceil(run.runs),
                     run.runs > 1 ? "runs" : "run");
}

void AddOrder(std::vector<std::string>& out, const OrderFinding& order) {
  std::vector<std::string> parts;
  parts.reserve(order.parts.size());
  double sum = 0;
  for (const OrderPart& part : order.parts) {
    parts.push_back(fmt::format("{} {:.4g} x {:.7g}", part.name, part.value, part.weight));
    sum += part.weight * part.value;
  }
  out.push_back(fmt::format("{} of {} that wait {} before it. Its order is {:.6g}: {}.",
                            conf::Counted(order.ahead, "job"), order.waiting,
                            order.ahead == 1 ? "goes" : "go", sum, fmt::join(parts, ", ")));
  if (!order.run) return;
  out.push_back(fmt::format("Its run is expected to last {}, give or take {}: {}.", Long(order.run->expected),
                            Long(order.run->spread), LearnedFrom(*order.run)));
}

void AddQuota(std::vector<std::string>& out, const QuotaFinding& finding, conf::TimePoint now) {
  const QuotaRefusal& q = finding.refusal;
  const std::string kind = q.kind == "*" ? "devices" : q.kind;
  const std::string queue = q.queue.empty() ? "The cluster" : "Queue " + q.queue;
  const std::string user = q.user.empty() ? "" : fmt::format(" (user {})", q.user);
  const std::string text =
      fmt::format("{}{} has {} {} and the job asks for {} more; {} {}", queue, user, FormatMilli(q.has), kind,
                  FormatMilli(q.asked), SentenceOf(kBounds, q.bound), FormatMilli(q.most));
  out.push_back(text + MayHaveThem(finding.release, now) + ".");
}

void AddResource(std::vector<std::string>& out, const ResourceFinding& finding, conf::TimePoint now) {
  const ResourceShort& lack = finding.lack;
  std::string text = fmt::format("It asks for {} of the resource {}; {} of {} {} free", lack.asked, lack.name,
                                 lack.free, lack.total, lack.free == 1 ? "is" : "are");
  if (!finding.held_by.empty()) {
    constexpr size_t kShown = 5;
    const size_t shown = std::min(finding.held_by.size(), kShown);
    text += fmt::format(", {}{} {} the others",
                        fmt::join(finding.held_by.begin(),
                                  finding.held_by.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                        finding.held_by.size() > kShown ? " and more" : "",
                        finding.held_by.size() == 1 ? "holds" : "hold");
  }
  out.push_back(text + MayHaveThem(finding.release, now) + ".");
}

}  // namespace

std::vector<std::string> InWords(const Explanation& e) {
  std::vector<std::string> out = {Headline(e)};
  if (e.cause == WaitCause::kNotPending) return out;
  for (const RoleFinding& role : e.roles) AddRole(out, role, e);
  if (e.order) AddOrder(out, *e.order);
  for (const KindFinding& kind : e.kinds) {
    out.push_back(fmt::format("{} of {} {} are completely free on nodes that take work.", kind.free,
                              kind.total, kind.kind));
  }
  if (e.domain) {
    out.push_back(fmt::format("It {} one {}: {} comes closest, with room for {} of {} members{}.",
                              e.domain->until ? "waits for" : "requires", e.domain->level,
                              e.domain->domain.empty() ? "none" : e.domain->domain, e.domain->fit,
                              e.domain->needed,
                              e.domain->holds_when_empty ? "" : ", and none could hold it even when empty"));
  }
  if (e.domain && e.domain->until) {
    out.push_back(fmt::format("It will accept any place {}.", At(*e.domain->until, e.as_of)));
  }
  if (!e.unfinished.empty()) {
    out.push_back(fmt::format("It waits for {}, which {} not ended.", fmt::join(e.unfinished, ", "),
                              e.unfinished.size() == 1 ? "has" : "have"));
  }
  if (e.not_before && *e.not_before > e.as_of) {
    out.push_back(fmt::format("It may start {}.", At(*e.not_before, e.as_of)));
  }
  for (const QuotaFinding& quota : e.quotas) AddQuota(out, quota, e.as_of);
  for (const ResourceFinding& resource : e.resources) AddResource(out, resource, e.as_of);
  for (const ReservationFinding& reservation : e.reservations) {
    out.push_back(fmt::format("{} with room {} reserved for job {}, which starts {}.",
                              conf::Counted(reservation.nodes, "node"), reservation.nodes == 1 ? "is" : "are",
                              reservation.job, At(reservation.start, e.as_of)));
  }
  if (e.release && e.release->at) {
    out.push_back(
        fmt::format("There will be room {}, expected {}.", Ended(*e.release), At(*e.release->at, e.as_of)));
  } else if (e.release && e.release->end_unknown) {
    out.push_back(fmt::format("There will be room {}{}.", Ended(*e.release), kNoEndKnown));
  } else if (e.release) {
    out.push_back(fmt::format("Even after the expected {} of {} there is not enough room for it.",
                              e.release->count == 1 ? "end" : "ends",
                              conf::Counted(e.release->count, "job")));
  }
  if (e.reserved_start && e.release && e.release->end_unknown) {
    out.push_back("The first nodes that these jobs leave are reserved for it.");
  } else if (e.reserved_start) {
    out.push_back(fmt::format("Its start is reserved {}.", At(*e.reserved_start, e.as_of)));
  }
  return out;
}

std::string WriteExplanation(const Explanation& explanation) {
  std::string out;
  conf::JsonWriter writer(out);
  conf::WriteJson(writer, explanation);
  return out;
}

}  // namespace scheduler::io
