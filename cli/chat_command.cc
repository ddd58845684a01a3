#include "cli/chat_command.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/chat_asker.h"
#include "cli/chat_input.h"
#include "cli/chat_interrupts.h"
#include "cli/chat_line.h"
#include "cli/chat_output.h"
#include "cli/chat_session.h"
#include "cli/chat_settings.h"
#include "cli/client_flags.h"
#include "cli/input_file.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/process.h"
#include "common/status.h"

namespace baton::cli {
namespace {

v1::GenerateRequest BaseRequest(const ClientFlags& flags) {
  v1::GenerateRequest request;
  request.set_model(flags.model);
  FillSampling(flags.sampling, request);
  return request;
}

// What a user writes after /save or /load. Anything but a regular file, such as a pipe, could keep the chat waiting
// where Ctrl-C does not reach it.
absl::StatusOr<std::string> ChatFile(const char* command, const std::string& text) {
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(command, " needs the name of a file"));
  const char* const home = std::getenv("HOME");
  std::string path = home != nullptr && absl::StartsWith(text, "~/") ? absl::StrCat(home, text.substr(1)) : text;
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(command, " ", path, ": not a regular file"));
  }
  // Elsewhere a hyphen is standard input.
  return path == "-" ? "./-" : path;
}

// The conversation: what each message of the user does.
class Chat {
 public:
  Chat(const ClientFlags& flags, const std::shared_ptr<grpc::Channel>& channel, ChatInterrupts* interrupts)
      : session_(BaseRequest(flags)),
        asker_(flags, channel, interrupts, output_),
        is_terminal_(interrupts != nullptr),
        shows_stats_(is_terminal_) {}

  // An error concerns this message alone.
  absl::Status Take(std::string message) {
    BATON_ASSIGN_OR_RETURN(ChatLine line, ReadChatLine(std::move(message)));
    if (line.command.has_value()) return Run(*line.command, line.text);
    if (line.text.empty()) return absl::OkStatus();
    BATON_RETURN_IF_ERROR(session_.Ask(std::move(line.text)));
    return asker_.Answer(session_, shows_stats_);
  }

  const ChatOutput& output() const { return output_; }
  // The user has ended it.
  bool is_over() const { return is_over_; }

 private:
  absl::Status Run(ChatCommand command, const std::string& text) {
    switch (command) {
      case ChatCommand::kHelp:
        output_.Show(kChatHelp);
        return absl::OkStatus();
      case ChatCommand::kReset:
        session_.Reset();
        return absl::OkStatus();
      case ChatCommand::kSystem:
        return session_.SetSystem(text);
      case ChatCommand::kSet:
        return Set(text);
      case ChatCommand::kShow:
        output_.Show(ShowChat(session_));
        return absl::OkStatus();
      case ChatCommand::kRetry:
        BATON_RETURN_IF_ERROR(session_.Retry());
        return asker_.Answer(session_, shows_stats_);
      case ChatCommand::kUndo:
        return Undo();
      case ChatCommand::kSave:
        return Save(text);
      case ChatCommand::kLoad:
        return Load(text);
      case ChatCommand::kStats:
        return SetStats(text);
      case ChatCommand::kQuit:
        is_over_ = true;
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status Set(const std::string& text) {
    if (text.empty()) {
      output_.Show(ShowSampling(session_.sampling()));
      return absl::OkStatus();
    }
    const size_t space = text.find_first_of(" \t");
    const size_t value = text.find_first_not_of(" \t", space);
    if (value == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("/set ", text, " needs a value, or ", kDefaultSetting));
    }
    return SetSampling(text.substr(0, space), text.substr(value), session_.sampling());
  }

  absl::Status Undo() {
    BATON_ASSIGN_OR_RETURN(const std::string question, session_.Undo());
    output_.Note(absl::StrCat("Taken back: ", question));
    return absl::OkStatus();
  }

  absl::Status Save(const std::string& text) {
    BATON_ASSIGN_OR_RETURN(const std::string path, ChatFile("/save", text));
    BATON_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open("/save", path));
    return file.Write(WriteChat(session_.history()));
  }

  absl::Status Load(const std::string& text) {
    BATON_ASSIGN_OR_RETURN(const std::string path, ChatFile("/load", text));
    BATON_ASSIGN_OR_RETURN(const std::string content, ReadInputFile("/load", path, kMaxChatFileBytes));
    absl::StatusOr<ChatHistory> history = ReadChat(content);
    if (!history.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("/load ", path, ": ", history.status().message()));
    }
    if (is_terminal_) output_.Note(absl::StrCat(history->turns.size(), " turns"));
    session_.Load(*std::move(history));
    return absl::OkStatus();
  }

  absl::Status SetStats(const std::string& text) {
    const std::optional<bool> shows = ReadSwitch(text);
    if (!shows.has_value()) return absl::InvalidArgumentError("/stats needs on or off");
    shows_stats_ = *shows;
    return absl::OkStatus();
  }

  ChatOutput output_;
  ChatSession session_;
  ChatAsker asker_;
  const bool is_terminal_;
  bool shows_stats_;
  bool is_over_ = false;
};

int RunChat(const ClientFlags& flags) {
  // Lines of a script are not edited, stopped or asked for.
  const bool is_terminal = isatty(STDIN_FILENO) != 0;
  // Both before the channel, which starts threads.
  ChatInterrupts* const interrupts = is_terminal ? &ChatInterrupts::Start() : nullptr;
  ChatInput input(interrupts);
  const auto channel = OpenChannel(flags.router);
  if (!channel.ok()) return Report(channel.status());
  Chat chat(flags, *channel, interrupts);
  if (is_terminal) chat.output().Note("/help shows the commands. Ctrl-C stops an answer, Ctrl-D ends the chat.");
  bool failed = false;
  // main says why nothing can be written any more.
  while (!chat.is_over() && std::cout) {
    absl::StatusOr<std::string> message = input.Next();
    if (absl::IsOutOfRange(message.status())) break;
    const absl::Status status = message.ok() ? chat.Take(*std::move(message)) : message.status();
    if (absl::IsCancelled(status) && is_terminal && interrupts->is_stopped()) {
      chat.output().Note("(stopped)");
    } else if (!status.ok()) {
      PrintError(status);
      failed = true;
    }
  }
  return failed && !is_terminal ? kExitFailed : kExitDone;
}

}  // namespace

void AddChatCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ClientFlags>();
  CLI::App* command = app.add_subcommand("chat", "talks with the model; /help shows its commands");
  AddClientFlags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = RunChat(*flags); });
}

}  // namespace baton::cli
