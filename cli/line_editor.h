// A line that a user edits at a terminal, by libedit: cursor keys, the lines before, and pasted text of several lines.
#ifndef BATON_CLI_LINE_EDITOR_H_
#define BATON_CLI_LINE_EDITOR_H_

#include <cstdint>
#include <memory>
#include <string>

namespace baton::cli {

// How many messages the cursor keys bring back.
inline constexpr int kEditedHistoryLines = 500;
// A pasted text may have so many characters; what comes after them is dropped.
inline constexpr size_t kMaxPastedCharacters = (size_t{1} << 20) + 1;

enum class LineEnd : uint8_t {
  kLine,
  // By Ctrl-C.
  kInterrupted,
  // By Ctrl-D, or because the terminal has gone.
  kEnd,
};

struct EditedLine {
  LineEnd end = LineEnd::kEnd;
  // UTF-8 without the last newline. A pasted text may have others.
  std::string text;
};

// Reads from stdin and writes to stderr. While it reads, the terminal's keys send no signals. A process has one, and
// uses it on the thread that has made it.
class LineEditor {
 public:
  // Null where stdin or stderr is no terminal, or one that can move no cursor (TERM is dumb or not set). Call it before
  // any other thread starts: it blocks SIGWINCH, which then comes only while a line is read.
  static std::unique_ptr<LineEditor> Create();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  EditedLine Read(const std::string& prompt);
  // From now on the cursor keys bring it back.
  void Remember(const std::string& message);

 private:
  struct State;
  explicit LineEditor(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

// Gives the terminal the modes back that it had before the editor was made. Safe on any thread, for a process that is
// about to end in the middle of a line.
void RestoreTerminal();

}  // namespace baton::cli

#endif  // BATON_CLI_LINE_EDITOR_H_
