#include "scheduler/io/explanation_text.h"

#include <fmt/format.h>

#include <array>

#include "conf/time.h"
#include "scheduler/io/json_writer.h"
#include "scheduler/io/units.h"

namespace scheduler::io {

template <class A>
constexpr void Fields(A& a, const Obstacle*) {
  a.Required("filter", &Obstacle::filter);
  a.Required("nodes", &Obstacle::nodes);
}

template <class A>
constexpr void Fields(A& a, const RoleFinding*) {
  a.Required("role", &RoleFinding::role);
  a.Required("each", &RoleFinding::each);
  a.Required("wanted", &RoleFinding::wanted);
  a.Required("needed", &RoleFinding::needed);
  a.Required("fit_now", &RoleFinding::fit_now);
  a.Required("fit_unreserved", &RoleFinding::fit_unreserved);
  a.Required("fit_empty", &RoleFinding::fit_empty);
  a.Required("nodes_with_room", &RoleFinding::nodes_with_room);
  a.Required("obstacles", &RoleFinding::obstacles);
}

template <class A>
constexpr void Fields(A& a, const KindFinding*) {
  a.Required("kind", &KindFinding::kind);
  a.Required("free", &KindFinding::free);
  a.Required("total", &KindFinding::total);
}

template <class A>
constexpr void Fields(A& a, const DomainFinding*) {
  a.Required("level", &DomainFinding::level);
  a.Required("domain", &DomainFinding::domain);
  a.Required("fit", &DomainFinding::fit);
  a.Required("needed", &DomainFinding::needed);
  a.Required("holds_when_empty", &DomainFinding::holds_when_empty);
  a.Optional("until", &DomainFinding::until);
}

template <class A>
constexpr void Fields(A& a, const ReservationFinding*) {
  a.Required("job", &ReservationFinding::job);
  a.Required("start", &ReservationFinding::start);
  a.Required("nodes", &ReservationFinding::nodes);
}

template <class A>
constexpr void Fields(A& a, const ReleaseFinding*) {
  a.Required("jobs", &ReleaseFinding::jobs);
  a.Required("count", &ReleaseFinding::count);
  a.Optional("at", &ReleaseFinding::at);
  a.Optional("end_unknown", &ReleaseFinding::end_unknown);
}

template <class A>
constexpr void Fields(A& a, const QuotaRefusal*) {
  a.Required("queue", &QuotaRefusal::queue);
  a.Required("bound", &QuotaRefusal::bound);
  a.Required("kind", &QuotaRefusal::kind);
  a.Required("has_milli", &QuotaRefusal::has);
  a.Required("asked_milli", &QuotaRefusal::asked);
  a.Required("most_milli", &QuotaRefusal::most);
  a.Optional("counts", &QuotaRefusal::counts);
  a.Optional("user", &QuotaRefusal::user);
}

template <class A>
constexpr void Fields(A& a, const QuotaFinding*) {
  a.Inline(&QuotaFinding::refusal);
  a.Required("release", &QuotaFinding::release);
}

template <class A>
constexpr void Fields(A& a, const Explanation*) {
  a.Required("job", &Explanation::job);
  a.Required("cause", &Explanation::cause);
  a.Required("causes", &Explanation::causes);
  a.Required("phase", &Explanation::phase);
  a.Required("as_of", &Explanation::as_of);
  a.Required("submitted", &Explanation::submitted);
  a.Required("nodes", &Explanation::nodes);
  a.Required("roles", &Explanation::roles);
  a.Required("kinds", &Explanation::kinds);
  a.Optional("domain", &Explanation::domain);
  a.Optional("quotas", &Explanation::quotas);
  a.Optional("unfinished", &Explanation::unfinished);
  a.Optional("not_before", &Explanation::not_before);
  a.Optional("reservations", &Explanation::reservations);
  a.Optional("reserved_start", &Explanation::reserved_start);
  a.Optional("line_stopped_by", &Explanation::line_stopped_by);
  a.Optional("release", &Explanation::release);
}

namespace {

// What each filter says of the nodes that it excludes.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kObstacles = {
    {{"kind", "have no devices of that kind"},
     {"labels", "do not have the labels that it asks for"},
     {"health", "are not healthy and take no work"},
     {"cpu", "lack free cores"},
     {"memory", "lack free memory"},
     {"isolation", "are shared with others"},
     {"devices", "lack free devices"},
     {"power", "have no power left"}}};

template <size_t N>
std::string_view SentenceOf(const std::array<std::pair<std::string_view, std::string_view>, N>& table,
                            std::string_view word) {
  for (const auto& [name, sentence] : table) {
    if (name == word) return sentence;
  }
  return word;
}

// "in 3h 20m", in whole minutes above one.
std::string In(conf::Duration left) {
  const int64_t seconds = std::chrono::ceil<std::chrono::seconds>(left).count();
  if (seconds <= 0) return "now";
  if (seconds < 60) return fmt::format("in {} s", seconds);
  const int64_t minutes = (seconds + 59) / 60;
  if (minutes < 60) return fmt::format("in {} min", minutes);
  if (minutes < 48 * 60) return fmt::format("in {} h {} min", minutes / 60, minutes % 60);
  return fmt::format("in {} d {} h", minutes / 1440, minutes % 1440 / 60);
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
    case WaitCause::kCapacity:
      return fmt::format("Job {} waits: not enough devices, cores or memory are free.", e.job);
    case WaitCause::kTopology:
      return fmt::format("Job {} waits: enough is free, but not within one {}.", e.job, e.domain->level);
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
  out.push_back(fmt::format("{}Of {} nodes, {} have room; {}.", name, e.nodes, role.nodes_with_room,
                            fmt::join(kept_off, ", ")));
}

// How each bound introduces its number.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kBounds = {
    {{"limit", "the limit is"},
     {"user-limit", "each user may have"},
     {"deserved", "it does not borrow, and deserves"},
     {"lent", "not counting what other queues do not lend, there are"}}};

