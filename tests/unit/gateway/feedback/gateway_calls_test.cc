// Two gateways of one store: a call for feedback reaches the one that served the request.
#include "gateway/feedback/gateway_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/unit/gateway/feedback/feedback_fixture.h"

namespace gateway::feedback {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using tests::Eventually;
using tests::MemoryStore;
using tests::RunOnLoop;
using tests::TestLoop;

constexpr conf::Duration kShortPatience = std::chrono::milliseconds(200);

PrincipalRef CallerOf(std::string tenant = "acme", std::string key = "k1") {
  const auto principal = std::make_shared<Principal>();
  principal->tenant = std::move(tenant);
  principal->key = std::move(key);
  return principal;
}

// The id of a request that the gateway with that id has served.
std::string IdAt(std::string_view gateway, uint64_t low = 7) {
  std::array<char, ledger::kRequestIdSize> text{};
  ledger::WriteRequestId(net::Now(), ledger::TagOfGateway(gateway), low, text);
  return {text.data(), text.size()};
}

// Another id with the same tag.
std::string TwinOf(std::string_view gateway) {
  std::string twin;
  for (int i = 0; twin.empty() || ledger::TagOfGateway(twin) != ledger::TagOfGateway(gateway); ++i)
    twin = fmt::format("twin-{}", i);
  return twin;
}

Call Given(std::string request, PrincipalRef caller = CallerOf(), std::string comment = "too long",
           std::string correction = "Short.") {
  return {.principal = std::move(caller),
          .given = GivenFeedback{.request = std::move(request),
                                 .name = "helpful",
                                 .value = false,
                                 .comment = std::move(comment),
                                 .correction = std::move(correction)}};
}

Reply Missing() {
  return {.error = api::Make(api::Code::kNotFound, "there is no such request", "request_id")};
}

// A gateway of the test, which has no ledger, unless `serve` has one.
struct Peer {
  Peer(TestLoop& loop, store::Store& store, std::string name, conf::Duration patience = kShortPatience,
       conf::Duration forget = GatewayCalls::kForget)
      : id("id-of-" + name),
        calls(loop, store, key,
              GatewayCalls::Options{
                  .name = name + "#1",
                  .others = [this] { return others; },
                  .earlier = [this]() -> net::Task<std::vector<OtherGateway>> { co_return earlier; },
                  .serve = [this](Call call, Service::Done done) { serve(std::move(call), done); },
                  .patience = patience,
                  .forget = forget}),
        name(std::move(name)) {}

  OtherGateway AsOther(bool live = true) const {
    return {.name = name, .id = id, .public_key = key.public_half(), .live = live};
  }

  const std::string id;
  const BoxKey key;
  std::vector<OtherGateway> others;
  std::vector<OtherGateway> earlier;
  std::function<void(Call, Service::Done)> serve = [](const Call&, const Service::Done& done) {
    done(Missing());
  };
  GatewayCalls calls;
  const std::string name;
};

// Answers with the tenant, the key and what was given.
void Echo(const Call& call, const Service::Done& done) {
  nlohmann::json seen = {
      {"tenant", call.principal->tenant}, {"key", call.principal->key}, {"passed", call.passed}};
  if (call.given) {
    seen["name"] = call.given->name;
    std::visit([&seen](const auto& value) { seen["value"] = value; }, call.given->value);
    seen["comment"] = call.given->comment;
    seen["correction"] = call.given->correction;
  } else {
    seen["request"] = call.request;
  }
  done({.json = seen.dump()});
}

std::string AllBodies(const MemoryStore& store) {
  std::string all;
  for (const auto& [kind, change] : store.changes) all += change.body.value_or("");
  return all;
}

TEST(BoxKey, OnlyTheKeyThatATextWasSealedToOpensIt) {
  const BoxKey one;
  const BoxKey other;
  const std::optional<std::string> sealed = SealTo(one.public_half(), "secret");
  ASSERT_TRUE(sealed);
  EXPECT_THAT(*sealed, Not(HasSubstr("secret")));
  EXPECT_EQ(one.Open(*sealed), "secret");
  EXPECT_EQ(other.Open(*sealed), std::nullopt);
  std::string changed = *sealed;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  EXPECT_EQ(one.Open(changed), std::nullopt);
  EXPECT_EQ(one.Open("short"), std::nullopt);
  EXPECT_EQ(SealTo("no key", "secret"), std::nullopt);
  EXPECT_EQ(SealTo("", "secret"), std::nullopt);
  EXPECT_EQ(one.Open(*SealTo(one.public_half(), "")), "");
}

TEST(PassedCall, HasTheCallersNamesAndEveryKindOfValue) {
  const BoxKey served;
  for (const ledger::FeedbackValue& value :
       {ledger::FeedbackValue(true), ledger::FeedbackValue(0.25), ledger::FeedbackValue(5.0),
        ledger::FeedbackValue(std::string("rude"))}) {
    Call call = Given("req_1");
    call.given->value = value;
    const std::optional<std::string> body = BodyOfCall(call, served.public_half(), "me");
    ASSERT_TRUE(body);
    const absl::StatusOr<PassedBody> passed = ReadPassedBody(*body);
    ASSERT_TRUE(passed.ok()) << passed.status();
    EXPECT_FALSE(passed->answer);
    EXPECT_EQ(passed->to, served.public_half());
    const absl::StatusOr<PassedCall> opened = OpenCall(served, passed->sealed);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->reply_to, "me");
    EXPECT_EQ(opened->call.principal->tenant, "acme");
    EXPECT_EQ(opened->call.principal->key, "k1");
    EXPECT_TRUE(opened->call.passed);
    EXPECT_EQ(opened->call.given->value, value);
    EXPECT_EQ(opened->call.given->comment, "too long");
  }
  EXPECT_TRUE(absl::IsDataLoss(ReadPassedBody("[]").status()));
  EXPECT_TRUE(absl::IsDataLoss(OpenCall(served, "nothing").status()));
}

