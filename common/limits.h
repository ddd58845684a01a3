// The named bounds of the whole system. Tests go to the limit and one beyond. Where that takes too long or too much
// memory, they do so with a smaller bound in the options of its owner, whose default they compare with the one here: so
// it is with kHelloTimeoutMs, kMaxJournalBytes and the bounds of connections. The default alone is compared where
// others enforce a bound: gRPC kMaxGrpcMemoryBytes and kMaxGrpcThreads, an etcd kDirectoryTtlS. No test goes to
// kMaxCanaryPairs, beyond which canaries come too early or too late and do no harm.
#ifndef BATON_COMMON_LIMITS_H_
#define BATON_COMMON_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace baton {

// A request.
inline constexpr int kMaxMessageBytes = 4 << 20;
inline constexpr size_t kMaxPromptBytes = 1u << 20;
inline constexpr int kMaxChatMessages = 1024;
// The text that Detokenize gives back. It fits the message that a client takes by default.
inline constexpr size_t kMaxDetokenizedBytes = 2u << 20;
// The tokens that it gives back each by itself.
inline constexpr size_t kMaxDetokenizedTokens = 1u << 16;
inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;
inline constexpr int kMaxStopTokenIds = 64;
inline constexpr size_t kMaxLogitBiases = 1024;
// The largest bias, and the opposite of the smallest one.
inline constexpr float kMaxLogitBias = 100.0f;
// The text of a schema, an expression or a grammar for the output.
inline constexpr size_t kMaxGrammarBytes = 64u << 10;
inline constexpr int kMaxLogprobs = 20;
// The log-probabilities of one prompt, in memory (common/prompt_logprob.h). A message with them fits what a client
// takes by default.
inline constexpr size_t kMaxPromptLogprobBytes = 2u << 20;
// The values of one embedding.
inline constexpr int kMaxEmbeddingValues = 1 << 16;
inline constexpr int kMaxOutputTokens = 1 << 20;
// Outputs of one request.
inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxTopK = 1 << 20;
inline constexpr size_t kMaxTenantBytes = 128;
inline constexpr size_t kMaxApiKeyBytes = 256;
// In the file of --api-keys.
inline constexpr size_t kMaxApiKeys = 4096;

// Tools of a request, the name of each, the calls of one answer, and the text that may become a call and waits for that
// (gateway/tools/). What would be a call beyond these bounds is text.
inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 128;
inline constexpr int kMaxToolCalls = 128;
inline constexpr size_t kMaxHeldToolCallBytes = 256u << 10;

// The router.
inline constexpr int kMaxQueuedJobs = 1024;
inline constexpr int kMaxRunningJobs = 1 << 15;
inline constexpr int kMaxWorkers = 1024;
// Canaries at a time (router/canaries.h), and pairs that they remember or look at in one step.
inline constexpr size_t kMaxCanaries = 4;
inline constexpr size_t kMaxCanaryPairs = 4096;
// Each text by which a worker introduces itself: address, model, fingerprint.
inline constexpr size_t kMaxWorkerTextBytes = 512;
// The cluster port: streams that have not said hello, and how long each may take to say it.
inline constexpr int kMaxJoiningStreams = 64;
inline constexpr int64_t kHelloTimeoutMs = 5'000;
// What a worker may say in one message, which is also how much may wait at the worker until the router reads it.
inline constexpr size_t kMaxWorkerMessageBytes = size_t{4} << 20;
// What may wait at the router until a worker reads it. A start has its whole prompt.
inline constexpr size_t kMaxUnwrittenRouterBytes = size_t{32} << 20;
// Messages that wait on a stream between two workers. Beyond it the stream is broken.
inline constexpr size_t kMaxUnsentMessages = 4096;

// Jobs that outlive their clients' calls (router/live_jobs.h): how many there are, with those that have ended, what
// they take in memory, and for how long one computes that no client follows.
inline constexpr size_t kMaxKeptJobs = 4096;
inline constexpr size_t kMaxKeptBytes = 128u << 20;
inline constexpr int64_t kMaxUnfollowedMs = 60'000;
inline constexpr size_t kMaxIdempotencyKeyBytes = 128;
// The journal's file, and the new jobs that wait to be written there. Beyond these a new job is refused; what is
// written of a job later always finds a place, and is three changes at most.
inline constexpr int64_t kMaxJournalBytes = int64_t{256} << 20;
inline constexpr size_t kMaxUnwrittenJobs = 1024;
// Records that a full disk has kept from being erased. What is beyond these stays until the router starts again.
inline constexpr size_t kMaxUnerasedRecords = kMaxKeptJobs;

