#include "cli/chat_command.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/client_flags.h"
#include "cli/generation_client.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/utf8_check.h"
#include "common/limits.h"
#include "common/status.h"

namespace baton::cli {
namespace {

constexpr char kPrompt[] = "> ";
constexpr char kHelp[] =
    "/help   shows this\n"
    "/clear  forgets the chat so far\n"
    "/exit   ends the chat, as Ctrl-D does\n"
    "Ctrl-C stops an answer. To send a line that begins with a slash, put a space before it.\n";

// What Ctrl-C at a terminal does: it stops the answer under way. Where there is none it says how to leave, and a second
// one in a row leaves.
class Interrupts {
 public:
  // Call it before any other thread starts. A thread of its own then takes SIGINT to the end of the process.
  static Interrupts& Start() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    static auto* interrupts = new Interrupts;
    std::thread([signals] { interrupts->Take(signals); }).detach();
    return *interrupts;
  }

  CallCanceller& answer() { return answer_; }
  void OnLine() { at_prompt_ = 0; }

 private:
  void Take(const sigset_t& signals) {
    while (true) {
      int signal_number = 0;
      if (sigwait(&signals, &signal_number) != 0 || answer_.Cancel()) continue;
      if (++at_prompt_ == 2) {
        std::fputs("\n", stderr);
        _exit(kExitDone);
      }
      std::fprintf(stderr, "\nCtrl-C once more, Ctrl-D or /exit ends the chat.\n%s", kPrompt);
    }
  }

  CallCanceller answer_;
  // How often it came since the last line.
  std::atomic<int> at_prompt_ = 0;
};

// The messages so far, and how the next one is answered.
class Conversation {
 public:
  // `canceller` is null where nobody can stop an answer.
  Conversation(const ClientFlags& flags, const std::shared_ptr<grpc::Channel>& channel, CallCanceller* canceller)
      : client_(flags.router.target, channel), options_({.timeout_ms = flags.timeout_ms, .canceller = canceller}) {
    request_.set_model(flags.model);
    FillSampling(flags.sampling, request_);
  }

  void Clear() { request_.clear_chat(); }

  // Prints the answer as it comes. The history keeps what the user has seen: a line that got no word of an answer is
  // taken back, and an answer that broke off stays as far as it came.
  absl::Status Say(std::string line) {
    if (line.size() > kMaxPromptBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the line has ", line.size(), " bytes; a chat may have ", kMaxPromptBytes));
    }
    BATON_RETURN_IF_ERROR(CheckUtf8(line));
    Add("user", std::move(line));
    std::string answer;
    const absl::Status status = client_
                                    .Generate(request_, options_,
                                              [&answer](const v1::Output& output) {
                                                answer += output.text();
                                                return (std::cout << output.text() << std::flush).good();
                                              })
                                    .status();
    if (status.ok() || !answer.empty()) {
      std::cout << std::endl;
      Add("assistant", std::move(answer));
    } else {
      request_.mutable_chat()->mutable_messages()->RemoveLast();
    }
    return absl::IsInvalidArgument(status) ? WithAdvice(status) : status;
  }

 private:
  void Add(const char* role, std::string content) {
    v1::ChatMessage* message = request_.mutable_chat()->add_messages();
    message->set_role(role);
    message->set_content(std::move(content));
  }

  absl::Status WithAdvice(const absl::Status& status) const {
    if (request_.chat().messages().empty()) return status;
    return {status.code(), absl::StrCat(status.message(), "; /clear forgets the chat so far")};
  }

  GenerationClient client_;
  const CallOptions options_;
  v1::GenerateRequest request_;
};

// OUT_OF_RANGE: the user ends the chat.
absl::Status RunChatCommand(const std::string& command, Conversation& conversation) {
  if (command == "/exit") return absl::OutOfRangeError("the chat ends");
  if (command == "/help") {
    std::fputs(kHelp, stderr);
  } else if (command == "/clear") {
    conversation.Clear();
  } else {
    return absl::InvalidArgumentError(absl::StrCat(command.substr(0, command.find(' ')),
                                                   " is no command: /help shows them; a space before the slash sends "
                                                   "the line to the model"));
  }
  return absl::OkStatus();
}

int Chat(const ClientFlags& flags) {
  // Lines of a script are not edited, stopped or asked for.
  const bool is_terminal = isatty(STDIN_FILENO) != 0;
  // Before the channel, which starts threads.
  Interrupts* const interrupts = is_terminal ? &Interrupts::Start() : nullptr;
  const auto channel = OpenChannel(flags.router);
  if (!channel.ok()) return Report(channel.status());
  Conversation conversation(flags, *channel, is_terminal ? &interrupts->answer() : nullptr);
  bool failed = false;
  std::string line;
  while (std::cerr << (is_terminal ? kPrompt : "") << std::flush, std::getline(std::cin, line)) {
    if (is_terminal) interrupts->OnLine();
    if (line.empty()) continue;
    const bool is_command = line.front() == '/';
    if (absl::StartsWith(line, " /")) line.erase(0, 1);
    const absl::Status status = is_command ? RunChatCommand(line, conversation) : conversation.Say(std::move(line));
    // main says why nothing can be written any more.
    if (absl::IsOutOfRange(status) || !std::cout) break;
    if (is_terminal && absl::IsCancelled(status)) {
      std::cerr << "(stopped)" << std::endl;
    } else if (!status.ok()) {
      PrintError(status);
      failed = true;
    }
  }
  if (is_terminal && std::cin.eof()) std::cerr << std::endl;
  return failed && !is_terminal ? kExitFailed : kExitDone;
}

}  // namespace

void AddChatCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ClientFlags>();
  CLI::App* command = app.add_subcommand("chat", "talks with the model, one line at a time; /help shows its commands");
  AddClientFlags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = Chat(*flags); });
}

}  // namespace baton::cli