TEST(GatewayCalls, TheGatewayThatServedTheRequestAnswersAndNobodyElseCanRead) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a");
    Peer& served = loop.Make<Peer>(store, "b");
    Peer& third = loop.Make<Peer>(store, "c");
    asked.others = {served.AsOther(), third.AsOther()};
    served.serve = Echo;
    third.serve = [](const Call&, const Service::Done&) { ADD_FAILURE() << "it has not served the request"; };
    for (Peer* peer : {&asked, &served, &third}) EXPECT_TRUE((co_await peer->calls.Start()).ok());

    const std::string id = IdAt(served.id);
    const Reply given = co_await asked.calls.Pass(Given(id), Missing());
    EXPECT_FALSE(given.error);
    const auto seen = nlohmann::json::parse(given.json);
    EXPECT_EQ(seen["tenant"], "acme");
    EXPECT_EQ(seen["key"], "k1");
    EXPECT_EQ(seen["value"], false);
    EXPECT_EQ(seen["comment"], "too long");
    EXPECT_EQ(seen["correction"], "Short.");
    const Reply read = co_await asked.calls.Pass({.principal = CallerOf(), .request = id}, Missing());
    EXPECT_EQ(nlohmann::json::parse(read.json)["request"], id);

    EXPECT_THAT(AllBodies(store), Not(HasSubstr("too long")));
    EXPECT_THAT(AllBodies(store), Not(HasSubstr("Short.")));
    EXPECT_THAT(AllBodies(store), Not(HasSubstr("acme")));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.Count(store::kFeedbackCall) == 0; }));
    for (Peer* peer : {&asked, &served, &third}) peer->calls.Stop();
  });
}

TEST(GatewayCalls, ARefusalOfTheServingGatewayIsTheCallersAnswer) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a");
    Peer& served = loop.Make<Peer>(store, "b");
    asked.others = {served.AsOther()};
    served.serve = [](const Call&, const Service::Done& done) {
      done({.error = api::Make(api::Code::kInvalidValue, "name must be another one", "name")});
    };
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    EXPECT_TRUE((co_await served.calls.Start()).ok());
    const Reply reply = co_await asked.calls.Pass(Given(IdAt(served.id)), Missing());
    EXPECT_TRUE(reply.error);
    EXPECT_EQ(reply.error->status, 400);
    EXPECT_EQ(reply.error->message, "name must be another one");
    EXPECT_EQ(reply.error->param, "name");
    asked.calls.Stop();
    served.calls.Stop();
  });
}

TEST(GatewayCalls, WhereNoGatewayHasTheRequestTheFirstRefusalStays) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a");
    Peer& other = loop.Make<Peer>(store, "b");
    OtherGateway old = other.AsOther();
    old.name = old.id = "old";
    old.public_key.clear();
    asked.others = {other.AsOther(), old};
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    EXPECT_TRUE((co_await other.calls.Start()).ok());
    // Of nobody; of a gateway that does not have it; of one of an earlier version; of no form.
    for (const std::string& id : {IdAt("nobody"), IdAt(other.id), IdAt("old"), std::string("req_1")}) {
      const Reply reply = co_await asked.calls.Pass(Given(id), Missing());
      EXPECT_TRUE(reply.error) << id;
      EXPECT_EQ(reply.error->message, "there is no such request") << id;
    }
    asked.calls.Stop();
    other.calls.Stop();
  });
}

