// The kinds of stored objects: one list, so that no two rooms use one name. Who owns a kind defines its body.
#pragma once

namespace gateway::store {

inline constexpr char kKey[] = "key";             // people: an API key, its secret hashed
inline constexpr char kKeyEvent[] = "key_event";  // people: a change of a key that is not in the ledger yet
inline constexpr char kLedgerEvent[] = "ledger_event";  // audit: what a command did; not in the ledger yet
inline constexpr char kCheckpoint[] = "checkpoint";     // process: the last one of a ledger; id: the ledger
inline constexpr char kPosition[] = "position";  // how far a reader of the ledger has come; id: the reader
inline constexpr char kImport[] = "import";      // import.h: imported files of an earlier version
inline constexpr char kWorkload[] = "workload";  // control: a replica or a job, and its members
inline constexpr char kSubmission[] = "submission";  // control: a submitted job file
inline constexpr char kSession[] = "session";        // people: a session; id: hash of its secret
inline constexpr char kSignInCode[] =
    "sign_in_code";  // people: a right to sign in once; id: hash of the code
inline constexpr char kFirstAdmin[] =
    "first_admin";  // people: an admin has signed in once; the only id is kFirstAdminId
inline constexpr char kTerminalSignIn[] =
    "terminal_sign_in";                      // people: a command line that waits; id: hash of the code
inline constexpr char kCordon[] = "cordon";  // control: a node that takes no new work
inline constexpr char kModelOrder[] = "model_order";  // control: a model that is paused or held
inline constexpr char kAdapter[] = "adapter";         // control: an adapter loaded at run time; id: BASE|NAME
inline constexpr char kRollout[] = "rollout";         // control: how far a new version of a model has come
inline constexpr char kTenant[] = "tenant";           // people: a tenant made at run time; id: its path
inline constexpr char kMember[] = "member";           // people: a role over a tenant; id: TENANT|PERSON
inline constexpr char kGrant[] = "grant";      // people: an addition to a tenant's configuration, for a time
inline constexpr char kRequest[] = "request";  // people: a request for a grant
inline constexpr char kThreshold[] = "threshold";  // limits: a budget that reached a threshold; reported once
inline constexpr char kSecret[] = "secret";        // control: the secret that keys are derived from
inline constexpr char kGateway[] = "gateway";      // control: a gateway of this store, as it describes itself
inline constexpr char kMetered[] = "metered";  // control: until when device time is recorded; id: its holder
inline constexpr char kServed[] =
    "served";  // control: the tenants that a gateway's requests to replicas were for
inline constexpr char kUsage[] = "usage";  // audit: the usage that gateways report; usage_rollup.h
inline constexpr char kLeaderCall[] =
    "leader_call";  // admin: a call that the leader is to answer, and its answer
inline constexpr char kFeedbackCall[] =
    "feedback_call";  // feedback: a call for the gateway that served a request, and its answer; sealed
inline constexpr char kNodeWeights[] = "node_weights";  // control: what a node's store of weights holds
inline constexpr char kModelMemory[] =
    "model_memory";                      // control: what scaling has learned of a model; id: the model
inline constexpr char kFile[] = "file";  // batches: a file that an application keeps here
inline constexpr char kFileRemoval[] =
    "file_removal";  // batches: an object in the bucket that no file needs; id: the file's that it was for
inline constexpr char kBatch[] = "batch";  // batches: a batch, and how far it has come
// The three above, of all gateways that share the store and a bucket.
inline constexpr char kSharedFile[] = "shared_file";
inline constexpr char kSharedFileRemoval[] = "shared_file_removal";
inline constexpr char kSharedBatch[] = "shared_batch";
inline constexpr char kContentKey[] =
    "content_key";  // batches: a key that seals shared files; id: its tenant

// The kinds that belong to one gateway's ledger and machine, where several share a store: gateway_view.h.
inline constexpr const char* kKindsOfGateway[] = {kKeyEvent, kLedgerEvent, kCheckpoint,  kPosition,
                                                  kImport,   kFile,        kFileRemoval, kBatch};

// Ids of secrets.
inline constexpr char kReplicaKeys[] = "replica_keys";

inline constexpr char kFirstAdminId[] = "first";

}  // namespace gateway::store
