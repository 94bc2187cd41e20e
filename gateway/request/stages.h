// The stages of the pipeline in the order of pipeline.cc, and the functions that several of them share. Each
// stage has a file of its name.
#pragma once

#include <string_view>
#include <vector>

#include "gateway/ledger/record.h"
#include "gateway/net/task.h"
#include "gateway/request/exchange.h"

namespace gateway::stages {

StageResult Route(Exchange& x);
StageResult Authenticate(Exchange& x);
StageResult AsksForModels(Exchange& x);
net::Task<StageResult> AnswerModels(Exchange& x);
StageResult AsksForFiles(Exchange& x);
net::Task<StageResult> AnswerFiles(Exchange& x);
StageResult BringsFeedback(Exchange& x);
net::Task<StageResult> AnswerFeedback(Exchange& x);
StageResult CheckBody(Exchange& x);
StageResult ClaimPlace(Exchange& x);
StageResult ClaimMemory(Exchange& x);
StageResult TakeBody(Exchange& x);
net::Task<StageResult> ReadBody(Exchange& x);
StageResult ReadFacts(Exchange& x);
StageResult CheckContent(Exchange& x);
StageResult Reserve(Exchange& x);
StageResult OpenRecordAtOnce(Exchange& x);
net::Task<StageResult> OpenRecord(Exchange& x);
StageResult AdmitAtOnce(Exchange& x);
net::Task<StageResult> Admit(Exchange& x);  // after AdmitAtOnce
net::Task<StageResult> Serve(Exchange& x);

// The endings.
void Settle(Exchange& x);
void Close(Exchange& x);
void Signal(Exchange& x);

// Fails the request with the refusal of a limit.
StageResult RefuseByLimit(Exchange& x, const router::limits::Refusal& refusal);
// Fails a request whose body has no room in the memory budgets.
StageResult RefuseForRoom(Exchange& x);
// Names of the models that this caller may use, for errors.
std::vector<std::string_view> AllowedModels(const Exchange& x);
// What the ledger's open record says of the request.
ledger::OpenRecord OpenRecordOf(const Exchange& x);

}  // namespace gateway::stages