TEST(GatewayCalls, OfTwoGatewaysWithOneTagBothAreAsked) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a");
    Peer& first = loop.Make<Peer>(store, "b");
    Peer& second = loop.Make<Peer>(store, "c");
    OtherGateway twin = second.AsOther();
    twin.id = TwinOf(first.id);
    asked.others = {first.AsOther(), twin};
    second.serve = Echo;
    for (Peer* peer : {&asked, &first, &second}) EXPECT_TRUE((co_await peer->calls.Start()).ok());
    EXPECT_FALSE((co_await asked.calls.Pass(Given(IdAt(first.id)), Missing())).error);
    // The one that does not answer may be the one that has it.
    twin.live = false;
    asked.others = {twin, first.AsOther()};
    EXPECT_EQ((co_await asked.calls.Pass(Given(IdAt(first.id)), Missing())).error->status, 503);
    for (Peer* peer : {&asked, &first, &second}) peer->calls.Stop();
  });
}

TEST(GatewayCalls, AGatewayThatCameBackUnderAnotherNameIsAskedByThatOneAlone) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a");
    Peer& served = loop.Make<Peer>(store, "b");
    OtherGateway former = served.AsOther(false);
    former.name = "former";
    asked.others = {former, served.AsOther()};
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    EXPECT_TRUE((co_await served.calls.Start()).ok());
    EXPECT_EQ((co_await asked.calls.Pass(Given(IdAt(served.id)), Missing())).error->status, 404);
    asked.calls.Stop();
    served.calls.Stop();
  });
}

TEST(GatewayCalls, AGatewayThatIsAwayIsNamedAndTheCallerMayTryAgain) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a");
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    asked.others = {{.name = "gone:1", .id = "x", .public_key = "k", .live = false}};
    asked.earlier = {{.name = "stopped:1", .id = "y"}};
    for (const auto& [id, name] : {std::pair("x", "gone:1"), std::pair("y", "stopped:1")}) {
      const Reply reply = co_await asked.calls.Pass(Given(IdAt(id)), Missing());
      EXPECT_TRUE(reply.error) << id;
      EXPECT_EQ(reply.error->status, 503);
      EXPECT_EQ(reply.error->code, "store_unavailable");
      EXPECT_THAT(reply.error->message, HasSubstr(name));
    }
    EXPECT_EQ(store.commits, 0u) << "nobody is asked";
    asked.calls.Stop();
  });
}

TEST(GatewayCalls, AnAnswerThatComesTooLateIsGivenUpAndRemoved) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a", kShortPatience, std::chrono::milliseconds(300));
    Peer& served = loop.Make<Peer>(store, "b", kShortPatience, std::chrono::milliseconds(300));
    asked.others = {served.AsOther()};
    Service::Done late;
    served.serve = [&late](const Call&, const Service::Done& done) { late = done; };
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    EXPECT_TRUE((co_await served.calls.Start()).ok());
    const Reply reply = co_await asked.calls.Pass(Given(IdAt(served.id)), Missing());
    EXPECT_TRUE(reply.error);
    EXPECT_EQ(reply.error->status, 503);
    EXPECT_THAT(reply.error->message, HasSubstr("try again"));
    EXPECT_TRUE(late);
    if (late) late({.json = "{}"});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.Count(store::kFeedbackCall) == 0; }));
    asked.calls.Stop();
    served.calls.Stop();
  });
}

TEST(GatewayCalls, WhatAGatewayLeftThatHasEndedIsRemoved) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    std::vector<store::Write> writes;
    writes.push_back(store::Write::Create(store::kFeedbackCall, "ended#1/1", "{}"));
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    Peer& one = loop.Make<Peer>(store, "a", kShortPatience, std::chrono::milliseconds(50));
    EXPECT_TRUE((co_await one.calls.Start()).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.Count(store::kFeedbackCall) == 0; }));
    // Also while it runs.
    std::vector<store::Write> more;
    more.push_back(store::Write::Create(store::kFeedbackCall, "ended#1/2", "{}"));
    EXPECT_TRUE((co_await store.Commit(std::move(more))).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.Count(store::kFeedbackCall) == 0; }));
    one.calls.Stop();
  });
}

net::Task<void> PassInto(GatewayCalls& calls, Call call, std::vector<std::string>& codes) {
  const Reply reply = co_await calls.Pass(std::move(call), Missing());
  codes.push_back(reply.error ? reply.error->code : "ok");
}