// Clients of the router. A request is small or large by the bytes of its message; each kind waits in a queue of its own
// for threads of its own, so that a small one never waits for a large one.
inline constexpr size_t kMaxSmallRequestBytes = 32u << 10;
inline constexpr size_t kMaxQueuedSmallRequestBytes = 4u << 20;
inline constexpr size_t kMaxQueuedLargeRequestBytes = 32u << 20;
// How much output of a stream may wait for its client. Beyond either bound the job is cancelled. Beyond half of one it
// is paused, until less than a quarter of both waits or it has been paused for so long (router/dispatcher.h).
inline constexpr size_t kMaxUnreadOutputTokens = 4096;
inline constexpr size_t kMaxUnreadOutputBytes = 2u << 20;
inline constexpr int64_t kMaxPausedMs = 30'000;
// What an answer may take in memory that is sent as a whole.
inline constexpr size_t kMaxWholeAnswerBytes = size_t{16} << 20;
// Requests of one call of ModelStreamInfer that run at once. The next one is read when one of them has ended.
inline constexpr size_t kMaxRequestsPerStream = 64;
// What waits on all streams together. Beyond it those with the most are cut.
inline constexpr size_t kMaxUnreadOutputBytesOfAll = 64u << 20;
// Streams whose job has ended while their client has not read all of it, and how long they stay.
inline constexpr size_t kMaxUnreadEndedStreams = 1024;
inline constexpr int64_t kMaxUnreadEndedMs = 30'000;
// Connections (common/rpc/client_caps.h).
inline constexpr int kMaxClientConnections = 4096;
inline constexpr int kMaxStreamsPerConnection = 1024;
inline constexpr int kMaxIdleConnectionMs = 300'000;
// How long a call of ModelStreamInfer stays open without a request. gRPC hands over any other call once its message is
// there: one whose message never comes holds one of the streams of its connection, and keeps that from being idle.
inline constexpr int64_t kMaxIdleStreamMs = 300'000;
inline constexpr int kMaxHandshakeMs = 10'000;
inline constexpr size_t kMaxGrpcMemoryBytes = 512u << 20;
inline constexpr int kMaxGrpcThreads = 64;

// A worker.
inline constexpr int kMaxSequences = 1024;
inline constexpr int kMaxPendingJobs = 1024;
// Routers that one worker is a member of at once.
inline constexpr size_t kMaxRouters = 16;
// Attempts that have ended and whose router a worker remembers, as they may hold blocks, before it looks which do.
inline constexpr size_t kMaxEndedAttempts = 4096;
// A worker sends heartbeats ten times a second. The router gives one up from which it has heard nothing for so long.
inline constexpr int kWorkerSilenceMs = 1'500;
// The router gives a worker up whose engine has been in one step for longer than this, and the worker itself does not
// join.
inline constexpr int64_t kEngineStallMs = 30'000;
// What a reader shows to a source, and the certificates in it. A router whose chain is longer does not start.
inline constexpr size_t kMaxCapabilityBytes = 32u << 10;
inline constexpr size_t kMaxCapabilityChainBytes = 24u << 10;
// Keys of routers that a source has found to be certified, and looks at no more while its own files stay.
inline constexpr size_t kMaxCapabilityKeys = 16;
// The workers that the KV of one running job may come through: its prefill worker, and those that it moved away from.
// A job that has come through so many moves no further.
inline constexpr size_t kMaxKvOrigins = 16;
// A worker tells the router this often who holds its KV blocks, and once more as soon as nobody does any more.
inline constexpr int64_t kBlockReportMs = 5'000;
inline constexpr size_t kMaxMailboxEvents = 1u << 16;

// The directory of a fleet (discovery/): how many entries a process takes, the value of each, and for how many seconds
// an entry stays of a process that says nothing.
inline constexpr size_t kMaxDirectoryEntries = 2048;
inline constexpr size_t kMaxAnnouncementBytes = 8u << 10;
inline constexpr int64_t kDirectoryTtlS = 10;

}  // namespace baton

#endif  // BATON_COMMON_LIMITS_H_