void AddQuota(std::vector<std::string>& out, const QuotaFinding& finding, conf::TimePoint now) {
  const QuotaRefusal& q = finding.refusal;
  const std::string kind = q.kind == "*" ? "devices" : q.kind;
  const std::string queue = q.queue.empty() ? "The cluster" : "Queue " + q.queue;
  const std::string user = q.user.empty() ? "" : fmt::format(" (user {})", q.user);
  std::string text =
      fmt::format("{}{} has {} {} and the job asks for {} more; {} {}", queue, user, FormatMilli(q.has), kind,
                  FormatMilli(q.asked), SentenceOf(kBounds, q.bound), FormatMilli(q.most));
  if (finding.release.end_unknown) {
    text += fmt::format("; it may have them {}{}", Ended(finding.release), kNoEndKnown);
  } else if (finding.release.at) {
    text += fmt::format("; it may have them {}, expected {}", Ended(finding.release),
                        At(*finding.release.at, now));
  }
  out.push_back(text + ".");
}

}  // namespace

std::vector<std::string> InWords(const Explanation& e) {
  std::vector<std::string> out = {Headline(e)};
  if (e.cause == WaitCause::kNotPending) return out;
  for (const RoleFinding& role : e.roles) AddRole(out, role, e);
  for (const KindFinding& kind : e.kinds) {
    out.push_back(fmt::format("{} of {} {} are wholly free on nodes that take work.", kind.free, kind.total,
                              kind.kind));
  }
  if (e.domain) {
    out.push_back(fmt::format("It {} one {}: {} comes closest, with room for {} of {} members{}.",
                              e.domain->until ? "waits for" : "requires", e.domain->level,
                              e.domain->domain.empty() ? "none" : e.domain->domain, e.domain->fit,
                              e.domain->needed,
                              e.domain->holds_when_empty ? "" : ", and none could hold it even when empty"));
  }
  if (e.domain && e.domain->until) {
    out.push_back(fmt::format("It accepts any place {}.", At(*e.domain->until, e.as_of)));
  }
  if (!e.unfinished.empty()) {
    out.push_back(fmt::format("It comes after {}, which {} not ended.", fmt::join(e.unfinished, ", "),
                              e.unfinished.size() == 1 ? "has" : "have"));
  }
  if (e.not_before && *e.not_before > e.as_of) {
    out.push_back(fmt::format("It may start {}.", At(*e.not_before, e.as_of)));
  }
  for (const QuotaFinding& quota : e.quotas) AddQuota(out, quota, e.as_of);
  for (const ReservationFinding& reservation : e.reservations) {
    out.push_back(fmt::format("{} node{} with room {} reserved for job {}, which starts {}.",
                              reservation.nodes, reservation.nodes == 1 ? "" : "s",
                              reservation.nodes == 1 ? "is" : "are", reservation.job,
                              At(reservation.start, e.as_of)));
  }
  if (e.release && e.release->at) {
    out.push_back(
        fmt::format("There will be room {}, expected {}.", Ended(*e.release), At(*e.release->at, e.as_of)));
  } else if (e.release && e.release->end_unknown) {
    out.push_back(fmt::format("There will be room {}{}.", Ended(*e.release), kNoEndKnown));
  } else if (e.release) {
    out.push_back(fmt::format("Even after the expected ends of {} jobs there is not enough room for it.",
                              e.release->count));
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
  JsonWriter writer(out);
  WriteJson(writer, explanation);
  return out;
}

}  // namespace scheduler::io