TEST(GatewayCalls, CallsUnderWayAreBoundedAndAStopAnswersAll) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a", std::chrono::seconds(60));
    asked.others = {Peer(loop, store, "b").AsOther()};  // it never answers
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    const std::string id = IdAt("id-of-b");
    std::vector<std::string> codes;
    for (size_t i = 0; i < GatewayCalls::kMostOfTenant + 3; ++i)
      loop.tasks.Spawn(PassInto(asked.calls, Given(id), codes));
    EXPECT_EQ(codes, std::vector<std::string>(3, "concurrency_limit"));
    codes.clear();
    for (size_t i = 0; i < GatewayCalls::kMostCalls; ++i)
      loop.tasks.Spawn(PassInto(asked.calls, Given(id, CallerOf(fmt::format("t{}", i))), codes));
    EXPECT_EQ(codes, std::vector<std::string>(GatewayCalls::kMostOfTenant, "overloaded"));
    EXPECT_EQ(store.Count(store::kFeedbackCall), GatewayCalls::kMostCalls);
    codes.clear();
    asked.calls.GiveUp();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return codes.size() == GatewayCalls::kMostCalls; }));
    EXPECT_EQ(codes, std::vector<std::string>(GatewayCalls::kMostCalls, "draining"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.Count(store::kFeedbackCall) == 0; }));
    EXPECT_EQ((co_await asked.calls.Pass(Given(id), Missing())).error->code, "draining");
    asked.calls.Stop();
  });
}

TEST(GatewayCalls, AStoreThatDoesNotAnswerIsToldToTheCaller) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a");
    Peer& served = loop.Make<Peer>(store, "b");
    asked.others = {served.AsOther()};
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    store.refuses = absl::UnavailableError("gone");
    const Reply reply = co_await asked.calls.Pass(Given(IdAt(served.id)), Missing());
    EXPECT_EQ(reply.error->status, 503);
    asked.calls.Stop();
  });
}

// With a ledger at the serving gateway, through both services.
TEST(GatewayCalls, FeedbackIsOnDiskAtTheServingGatewayWhenItIsAcknowledged) {
  FeedbackWorld here;
  FeedbackWorld there;
  Service at_here(here.dir, *here.ledger, here.keys.get());
  Service at_there(there.dir, *there.ledger, there.keys.get());
  // The request ids of the fixture have no tag: this one has.
  const std::string id = IdAt("id-of-b");
  const auto tell = [&](std::string tenant) {
    ledger::Ticket ticket = there.Begin(id, tenant);
    ticket.Close(there.CloseOf());
    EXPECT_TRUE(there.ledger->Flush().ok());
  };
  tell("acme");
  RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Peer& asked = loop.Make<Peer>(store, "a", std::chrono::seconds(20));
    Peer& served = loop.Make<Peer>(store, "b", std::chrono::seconds(20));
    asked.others = {served.AsOther()};
    served.others = {asked.AsOther()};
    served.serve = [&](Call call, Service::Done done) { at_there.Take(std::move(call), std::move(done)); };
    at_here.SetElsewhere(ledger::TagOfGateway("id-of-a"), [&](Call call, Reply refused, Service::Done done) {
      loop.Post(
          [&asked, &loop, call = std::move(call), refused = std::move(refused), done = std::move(done)] {
            const auto pass = [](GatewayCalls& calls, Call of, Reply otherwise,
                                 Service::Done then) -> net::Task<void> {
              then(co_await calls.Pass(std::move(of), std::move(otherwise)));
            };
            loop.tasks.Spawn(pass(asked.calls, call, refused, done));
          });
    });
    EXPECT_TRUE((co_await asked.calls.Start()).ok());
    EXPECT_TRUE((co_await served.calls.Start()).ok());
    const auto take = [&](Call call, Reply& into) -> net::Task<void> {
      net::Event done;
      at_here.Take(std::move(call), [&](Reply reply) {
        loop.Post([&, reply = std::move(reply)] {
          into = reply;
          done.Set();
        });
      });
      co_await done.Wait();
    };
    Reply given;
    co_await take(Given(id), given);
    EXPECT_FALSE(given.error) << given.error->message;
    EXPECT_EQ(nlohmann::json::parse(given.json)["version"], "org/chat-7b");
    EXPECT_EQ(ledger::OfKind(there.dir, ledger::Kind::kFeedback).size(), 1u);
    EXPECT_EQ(ledger::OfKind(here.dir, ledger::Kind::kFeedback).size(), 0u);
    Reply read;
    co_await take({.principal = CallerOf(), .request = id}, read);
    EXPECT_FALSE(read.error);
    EXPECT_EQ(nlohmann::json::parse(read.json)["data"][0]["comment"], "too long");
    Reply other;
    co_await take(Given(id, CallerOf("other")), other);
    EXPECT_TRUE(other.error);
    EXPECT_EQ(other.error->status, 404);
    Reply key;
    co_await take({.principal = CallerOf("acme", "k2"), .request = id}, key);
    EXPECT_EQ(nlohmann::json::parse(key.json)["data"].size(), 0u);
    asked.calls.Stop();
    served.calls.Stop();
  });
}

}  // namespace
}  // namespace gateway::feedback
