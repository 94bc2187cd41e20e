// The handlers of the admin API, one for each call. The table of routes says on which thread each runs.
#pragma once

#include "gateway/admin/route.h"

namespace gateway::admin {

Answer Livez(const Operations& operations, const Call& call);
Answer Readyz(const Operations& operations, const Call& call);
Answer MetricsText(const Operations& operations, const Call& call);
Answer OpenApi(const Operations& operations, const Call& call);

Answer ShowOverview(const Operations& operations, const Call& call);
Answer FollowEvents(const Operations& operations, const Call& call);

Answer ShowMe(const Operations& operations, const Call& call);
Answer ListSignInWays(const Operations& operations, const Call& call);
net::Task<Answer> MakeSignInLink(const Operations& operations, const Call& call);
net::Task<Answer> RedeemSignInLink(const Operations& operations, const Call& call);
net::Task<Answer> BeginSignIn(const Operations& operations, const Call& call);
net::Task<Answer> FinishSignIn(const Operations& operations, const Call& call);
net::Task<Answer> RedeemLinkForTerminal(const Operations& operations, const Call& call);
net::Task<Answer> BeginTerminalSignIn(const Operations& operations, const Call& call);
net::Task<Answer> ShowTerminalSignIn(const Operations& operations, const Call& call);
net::Task<Answer> ConfirmTerminalSignIn(const Operations& operations, const Call& call);
net::Task<Answer> RefuseTerminalSignIn(const Operations& operations, const Call& call);
net::Task<Answer> RedeemTerminalSignIn(const Operations& operations, const Call& call);
Answer ListSessions(const Operations& operations, const Call& call);
net::Task<Answer> EndOwnSession(const Operations& operations, const Call& call);
net::Task<Answer> EndSession(const Operations& operations, const Call& call);

Answer ListTenants(const Operations& operations, const Call& call);
net::Task<Answer> CreateTenant(const Operations& operations, const Call& call);
net::Task<Answer> ChangeTenant(const Operations& operations, const Call& call);
net::Task<Answer> DisableTenant(const Operations& operations, const Call& call);
net::Task<Answer> EnableTenant(const Operations& operations, const Call& call);
net::Task<Answer> RemoveTenant(const Operations& operations, const Call& call);
Answer ListMembers(const Operations& operations, const Call& call);
net::Task<Answer> SetMember(const Operations& operations, const Call& call);
net::Task<Answer> RemoveMember(const Operations& operations, const Call& call);
Answer ListGrants(const Operations& operations, const Call& call);
net::Task<Answer> GiveGrant(const Operations& operations, const Call& call);
Answer ShowRoute(const Operations& operations, const Call& call);
net::Task<Answer> ChangeGrant(const Operations& operations, const Call& call);
net::Task<Answer> EndGrant(const Operations& operations, const Call& call);
Answer ListRequests(const Operations& operations, const Call& call);
net::Task<Answer> AskForGrant(const Operations& operations, const Call& call);
net::Task<Answer> ApproveRequest(const Operations& operations, const Call& call);
net::Task<Answer> CommentOnRequest(const Operations& operations, const Call& call);
net::Task<Answer> DeclineRequest(const Operations& operations, const Call& call);
net::Task<Answer> WithdrawRequest(const Operations& operations, const Call& call);

Answer ListModels(const Operations& operations, const Call& call);
Answer ListRollouts(const Operations& operations, const Call& call);
net::Task<Answer> PromoteRollout(const Operations& operations, const Call& call);
net::Task<Answer> AbortRollout(const Operations& operations, const Call& call);
net::Task<Answer> RestartRollout(const Operations& operations, const Call& call);
Answer ListAdapters(const Operations& operations, const Call& call);
net::Task<Answer> LoadAdapter(const Operations& operations, const Call& call);
net::Task<Answer> UnloadAdapter(const Operations& operations, const Call& call);
net::Task<Answer> PauseModel(const Operations& operations, const Call& call);
net::Task<Answer> ResumeModel(const Operations& operations, const Call& call);
net::Task<Answer> HoldModel(const Operations& operations, const Call& call);
net::Task<Answer> ReleaseModel(const Operations& operations, const Call& call);
Answer ListEndpoints(const Operations& operations, const Call& call);
Answer ListQueues(const Operations& operations, const Call& call);
Answer ListTraffic(const Operations& operations, const Call& call);
Answer ListGateways(const Operations& operations, const Call& call);
Answer ListReplicas(const Operations& operations, const Call& call);
Answer ListScaling(const Operations& operations, const Call& call);
Answer ShowScalingHistory(const Operations& operations, const Call& call);
Answer ListLimits(const Operations& operations, const Call& call);

net::Task<Answer> AskModel(const Operations& operations, const Call& call);

Answer ListKeys(const Operations& operations, const Call& call);
Answer ShowOneKey(const Operations& operations, const Call& call);
net::Task<Answer> CreateKey(const Operations& operations, const Call& call);
net::Task<Answer> RotateKey(const Operations& operations, const Call& call);
net::Task<Answer> RevokeKey(const Operations& operations, const Call& call);

Answer Usage(const Operations& operations, const Call& call);
Answer Feedback(const Operations& operations, const Call& call);
net::Task<Answer> ExportDataset(const Operations& operations, const Call& call);
Answer ListEvaluations(const Operations& operations, const Call& call);
net::Task<Answer> ShowEvaluation(const Operations& operations, const Call& call);
Answer ShowStatement(const Operations& operations, const Call& call);
net::Task<Answer> Audit(const Operations& operations, const Call& call);
Answer ProveRecord(const Operations& operations, const Call& call);
Answer ShowVerification(const Operations& operations, const Call& call);
Answer VerifyLedger(const Operations& operations, const Call& call);
net::Task<Answer> EraseStored(const Operations& operations, const Call& call);

net::Task<Answer> SubmitJob(const Operations& operations, const Call& call);
net::Task<Answer> RerunJob(const Operations& operations, const Call& call);
Answer ListJobs(const Operations& operations, const Call& call);
Answer CompareJobs(const Operations& operations, const Call& call);
Answer ShowOneJob(const Operations& operations, const Call& call);
Answer ExplainJob(const Operations& operations, const Call& call);
net::Task<Answer> ReadJobLog(const Operations& operations, const Call& call);
net::Task<Answer> CancelJob(const Operations& operations, const Call& call);
net::Task<Answer> SuspendJob(const Operations& operations, const Call& call);
net::Task<Answer> ResumeJob(const Operations& operations, const Call& call);
Answer ListNodes(const Operations& operations, const Call& call);
net::Task<Answer> CordonNode(const Operations& operations, const Call& call);
net::Task<Answer> DrainNode(const Operations& operations, const Call& call);
net::Task<Answer> UndrainNode(const Operations& operations, const Call& call);
net::Task<Answer> UncordonNode(const Operations& operations, const Call& call);
Answer ListJobQueues(const Operations& operations, const Call& call);
Answer ListResources(const Operations& operations, const Call& call);

Answer StartSimulation(const Operations& operations, const Call& call);
Answer ListSimulations(const Operations& operations, const Call& call);
Answer ShowSimulation(const Operations& operations, const Call& call);
Answer CancelSimulation(const Operations& operations, const Call& call);

Answer ShowConfig(const Operations& operations, const Call& call);
net::Task<Answer> ReloadConfig(const Operations& operations, const Call& call);

}  // namespace gateway::admin
