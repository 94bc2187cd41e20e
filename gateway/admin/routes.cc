#include <algorithm>
#include <array>

#include "gateway/admin/answers/adapters.h"
#include "gateway/admin/answers/datasets.h"
#include "gateway/admin/answers/evaluations.h"
#include "gateway/admin/answers/gateways.h"
#include "gateway/admin/answers/grants.h"
#include "gateway/admin/answers/inventory.h"
#include "gateway/admin/answers/jobs.h"
#include "gateway/admin/answers/overview.h"
#include "gateway/admin/answers/people.h"
#include "gateway/admin/answers/process.h"
#include "gateway/admin/answers/rollouts.h"
#include "gateway/admin/answers/scaling.h"
#include "gateway/admin/answers/simulations.h"
#include "gateway/admin/answers/traffic.h"
#include "gateway/admin/answers/usage.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/playground.h"
#include "gateway/audit/content_erasure.h"
#include "gateway/people/shown_key.h"
#include "router/facts/api.h"

namespace gateway::admin {
namespace {

using net::http::Verb;

constexpr std::array kPage = {kLimit, kAfter};

constexpr std::array kOfTenant = {
    Member{"tenant", Type::kText, false, "A tenant's name or path: it and everything below it"}, kLimit,
    kAfter};

constexpr std::array kOfModel = {Member{"model", Type::kText, false, "Only the endpoints of this model"},
                                 kLimit, kAfter};

constexpr std::array kOfQueue = {Member{"model", Type::kText, false, "Only the queue of this model"}, kLimit,
                                 kAfter};

constexpr std::array kOfScaled = {Member{"model", Type::kText, false, "Only this model"}, kLimit, kAfter};

constexpr std::array kKeyQuery = {
    Member{"tenant", Type::kText, false,
           "A tenant's name or path: its keys and those of the tenants below it"},
    Member{"state", Type::kText, false, "Only keys in this state", kKeyStateNames}, kLimit, kAfter};

constexpr std::array kNewKey = {
    Member{"tenant", Type::kText, false, "The tenant of the key: a name or a path. Give either this or role"},
    Member{"role", Type::kText, false, "Make an admin key with this role: viewer, operator or admin"},
    Member{"rights", Type::kTexts, false, "Rights of an admin key in addition to its role: submit_jobs"},
    Member{"name", Type::kText, false, "A label for people"},
    Member{"models", Type::kTexts, false, "Only these models of the tenant: names or globs"},
    Member{"endpoints", Type::kTexts, false, "Only these endpoints: chat, embeddings, …"},
    Member{"expires", Type::kText, false, "When it stops working: 30d, or 2027-01-31T00:00:00Z"},
    Member{"priority", Type::kText, false,
           "The band of the queue, such as low, normal or high; default: the tenant's"},
    Member{"limits", Type::kObject, false,
           "The key's own limits: the members of a tenant's limits, and budget"},
    Member{"owner", Type::kText, false, "me: a key of the caller's own; always so for members"},
};

constexpr std::array kRotation = {
    Member{"overlap", Type::kText, false, "How long the old key works beside the new one; 0 when not given"},
    Member{"expires", Type::kText, false, "Expiry of the new key; default: the lifetime of the old one"},
};

constexpr std::array kQuestion = {
    Member{"tenant", Type::kText, false, "The tenant that pays: a name or a path; default: the only one"},
    Member{"request", Type::kObject, true,
           "The body of POST /v1/chat/completions, with \"stream\": true; it is passed on as it is"}};

constexpr std::array kRevocation = {Member{"reason", Type::kText, false, "The reason, for the ledger"}};

constexpr Member kSince{"since", Type::kText, false,
                        "The beginning: an age such as 7d, or a time as RFC 3339"};
constexpr Member kUntil{"until", Type::kText, false, "The end, likewise; not included"};
constexpr Member kTenant{"tenant", Type::kText, false, "A tenant's name or path: it and everything below it"};
constexpr Member kModel{"model", Type::kText, false, "Only this model"};

constexpr std::array kUsage = {
    Member{"by", Type::kText, false,
           "Groups, joined by commas: tenant, key, model, replica, api, reason, hour, day, job"},
    kSince,
    kUntil,
    kTenant,
    kModel,
    Member{"format", Type::kText, false,
           "json; csv; or focus, a CSV in the format FOCUS 1.2, hour by hour, which takes no groups. "
           "Default: json"},
    kLimit,
    kAfterRow};

constexpr std::array kOfFeedback = {
    Member{
        "by", Type::kText, false,
        "Groups, joined by commas: tenant, key, model, version, replica, hour, day; default: model,version"},
    kSince,
    kUntil,
    kTenant,
    kModel,
    Member{"format", Type::kText, false, "json or csv; default: json"},
    kLimit,
    kAfterRow};

constexpr std::array kOfDataset = {
    Member{
        "where", Type::kText, false,
        "Which requests: a condition such as feedback.helpful = false and model = chat-small; default: all"},
    kSince,
    kUntil,
    kTenant,
    Member{"answers", Type::kText, false,
           "stored; or corrected: the latest correction in the feedback replaces the answer. Default: "
           "stored"},
    Member{"from_seq", Type::kWhole, false, "The first record: `next_from_seq` of the previous part"}};

constexpr std::array kStatement = {
    Member{"tenant", Type::kText, true, "A tenant's name or path: it and everything below it"},
    Member{"format", Type::kText, false, "json or csv; default: json"}};

constexpr std::array kAudit = {
    Member{"from_seq", Type::kWhole, false, "The first record: `next_from_seq` of the previous page"},
    Member{"kind", Type::kText, false, "Kinds, joined by commas: open, close, config, key, admin, …"},
    kSince,
    kUntil,
    kTenant,
    kModel,
    Member{"content", Type::kText, false,
           "open: prompts and answers as text, which writes a record; default: sealed, as they are stored"},
    kLimit};

constexpr std::array kErasure = {
    Member{"tenant", Type::kText, true, "A tenant's name or path: it and the tenants below it"},
    Member{"reason", Type::kText, false, "The reason, for the ledger"}};

constexpr std::array kNewAdapter = {
    Member{"name", Type::kText, true, "Its name at the engines, and the name of the model for callers"},
    Member{"source", Type::kText, true,
           "Where engines load it from: a path or a name of the hub, in the model's adapters.sources"}};

constexpr std::array kNewJob = {
    Member{"job", Type::kText, true, "A job file: the text of a YAML document, as in conf/jobs"},
    Member{"file", Type::kText, false, "The name of the file in problems; default: job"},
    Member{"parameters", Type::kText, false,
           "The text of the file that the job's sweep names: JSON lines, or CSV with a header"},
};

constexpr std::array kCompared = {
    Member{"jobs", Type::kText, true, "Jobs, arrays and sweeps by their ids, joined by commas"}};

constexpr std::array kOfJobs = {
    Member{"state", Type::kText, false, "pending, starting, running, …; open: all that have not ended"},
    Member{"queue", Type::kText, false, "Only jobs of this queue"}, kTenant, kLimit, kAfter};

constexpr std::array kOfLog = {
    Member{"rank", Type::kWhole, false, "The rank of the member; default: 0"},
    Member{"bytes", Type::kWhole, false, "How many bytes at most, up to 262144; default: 65536"},
    Member{"from", Type::kWhole, false,
           "The first byte, such as `next` of the previous answer; default: the end"},
    Member{"attempt", Type::kText, false, "last, or before for the previous attempt; default: last"}};

constexpr std::array kOfCordon = {
    Member{"device", Type::kWhole, false, "The place of a device on the node; default: the whole node"},
    Member{"reason", Type::kText, false, "For people"}};
constexpr std::array kOfUncordon = {kOfCordon[0]};

constexpr std::array kWhatIf = {
    Member{"job", Type::kText, false, "When would this job start? A job file, as in conf/jobs"},
    Member{"add_nodes", Type::kWhole, false, "Number of additional nodes, for operators; 1 to 1000"},
    Member{"like", Type::kText, false, "The node that they are like; default: the last one"},
    Member{"quotas", Type::kTexts, false,
           "What queues deserve: QUEUE=DEVICES or QUEUE=KIND:DEVICES; for operators"},
    Member{"policy", Type::kText, false, "Another policy of the planner, as in conf/policies; for operators"},
    Member{"scaling", Type::kText, false,
           "A scaling policy, tried on the model's traffic of the last hour; for operators"}};

constexpr Member kOwnModels{"models", Type::kTexts, false,
                            "Names or globs of the parent's models; without it: all of them"};
constexpr Member kOwnLimits{"limits", Type::kObject, false,
                            "Its limits within the parent's: the members of a key's limits; {}: none"};
constexpr Member kOwnWeight{"weight", Type::kWhole, false,
                            "Its share of a queue, from 1 to the parent's weight"};
constexpr std::array kNewTenant = {
    Member{"parent", Type::kText, true, "Its parent: a tenant's name or path"},
    Member{"name", Type::kText, true, "Its own name, the last part of its path"}, kOwnModels, kOwnLimits,
    kOwnWeight};
constexpr std::array kChangedTenant = {kOwnModels, kOwnLimits, kOwnWeight};
constexpr std::array kRemovedTenant = {
    Member{"keys", Type::kText, false, "revoke: revokes the keys that still work; default: they keep it"}};

constexpr std::array kOneMember = {
    Member{"tenant", Type::kText, true, "A tenant's name or path"},
    Member{"who", Type::kText, true,
           "The id of a person, such as person:corp:ada, or an address that their provider has verified"}};
constexpr std::array kNewMember = {kOneMember[0], kOneMember[1],
                                   Member{"role", Type::kText, true, "member or lead"}};

constexpr Member kGivenModels{"models", Type::kTexts, false,
                              "Models by name, in addition to those that it may use"};
constexpr Member kGivenLimits{"limits", Type::kObject, false,
                              "The new amounts of limits that it has: the members of a key's limits"};
constexpr Member kGivenWeight{"weight", Type::kWhole, false, "The new share of a queue, up to 1000"};
constexpr Member kGivenDevices{
    "devices", Type::kObject, false,
    "Devices that the planner keeps for jobs of the tenant: {\"kind\": \"h100\", \"count\": 8}"};
constexpr Member kGivenFrom{"from", Type::kText, false,
                            "The beginning: 2h, or 2027-01-31T00:00:00Z; default: at once"};
constexpr std::array kNewGrant = {Member{"tenant", Type::kText, true, "A tenant's name or path"},
                                  kGivenModels,
                                  kGivenLimits,
                                  kGivenWeight,
                                  kGivenDevices,
                                  kGivenFrom,
                                  Member{"until", Type::kText, true, "The end: 30d, or 2027-01-31T00:00:00Z"},
                                  Member{"reason", Type::kText, false, "What it is for"}};
constexpr std::array kChangedGrant = {
    kGivenModels,
    kGivenLimits,
    kGivenWeight,
    kGivenDevices,
    Member{"until", Type::kText, false, "The new end: 30d from now, or 2027-01-31T00:00:00Z"},
    Member{"reason", Type::kText, false, "The new reason: what it is for"}};
constexpr std::array kNewRequest = {
    Member{"tenant", Type::kText, true, "A tenant's name or path"},
    kGivenModels,
    kGivenLimits,
    kGivenWeight,
    kGivenDevices,
    kGivenFrom,
    Member{"until", Type::kText, true, "The end: 30d, or 2027-01-31T00:00:00Z"},
    Member{"renews", Type::kText, false, "The id of a grant: ask for the same until the new end"},
    Member{"reason", Type::kText, false, "What it is for; required"}};
constexpr std::array kComment = {Member{"text", Type::kText, true, "What to say"}};
constexpr std::array kOfGrants = {
    kTenant, Member{"state", Type::kText, false, "Only grants in this state", answers::kGrantStates}, kLimit,
    kAfter};
constexpr std::array kRequestStateNames = [] {
  std::array<std::string_view, std::size(kRequestStates)> names;
  std::ranges::transform(kRequestStates, names.begin(), &conf::Word<RequestState>::first);
  return names;
}();
constexpr std::array kOfRequests = {
    kTenant, Member{"state", Type::kText, false, "Only requests in this state", kRequestStateNames}, kLimit,
    kAfter};
constexpr std::array kApproval = {kGivenModels,
                                  kGivenLimits,
                                  kGivenWeight,
                                  kGivenDevices,
                                  Member{"until", Type::kText, false, "An earlier end than requested"},
                                  Member{"answer", Type::kText, false, "A message to the requester"}};
constexpr std::array kDecline = {Member{"answer", Type::kText, true, "The reason, as the requester sees it"}};

template <class T>
nlohmann::ordered_json Shows(conf::JsonSchemas& schemas) {
  return schemas.Of<T>();
}

constexpr Member kWhy{"reason", Type::kText, false, "The reason, for people and the ledger"};
constexpr std::array kOfOrder = {kWhy};
constexpr std::array kOfHold = {
    kWhy, Member{"for", Type::kText, false, "How long, such as 30m; default: until it is released"}};

constexpr std::array kOfEvents = {
    Member{"after", Type::kText, false, "The id of the last event that is known; default: from now on"}};

constexpr std::span<const Member> kNone = {};
constexpr std::array kSignInCode = {Member{"code", Type::kText, true, "The code of the link"}};

constexpr std::array kTerminalSecret = {
    Member{"secret", Type::kText, true, "What the command line got with the code"}};

constexpr std::array kReturnPage = {
    Member{"page", Type::kText, false, "The page of the console to return to; default: /"}};
constexpr std::array kFromProvider = {
    Member{"code", Type::kText, false, "What becomes tokens"},
    Member{"state", Type::kText, false, "What binds the answer to this browser"},
    Member{"error", Type::kText, false, "Why there is no code"}};

constexpr int kOk[] = {200};
constexpr int kCreated[] = {201};
constexpr int kAccepted[] = {202};
constexpr int kSeeOther[] = {303};
constexpr int kOkOrNot[] = {200, 503};

const std::array kRoutes = {
    Route{"livez", Verb::get, "/livez", "Whether the process runs", std::nullopt, kNone, kNone,
          Shows<answers::Alive>, kOk, Lane::kLoop, Livez},
    Route{"readyz", Verb::get, "/readyz", "Whether the gateway takes new work, and which parts are degraded",
          std::nullopt, kNone, kNone, Shows<answers::Readiness>, kOkOrNot, Lane::kLoop, Readyz},
    Route{"metrics", Verb::get, "/metrics", "Metrics in Prometheus' text format", std::nullopt, kNone, kNone,
          nullptr, kOk, Lane::kLoop, MetricsText},
    Route{"openapi", Verb::get, "/admin/v1/openapi.json", "This document", std::nullopt, kNone, kNone,
          Shows<answers::Document>, kOk, Lane::kLoop, OpenApi},
    Route{"showOverview", Verb::get, "/admin/v1/overview",
          "The overview: models, devices by holder, jobs and problems", Permission::kSeeModels, kNone, kNone,
          Shows<answers::Overview>, kOk, Lane::kLoop, ShowOverview},
    Route{"followEvents",
          Verb::get,
          "/admin/v1/events",
          "Changes, as server-sent events: overview, action, changed, reset",
          Permission::kSeeModels,
          kOfEvents,
          kNone,
          nullptr,
          kOk,
          Lane::kLoop,
          FollowEvents,
          nullptr,
          {},
          false,
          "text/event-stream"},
    Route{"showMe", Verb::get, "/admin/v1/me", "The caller: roles, permissions, tenants and models",
          Permission::kSeeSelf, kNone, kNone, Shows<answers::Me>, kOk, Lane::kLoop, ShowMe},
    Route{"listSignInWays", Verb::get, "/admin/v1/sign-in", "How people sign in", std::nullopt, kNone, kNone,
          Shows<answers::SignInWays>, kOk, Lane::kLoop, ListSignInWays},
    Route{"makeSignInLink", Verb::post, "/admin/v1/sign-in:link",
          "Make a link that signs the caller in; it works once, within a minute",
          Permission::kMakeSignInLinks, kNone, kNone, Shows<answers::SignInLink>, kCreated, Lane::kLoop,
          nullptr, MakeSignInLink},
    Route{"redeemSignInLink", Verb::get, "/sign-in/link", "Sign in by a link, for a browser", std::nullopt,
          kSignInCode, kNone, nullptr, kSeeOther, Lane::kLoop, nullptr, RedeemSignInLink},
    Route{"beginSignIn", Verb::get, "/sign-in/with/{provider}", "Sign in at a provider, for a browser",
          std::nullopt, kReturnPage, kNone, nullptr, kSeeOther, Lane::kLoop, nullptr, BeginSignIn},
    Route{"finishSignIn",
          Verb::get,
          "/sign-in/with/{provider}/callback",
          "Come back from a provider",
          std::nullopt,
          kFromProvider,
          kNone,
          nullptr,
          kSeeOther,
          Lane::kLoop,
          nullptr,
          FinishSignIn,
          {},
          true},
    Route{"redeemLinkForTerminal", Verb::post, "/admin/v1/sign-in:redeem",
          "Sign a command line in by a link's code, once", std::nullopt, kNone, kSignInCode,
          Shows<answers::TerminalSession>, kOk, Lane::kLoop, nullptr, RedeemLinkForTerminal},
    Route{"beginTerminalSignIn", Verb::post, "/admin/v1/terminal-sign-ins",
          "Begin to sign a command line in: a code that a person confirms in the console within five minutes",
          std::nullopt, kNone, kNone, Shows<answers::NewTerminalSignIn>, kCreated, Lane::kLoop, nullptr,
          BeginTerminalSignIn},
    Route{"showTerminalSignIn", Verb::get, "/admin/v1/terminal-sign-ins/{code}",
          "The command line that waits for a person to confirm its code", Permission::kSeeSelf, kNone, kNone,
          Shows<answers::ShownTerminalSignIn>, kOk, Lane::kLoop, nullptr, ShowTerminalSignIn},
    Route{"confirmTerminalSignIn", Verb::post, "/admin/v1/terminal-sign-ins/{code}:confirm",
          "Sign the command line with this code in, as the caller", Permission::kSeeSelf, kNone, kNone,
          Shows<answers::ShownTerminalSignIn>, kOk, Lane::kLoop, nullptr, ConfirmTerminalSignIn},
    Route{"refuseTerminalSignIn", Verb::post, "/admin/v1/terminal-sign-ins/{code}:refuse",
          "Refuse the command line with this code", Permission::kSeeSelf, kNone, kNone,
          Shows<answers::ShownTerminalSignIn>, kOk, Lane::kLoop, nullptr, RefuseTerminalSignIn},
    Route{"redeemTerminalSignIn", Verb::post, "/admin/v1/terminal-sign-ins/{code}:redeem",
          "The session of a command line, once it is confirmed", std::nullopt, kNone, kTerminalSecret,
          Shows<answers::TerminalSession>, kOk, Lane::kLoop, nullptr, RedeemTerminalSignIn},
    Route{"listSessions", Verb::get, "/admin/v1/sessions", "The caller's sessions; for admins, all",
          Permission::kSeeSelf, kPage, kNone, Shows<answers::ListOf<answers::PersonSession>>, kOk,
          Lane::kLoop, ListSessions},
    Route{"endOwnSession", Verb::post, "/admin/v1/session:end", "Sign out", Permission::kSeeSelf, kNone,
          kNone, Shows<answers::EndedSession>, kOk, Lane::kLoop, nullptr, EndOwnSession},
    Route{"endSession", Verb::post, "/admin/v1/sessions/{id}:end", "End a session at once",
          Permission::kSeeSelf, kNone, kNone, Shows<answers::EndedSession>, kOk, Lane::kLoop, nullptr,
          EndSession},
    Route{"listTenants", Verb::get, "/admin/v1/tenants", "The tenants and what they may use",
          Permission::kSeeTenants, kPage, kNone, Shows<answers::ListOf<answers::Tenant>>, kOk, Lane::kLoop,
          ListTenants},
    Route{"createTenant", Verb::post, "/admin/v1/tenants",
          "Make a tenant below one that has `self_service`, within its limits", Permission::kChangeTenants,
          kNone, kNewTenant, Shows<answers::Tenant>, kCreated, Lane::kLoop, nullptr, CreateTenant},
    Route{"changeTenant", Verb::post, "/admin/v1/tenants/{path}:change",
          "Change a tenant that was made at run time; members that the body omits stay as they are",
          Permission::kChangeTenants, kNone, kChangedTenant, Shows<answers::Tenant>, kOk, Lane::kLoop,
          nullptr, ChangeTenant},
    Route{"disableTenant", Verb::post, "/admin/v1/tenants/{path}:disable",
          "Refuse the requests of a tenant that was made at run time, and of those below it",
          Permission::kChangeTenants, kNone, kNone, Shows<answers::Tenant>, kOk, Lane::kLoop, nullptr,
          DisableTenant},
    Route{"enableTenant", Verb::post, "/admin/v1/tenants/{path}:enable", "Serve a disabled tenant again",
          Permission::kChangeTenants, kNone, kNone, Shows<answers::Tenant>, kOk, Lane::kLoop, nullptr,
          EnableTenant},
    Route{"removeTenant", Verb::post, "/admin/v1/tenants/{path}:remove",
          "Remove a tenant that was made at run time, with its members and grants; its records stay",
          Permission::kChangeTenants, kNone, kRemovedTenant, Shows<answers::RemovedTenant>, kOk, Lane::kLoop,
          nullptr, RemoveTenant},
    Route{"listMembers", Verb::get, "/admin/v1/members", "Members: people who were given a role at run time",
          Permission::kSeeMembers, kOfTenant, kNone, Shows<answers::ListOf<answers::TenantMember>>, kOk,
          Lane::kLoop, ListMembers},
    Route{"setMember", Verb::post, "/admin/v1/members", "Give a person a role over a tenant",
          Permission::kChangeTenants, kNone, kNewMember, Shows<answers::TenantMember>, kCreated, Lane::kLoop,
          nullptr, SetMember},
    Route{"removeMember", Verb::post, "/admin/v1/members:remove",
          "Remove a role that a person was given at run time; this takes effect with the next call",
          Permission::kChangeTenants, kNone, kOneMember, Shows<answers::TenantMember>, kOk, Lane::kLoop,
          nullptr, RemoveMember},
    Route{"listGrants", Verb::get, "/admin/v1/grants",
          "What tenants are granted for a time, in addition to the configuration", Permission::kSeeLimits,
          kOfGrants, kNone, Shows<answers::ListOf<answers::Grant>>, kOk, Lane::kLoop, ListGrants},
    Route{"giveGrant", Verb::post, "/admin/v1/grants",
          "Give a tenant models, higher limits, a larger share of a queue or devices until a date",
          Permission::kGrant, kNone, kNewGrant, Shows<answers::Grant>, kCreated, Lane::kLoop, nullptr,
          GiveGrant},
    Route{"changeGrant", Verb::post, "/admin/v1/grants/{id}:change",
          "Change the end of a grant, or what it gives; members that the body omits stay as they are",
          Permission::kGrant, kNone, kChangedGrant, Shows<answers::Grant>, kOk, Lane::kLoop, nullptr,
          ChangeGrant},
    Route{"endGrant", Verb::post, "/admin/v1/grants/{id}:end", "End a grant before its date",
          Permission::kGrant, kNone, kNone, Shows<answers::Grant>, kOk, Lane::kLoop, nullptr, EndGrant},
    Route{"listRequests", Verb::get, "/admin/v1/requests",
          "The requests: the caller's own, and those of tenants that the caller leads", Permission::kAsk,
          kOfRequests, kNone, Shows<answers::ListOf<answers::GrantRequest>>, kOk, Lane::kLoop, ListRequests},
    Route{
        "askForGrant", Verb::post, "/admin/v1/requests",
        "Ask for models, higher limits, a larger share of a queue or devices until a date, or for a renewal",
        Permission::kAsk, kNone, kNewRequest, Shows<answers::GrantRequest>, kCreated, Lane::kLoop, nullptr,
        AskForGrant},
    Route{"commentOnRequest", Verb::post, "/admin/v1/requests/{id}/comments",
          "Comment on a request, as its author or as a person who may decide it", Permission::kAsk, kNone,
          kComment, Shows<answers::GrantRequest>, kCreated, Lane::kLoop, nullptr, CommentOnRequest},
    Route{"approveRequest", Verb::post, "/admin/v1/requests/{id}:approve",
          "Approve a request, in full or in part; never one's own", Permission::kGrant, kNone, kApproval,
          Shows<answers::GrantRequest>, kOk, Lane::kLoop, nullptr, ApproveRequest},
    Route{"declineRequest", Verb::post, "/admin/v1/requests/{id}:decline", "Decline a request",
          Permission::kGrant, kNone, kDecline, Shows<answers::GrantRequest>, kOk, Lane::kLoop, nullptr,
          DeclineRequest},
    Route{"withdrawRequest", Verb::post, "/admin/v1/requests/{id}:withdraw",
          "Withdraw a request of one's own", Permission::kAsk, kNone, kNone, Shows<answers::GrantRequest>,
          kOk, Lane::kLoop, nullptr, WithdrawRequest},
    Route{"listModels", Verb::get, "/admin/v1/models", "The models and what they cost",
          Permission::kSeeModels, kPage, kNone, Shows<answers::ListOf<answers::Model>>, kOk, Lane::kLoop,
          ListModels},
    Route{"pauseModel", Verb::post, "/admin/v1/models/{name}:pause",
          "Refuse new requests for a model; running ones finish", Permission::kMaintain, kNone, kOfOrder,
          Shows<answers::OrdersForModel>, kOk, Lane::kLoop, nullptr, PauseModel},
    Route{"resumeModel", Verb::post, "/admin/v1/models/{name}:resume",
          "Accept requests for a paused model again", Permission::kMaintain, kNone, kOfOrder,
          Shows<answers::OrdersForModel>, kOk, Lane::kLoop, nullptr, ResumeModel},
    Route{"holdModel", Verb::post, "/admin/v1/models/{name}:hold",
          "Keep the number of a model's replicas, whatever its load", Permission::kMaintain, kNone, kOfHold,
          Shows<answers::OrdersForModel>, kOk, Lane::kLoop, nullptr, HoldModel},
    Route{"releaseModel", Verb::post, "/admin/v1/models/{name}:release",
          "Let the autoscaler change the number of a held model's replicas again", Permission::kMaintain,
          kNone, kOfOrder, Shows<answers::OrdersForModel>, kOk, Lane::kLoop, nullptr, ReleaseModel},
    Route{"listAdapters", Verb::get, "/admin/v1/models/{base}/adapters",
          "The LoRA adapters of a model that were loaded at run time, and which replicas hold which",
          Permission::kSeeReplicas, kPage, kNone, Shows<answers::ListOf<answers::RunTimeAdapter>>, kOk,
          Lane::kLoop, ListAdapters},
    Route{"loadAdapter", Verb::post, "/admin/v1/models/{base}/adapters",
          "Load a LoRA adapter at the engines of a model, and serve it as a model of its name",
          Permission::kChangeAdapters, kNone, kNewAdapter, Shows<answers::RunTimeAdapter>, kCreated,
          Lane::kLoop, nullptr, LoadAdapter},
    Route{"unloadAdapter", Verb::delete_, "/admin/v1/models/{base}/adapters/{name}",
          "Unload a LoRA adapter everywhere; its requests are refused at once", Permission::kChangeAdapters,
          kNone, kNone, Shows<answers::RunTimeAdapter>, kOk, Lane::kLoop, nullptr, UnloadAdapter},
    Route{"listRollouts", Verb::get, "/admin/v1/rollouts",
          "The rollouts of new versions of models: their shares, and both versions compared",
          Permission::kSeeReplicas, kPage, kNone, Shows<answers::ListOf<answers::Rollout>>, kOk, Lane::kLoop,
          ListRollouts},
    Route{"promoteRollout", Verb::post, "/admin/v1/rollouts/{model}:promote",
          "Give a new version all requests now", Permission::kMaintain, kNone, kNone, Shows<answers::Rollout>,
          kOk, Lane::kLoop, nullptr, PromoteRollout},
    Route{"abortRollout", Verb::post, "/admin/v1/rollouts/{model}:abort",
          "Give the old version all requests again", Permission::kMaintain, kNone, kOfOrder,
          Shows<answers::Rollout>, kOk, Lane::kLoop, nullptr, AbortRollout},
    Route{"restartRollout", Verb::post, "/admin/v1/rollouts/{model}:restart",
          "Begin a rollout again that was rolled back or aborted", Permission::kMaintain, kNone, kNone,
          Shows<answers::Rollout>, kOk, Lane::kLoop, nullptr, RestartRollout},
    Route{"listEndpoints", Verb::get, "/admin/v1/endpoints", "The endpoints, their health and load",
          Permission::kSeeReplicas, kOfModel, kNone, Shows<answers::ListOf<answers::Endpoint>>, kOk,
          Lane::kLoop, ListEndpoints},
    Route{"listQueues", Verb::get, "/admin/v1/queue",
          "The requests that wait at the gateway: for which model, why and how long",
          Permission::kSeeReplicas, kOfQueue, kNone, Shows<answers::ListOf<answers::Queue>>, kOk, Lane::kLoop,
          ListQueues},
    Route{"listTraffic", Verb::get, "/admin/v1/traffic",
          "Requests, tokens and latencies of each model over the last minute", Permission::kSeeModels,
          kOfScaled, kNone, Shows<answers::ListOf<answers::Traffic>>, kOk, Lane::kLoop, ListTraffic},
    Route{"listGateways", Verb::get, "/admin/v1/gateways",
          "The gateways that share a store: their versions, which one leads, and how far each has followed",
          Permission::kSeeReplicas, kPage, kNone, Shows<answers::ListOf<answers::Gateway>>, kOk, Lane::kLoop,
          ListGateways},
    Route{"listReplicas", Verb::get, "/admin/v1/replicas",
          "The replicas that Tidegate runs: where, since when and why", Permission::kSeeReplicas, kOfScaled,
          kNone, Shows<answers::ListOf<answers::Replica>>, kOk, Lane::kLoop, ListReplicas},
    Route{"listScaling", Verb::get, "/admin/v1/scaling",
          "Demand and wanted replicas of each model, with the reason", Permission::kSeeModels, kOfScaled,
          kNone, Shows<answers::ListOf<answers::Scaling>>, kOk, Lane::kLoop, ListScaling},
    Route{"showScalingHistory", Verb::get, "/admin/v1/scaling/{model}/history",
          "The last hour of a model: its demand, its replicas and the policy in force",
          Permission::kSeeModels, kNone, kNone, Shows<answers::ScalingHistory>, kOk, Lane::kLoop,
          ShowScalingHistory},
    Route{"listLimits", Verb::get, "/admin/v1/limits", "The limits and what is used of them",
          Permission::kSeeLimits, kOfTenant, kNone, Shows<answers::ListOf<answers::Limit>>, kOk, Lane::kLoop,
          ListLimits},
    Route{"askModel",
          Verb::post,
          kPlaygroundPath,
          "Ask a model as a tenant, without a key: the stream of the chat API, then the event `summary`",
          Permission::kUsePlayground,
          kNone,
          kQuestion,
          nullptr,
          kOk,
          Lane::kLoop,
          nullptr,
          AskModel,
          {},
          false,
          "text/event-stream",
          true},
    Route{"listKeys", Verb::get, "/admin/v1/keys", "The API keys, never their secrets",
          Permission::kSeeOwnKeys, kKeyQuery, kNone, Shows<answers::ListOf<ShownKey>>, kOk, Lane::kLoop,
          ListKeys},
    Route{"createKey", Verb::post, "/admin/v1/keys", "Make a key; its secret is shown in this answer only",
          Permission::kChangeOwnKeys, kNone, kNewKey, Shows<ShownNewKey>, kCreated, Lane::kLoop, nullptr,
          CreateKey},
    Route{"showKey", Verb::get, "/admin/v1/keys/{id}", "One API key, never its secret",
          Permission::kSeeOwnKeys, kNone, kNone, Shows<ShownKey>, kOk, Lane::kLoop, ShowOneKey},
    Route{"rotateKey", Verb::post, "/admin/v1/keys/{id}:rotate",
          "Replace a key by a new one with the same rights and limits; its secret is shown in this answer "
          "only",
          Permission::kChangeOwnKeys, kNone, kRotation, Shows<ShownNewKey>, kCreated, Lane::kLoop, nullptr,
          RotateKey},
    Route{"revokeKey", Verb::post, "/admin/v1/keys/{id}:revoke", "Revoke a key for good",
          Permission::kChangeOwnKeys, kNone, kRevocation, Shows<ShownKey>, kOk, Lane::kLoop, nullptr,
          RevokeKey},
    Route{"showRoute", Verb::get, "/admin/v1/routes/{request}",
          "The choices of replicas for a request, or for the last one, as the routing log has them",
          Permission::kSeeReplicas, kNone, kNone, Shows<answers::LoggedRoute>, kOk, Lane::kReads, ShowRoute},
    Route{"usage", Verb::get, "/admin/v1/usage", "Requests, tokens, cost and device-seconds",
          Permission::kSeeUsage, kUsage, kNone, Shows<answers::UsageList>, kOk, Lane::kReads, Usage},
    Route{"feedback", Verb::get, "/admin/v1/feedback",
          "What applications say about answers: counts, rates and means by model and version",
          Permission::kSeeUsage, kOfFeedback, kNone, Shows<answers::FeedbackList>, kOk, Lane::kReads,
          Feedback},
    Route{"exportDataset", Verb::post, "/admin/v1/datasets:export",
          "A part of a data set: requests and answers whose content was kept, redacted; writes a record",
          Permission::kReadContent, kNone, kOfDataset, Shows<answers::DatasetPage>, kOk, Lane::kLoop, nullptr,
          ExportDataset},
    Route{"listEvaluations", Verb::get, "/admin/v1/evaluations",
          "Batches that compare models with a data set, the newest first", Permission::kReadContent, kPage,
          kNone, Shows<answers::ListOf<answers::Evaluation>>, kOk, Lane::kLoop, ListEvaluations},
    Route{"showEvaluation", Verb::get, "/admin/v1/evaluations/{id}",
          "The answers of an evaluation side by side; writes a record", Permission::kReadContent, kPage,
          kNone, Shows<answers::EvaluationPage>, kOk, Lane::kLoop, nullptr, ShowEvaluation,
          "evaluation.read"},
    Route{"showStatement", Verb::get, "/admin/v1/statements/{month}",
          "The statement of a tenant for a month such as 2027-01; the same ledger gives the same bytes",
          Permission::kSeeStatements, kStatement, kNone, Shows<answers::Statement>, kOk, Lane::kReads,
          ShowStatement},
    Route{"audit", Verb::get, "/admin/v1/audit",
          "Records of the ledger; prompts and answers need the role admin", Permission::kReadAudit, kAudit,
          kNone, Shows<answers::RecordList>, kOk, Lane::kLoop, nullptr, Audit, "audit.read"},
    Route{"proveRecord", Verb::get, "/admin/v1/audit/records/{record}/proof",
          "A record with the lines up to the next signed checkpoint, for verification outside of the gateway",
          Permission::kReadAudit, kNone, kNone, Shows<answers::Proof>, kOk, Lane::kReads, ProveRecord,
          nullptr, "audit.prove"},
    Route{"showVerification", Verb::get, "/admin/v1/audit/verification",
          "The progress or the result of the last verification of the ledger", Permission::kReadAudit, kNone,
          kNone, Shows<answers::Verification>, kOk, Lane::kLoop, ShowVerification},
    Route{"verifyLedger", Verb::post, "/admin/v1/audit:verify",
          "Verify the ledger in the background, unless a verification runs already", Permission::kReadAudit,
          kNone, kNone, Shows<answers::Verification>, kOk, Lane::kLoop, VerifyLedger},
    Route{"eraseContent", Verb::post, "/admin/v1/content:erase",
          "Destroy the keys of a tenant's stored prompts and answers, and of the tenants below it",
          Permission::kEraseContent, kNone, kErasure, Shows<ErasedContent>, kOk, Lane::kLoop, nullptr,
          EraseStored},
    Route{"submitJob", Verb::post, "/admin/v1/jobs", "Submit a job file; each element of an array is a job",
          Permission::kSubmitJobs, kNone, kNewJob, Shows<answers::JobSubmission>, kCreated, Lane::kLoop,
          nullptr, SubmitJob},
    Route{"listJobs", Verb::get, "/admin/v1/jobs", "The jobs, in the order of submission",
          Permission::kSeeJobs, kOfJobs, kNone, Shows<answers::ListOf<answers::Job>>, kOk, Lane::kLoop,
          ListJobs},
    Route{"compareJobs", Verb::get, "/admin/v1/jobs:compare",
          "Jobs, or the elements of a sweep, side by side: parameters, last reports, device-hours",
          Permission::kSeeJobs, kCompared, kNone, Shows<answers::JobComparison>, kOk, Lane::kLoop,
          CompareJobs},
    Route{"showJob", Verb::get, "/admin/v1/jobs/{id}", "One job, its members and, for operators, its file",
          Permission::kSeeJobs, kNone, kNone, Shows<answers::JobDetail>, kOk, Lane::kLoop, ShowOneJob},
    Route{"explainJob", Verb::get, "/admin/v1/jobs/{id}/explain",
          "The state of a job and why it waits, in sentences", Permission::kSeeJobs, kNone, kNone,
          Shows<answers::JobExplanation>, kOk, Lane::kLoop, ExplainJob},
    Route{"readJobLog", Verb::get, "/admin/v1/jobs/{id}/logs",
          "The output of a member: its end, or from a given byte on", Permission::kReadOutput, kOfLog, kNone,
          Shows<answers::JobLog>, kOk, Lane::kLoop, nullptr, ReadJobLog, "job.read_log"},
    Route{"cancelJob", Verb::post, "/admin/v1/jobs/{id}:cancel",
          "End a job, or all elements of an array, for good", Permission::kChangeJobs, kNone, kNone,
          Shows<answers::JobDetail>, kOk, Lane::kLoop, nullptr, CancelJob},
    Route{"suspendJob", Verb::post, "/admin/v1/jobs/{id}:suspend",
          "Suspend a job: it saves its work and releases its devices until it is resumed",
          Permission::kChangeJobs, kNone, kNone, Shows<answers::JobDetail>, kOk, Lane::kLoop, nullptr,
          SuspendJob},
    Route{"rerunJob", Verb::post, "/admin/v1/jobs/{id}:rerun",
          "Submit the file of a job, or of an array, again, as a new job", Permission::kSubmitJobs, kNone,
          kNone, Shows<answers::JobSubmission>, kCreated, Lane::kLoop, nullptr, RerunJob},
    Route{"resumeJob", Verb::post, "/admin/v1/jobs/{id}:resume", "Let a suspended job start again",
          Permission::kChangeJobs, kNone, kNone, Shows<answers::JobDetail>, kOk, Lane::kLoop, nullptr,
          ResumeJob},
    Route{"listNodes", Verb::get, "/admin/v1/nodes", "The nodes, their devices and what holds them",
          Permission::kSeeCluster, kPage, kNone, Shows<answers::ListOf<answers::Node>>, kOk, Lane::kLoop,
          ListNodes},
    Route{"cordonNode", Verb::post, "/admin/v1/nodes/{name}:cordon",
          "Give a node, or one of its devices, no new work; running work continues", Permission::kMaintain,
          kNone, kOfCordon, Shows<answers::Node>, kOk, Lane::kLoop, nullptr, CordonNode},
    Route{"uncordonNode", Verb::post, "/admin/v1/nodes/{name}:uncordon",
          "Give a cordoned node, or device, new work again", Permission::kMaintain, kNone, kOfUncordon,
          Shows<answers::Node>, kOk, Lane::kLoop, nullptr, UncordonNode},
    Route{
        "drainNode", Verb::post, "/admin/v1/nodes/{name}:drain",
        "Empty a node: it gets no new work, replicas are replaced elsewhere, preemptible jobs save and move",
        Permission::kMaintain, kNone, kOfOrder, Shows<answers::Node>, kOk, Lane::kLoop, nullptr, DrainNode},
    Route{"undrainNode", Verb::post, "/admin/v1/nodes/{name}:undrain", "Give a drained node new work again",
          Permission::kMaintain, kNone, kOfOrder, Shows<answers::Node>, kOk, Lane::kLoop, nullptr,
          UndrainNode},
    Route{"listJobQueues", Verb::get, "/admin/v1/queues",
          "The queues that share the devices: what each deserves, uses and waits for",
          Permission::kSeeCluster, kPage, kNone, Shows<answers::ListOf<answers::JobQueue>>, kOk, Lane::kLoop,
          ListJobQueues},
    Route{"listResources", Verb::get, "/admin/v1/resources",
          "The countable resources of the cluster, such as licences, and what holds them",
          Permission::kSeeCluster, kPage, kNone, Shows<answers::ListOf<answers::Resource>>, kOk, Lane::kLoop,
          ListResources},
    Route{"startSimulation", Verb::post, "/admin/v1/simulations",
          "Ask a what-if question of the scheduler, from its present state", Permission::kSimulate, kNone,
          kWhatIf, Shows<answers::Simulation>, kAccepted, Lane::kLoop, StartSimulation},
    Route{"listSimulations", Verb::get, "/admin/v1/simulations",
          "The caller's what-if questions since the start, the newest first; for operators, all",
          Permission::kSimulate, kPage, kNone, Shows<answers::ListOf<answers::Simulation>>, kOk, Lane::kLoop,
          ListSimulations},
    Route{"showSimulation", Verb::get, "/admin/v1/simulations/{id}",
          "A what-if question: its progress, and the answer beside today", Permission::kSimulate, kNone,
          kNone, Shows<answers::Simulation>, kOk, Lane::kLoop, ShowSimulation},
    Route{"cancelSimulation", Verb::post, "/admin/v1/simulations/{id}:cancel",
          "End a what-if question, or drop its answer", Permission::kSimulate, kNone, kNone,
          Shows<answers::Simulation>, kOk, Lane::kLoop, CancelSimulation},
    Route{"showConfig", Verb::get, "/admin/v1/config",
          "The applied configuration, with secrets as references", Permission::kSeeConfig, kNone, kNone,
          Shows<answers::Config>, kOk, Lane::kLoop, ShowConfig},
    Route{"reloadConfig", Verb::post, "/admin/v1/config:reload",
          "Read the configuration file again; if it is not valid, the running one stays",
          Permission::kChangeConfig, kNone, kNone, Shows<answers::AppliedConfig>, kOk, Lane::kLoop, nullptr,
          ReloadConfig},
};

// What only the gateway that leads knows or may change.
constexpr std::string_view kAtLeader[] = {
    "showOverview", "listReplicas", "listScaling", "showScalingHistory", "submitJob", "listJobs", "showJob",
    "explainJob", "compareJobs", "readJobLog", "cancelJob", "suspendJob", "resumeJob", "rerunJob",
    "listNodes", "cordonNode", "uncordonNode", "drainNode", "undrainNode", "listJobQueues", "listResources",
    "startSimulation", "listSimulations", "showSimulation", "cancelSimulation", "listAdapters", "loadAdapter",
    "unloadAdapter", "listRollouts", "promoteRollout", "abortRollout", "restartRollout",
    // Devices, open jobs and wanted replicas decide whether these may be.
    "holdModel", "removeTenant", "giveGrant", "changeGrant", "askForGrant", "approveRequest"};

// What each {…} of the pattern stands for in `path`, percent-decoded; nothing when the pattern does not match.
std::optional<std::vector<std::string>> ItemsOf(std::string_view pattern, std::string_view path) {
  std::vector<std::string> items;
  while (true) {
    const size_t open = pattern.find('{');
    if (path.substr(0, open) != pattern.substr(0, open)) return std::nullopt;
    if (open == std::string_view::npos) return items;
    path.remove_prefix(open);
    pattern.remove_prefix(pattern.find('}') + 1);
    const size_t end = std::min(path.find_first_of("/:"), path.size());
    const std::optional<std::string> item = router::PercentDecode(path.substr(0, end));
    if (end == 0 || !item) return std::nullopt;
    items.push_back(*item);
    path.remove_prefix(end);
  }
}

std::string_view MethodsOf(Verb method) {
  return method == Verb::get ? "GET, HEAD" : method == Verb::post ? "POST" : "DELETE";
}

}  // namespace

std::span<const Route> Routes() {
  return kRoutes;
}

std::optional<Permission> PermissionFor(const Route& route, const Config& config) {
  if (route.run == MetricsText && config.admin.protect_metrics) return Permission::kSeeMetrics;
  return route.permission;
}

bool IsAnsweredByLeader(const Route& route) {
  return std::ranges::find(kAtLeader, route.name) != std::end(kAtLeader);
}

Match FindRoute(Verb method, std::string_view path) {
  if (method == Verb::head) method = Verb::get;
  Match match;
  for (const Route& route : kRoutes) {
    std::optional<std::vector<std::string>> items = ItemsOf(route.path, path);
    if (!items) continue;
    if (route.method == method) return {&route, *std::move(items), {}};
    match.allow += match.allow.empty() ? "" : ", ";
    match.allow += MethodsOf(route.method);
  }
  return match;
}

}  // namespace gateway::admin
