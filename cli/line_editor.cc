#include "cli/line_editor.h"

#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "common/utf8.h"

namespace baton::cli {
namespace {

// A terminal brackets pasted text in these, once it is asked to.
constexpr char kBracketsOn[] = "\x1b[?2004h";
constexpr char kBracketsOff[] = "\x1b[?2004l";
constexpr char kClearScreen[] = "\x1b[H\x1b[2J";
constexpr wchar_t kPasteBegin[] = L"\\e[200~";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";
// Ctrl-C.
constexpr wchar_t kInterruptKey = 3;

volatile sig_atomic_t terminal_resized = 0;
// Of the terminal before the editor; null when there is none.
const termios* terminal_modes = nullptr;

void OnResize(int /*signal_number*/) { terminal_resized = 1; }

void WriteToTerminal(std::string_view text) {
  // A terminal that has gone is noticed when it is read.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

std::wstring ToWide(std::string_view text) {
  std::wstring wide;
  const std::string valid = DecodeUtf8Lossy(text);
  for (size_t offset = 0; offset < valid.size();) wide += static_cast<wchar_t>(NextCodePoint(valid, &offset));
  return wide;
}

std::string ToUtf8(std::wstring_view wide) {
  std::string text;
  for (const wchar_t c : wide) AppendUtf8(static_cast<uint32_t>(c), &text);
  return text;
}

bool IsTypedControl(wchar_t c) { return (c < 0x20 && c != L'\n' && c != L'\t') || (c >= 0x7F && c < 0xA0); }

// How many rows of a screen the text takes, or one more. libedit shows a character that has no width by its number.
size_t RowsOf(std::wstring_view text, size_t columns) {
  constexpr int kNumberColumns = 8;
  size_t rows = 1;
  size_t column = 0;
  for (const wchar_t c : text) {
    const int columns_of_c = wcwidth(c);
    const auto width = static_cast<size_t>(columns_of_c < 0 ? kNumberColumns : columns_of_c);
    if (c == L'\n' || column + width >= columns) {
      ++rows;
      column = 0;
    }
    column += width;
  }
  return rows;
}

// Pasted lines end in carriage returns, as typed ones do. The last line's end does not send the message.
std::wstring CleanPaste(std::wstring_view pasted) {
  std::wstring clean;
  for (size_t i = 0; i < pasted.size(); ++i) {
    const bool is_line_end = pasted[i] == L'\r';
    if (is_line_end && i + 1 < pasted.size() && pasted[i + 1] == L'\n') continue;
    const wchar_t c = is_line_end ? L'\n' : pasted[i];
    if (!IsTypedControl(c)) clean += c;
  }
  while (!clean.empty() && clean.back() == L'\n') clean.pop_back();
  return clean;
}

}  // namespace

struct LineEditor::State {
  termios modes = {};
  EditLine* edit = nullptr;
  HistoryW* history = nullptr;
  FILE* quiet = nullptr;
  locale_t locale = nullptr;
  std::wstring prompt;
  // Bytes of a character that is not complete.
  std::string unread;
  bool interrupted = false;
  // The text and the cursor when the last key was read.
  size_t seen_characters = 0;
  size_t seen_cursor = 0;

  static State& Of(EditLine* edit) {
    void* state = nullptr;
    el_wget(edit, EL_CLIENTDATA, &state);
    return *static_cast<State*>(state);
  }

  static wchar_t* Prompt(EditLine* edit) { return Of(edit).prompt.data(); }

  static unsigned char OnInterrupt(EditLine* edit, wint_t /*key*/) {
    Of(edit).interrupted = true;
    return CC_EOF;
  }

  // The keys send no signals here, so Ctrl-Z has to be sent by hand.
  static unsigned char OnSuspend(EditLine* edit, wint_t /*key*/) {
    el_wset(edit, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    el_wset(edit, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
  }

  static unsigned char OnPaste(EditLine* edit, wint_t /*key*/) {
    std::wstring pasted;
    wchar_t last = 0;
    std::wstring tail;
    while (tail != kPasteEnd) {
      if (el_wgetc(edit, &last) <= 0) return CC_EOF;
      // A terminal whose paste never ends must not take the user's way out.
      if (last == kInterruptKey) return OnInterrupt(edit, 0);
      if (pasted.size() < kMaxPastedCharacters) pasted += last;
      tail += last;
      if (tail.size() > kPasteEnd.size()) tail.erase(0, 1);
    }
    if (pasted.ends_with(kPasteEnd)) pasted.resize(pasted.size() - kPasteEnd.size());
    const std::wstring clean = CleanPaste(pasted);
    if (clean.empty()) return CC_NORM;
    return el_winsertstr(edit, clean.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  // libedit keeps its cursor at a column that the terminal may no longer have, and writes there; so the line is shown
  // anew, which begins at the first column.
  static void Resize(EditLine* edit) {
    el_resize(edit);
    WriteToTerminal("\r");
    el_wset(edit, EL_REFRESH);
  }

  // After a key that only moves the cursor, libedit counts the rows of the text instead of those of the screen, and in
  // a text that is taller than the screen it loses the row of the cursor. It would then write past its memory of the
  // screen, so such a text is shown anew.
  void KeepCursorOnScreen() {
    const LineInfoW& line = *el_wline(edit);
    const std::wstring_view text(line.buffer, static_cast<size_t>(line.lastchar - line.buffer));
    const auto cursor = static_cast<size_t>(line.cursor - line.buffer);
    const bool only_moved = text.size() == seen_characters && cursor != seen_cursor;
    seen_characters = text.size();
    seen_cursor = cursor;
    winsize screen = {};
    if (!only_moved || ioctl(STDERR_FILENO, TIOCGWINSZ, &screen) != 0) return;
    if (RowsOf(prompt + std::wstring(text), screen.ws_col) < screen.ws_row) return;
    WriteToTerminal(kClearScreen);
    el_wset(edit, EL_REFRESH);
  }

  // Waits for a byte. While it waits, SIGWINCH may come.
  static bool ReadByte(EditLine* edit, char* byte) {
    sigset_t waiting_mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &waiting_mask);
    sigdelset(&waiting_mask, SIGWINCH);
    while (true) {
      if (terminal_resized != 0) {
        terminal_resized = 0;
        Resize(edit);
      }
      pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      if (ppoll(&input, 1, nullptr, &waiting_mask) < 0) {
        if (errno == EINTR) continue;
        return false;
      }
      const ssize_t bytes = read(STDIN_FILENO, byte, 1);
      if (bytes > 0) return true;
      if (bytes == 0 || errno != EINTR) return false;
    }
  }

  // One character, whatever the locale is: 1, or 0 at the end.
  static int ReadCharacter(EditLine* edit, wchar_t* character) {
    Of(edit).KeepCursorOnScreen();
    std::string& unread = Of(edit).unread;
    while (true) {
      if (!unread.empty()) {
        const Utf8Prefix prefix = ClassifyUtf8Prefix(unread);
        if (prefix.kind != Utf8Kind::kIncomplete) {
          size_t offset = 0;
          *character = prefix.kind == Utf8Kind::kValid ? static_cast<wchar_t>(NextCodePoint(unread, &offset)) : 0xFFFD;
          unread.erase(0, prefix.bytes);
          return 1;
        }
      }
      char byte = 0;
      if (!ReadByte(edit, &byte)) return 0;
      unread += byte;
    }
  }

  void Bind(const wchar_t* name, unsigned char (*function)(EditLine*, wint_t), const wchar_t* key) const {
    el_wset(edit, EL_ADDFN, name, L"", function);
    el_wset(edit, EL_BIND, key, name, nullptr);
  }
};

std::unique_ptr<LineEditor> LineEditor::Create() {
  const char* const terminal = std::getenv("TERM");
  const std::string_view kind = terminal == nullptr ? "" : terminal;
  auto state = std::make_unique<State>();
  if (kind.empty() || kind == "dumb" || isatty(STDERR_FILENO) == 0) return nullptr;
  if (tcgetattr(STDIN_FILENO, &state->modes) != 0) return nullptr;
  // Of this thread alone. It makes libedit write UTF-8 in whatever locale the process runs.
  state->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (state->locale == nullptr) return nullptr;
  uselocale(state->locale);
  // Where libedit complains about a TERM that it does not know.
  state->quiet = std::fopen("/dev/null", "w");
  if (state->quiet == nullptr) return nullptr;
  state->edit = el_init("baton", stdin, stderr, state->quiet);
  state->history = history_winit();
  if (state->edit == nullptr || state->history == nullptr) return nullptr;
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(state)));
}

LineEditor::LineEditor(std::unique_ptr<State> state) : state_(std::move(state)) {
  terminal_modes = &state_->modes;
  sigset_t resize;
  sigemptyset(&resize);
  sigaddset(&resize, SIGWINCH);
  pthread_sigmask(SIG_BLOCK, &resize, nullptr);
  struct sigaction action = {};
  action.sa_handler = &OnResize;
  sigaction(SIGWINCH, &action, nullptr);
  EditLine* const edit = state_->edit;
  HistEventW event;
  history_w(state_->history, &event, H_SETSIZE, kEditedHistoryLines);
  history_w(state_->history, &event, H_SETUNIQUE, 1);
  el_wset(edit, EL_CLIENTDATA, state_.get());
  el_wset(edit, EL_GETCFN, &State::ReadCharacter);
  el_wset(edit, EL_PROMPT, &State::Prompt);
  el_wset(edit, EL_EDITOR, L"emacs");
  el_wset(edit, EL_HIST, &history_w, state_->history);
  el_wset(edit, EL_SETTY, L"-d", L"-isig", nullptr);
  state_->Bind(L"baton-interrupt", &State::OnInterrupt, L"^C");
  state_->Bind(L"baton-suspend", &State::OnSuspend, L"^Z");
  state_->Bind(L"baton-paste", &State::OnPaste, kPasteBegin);
}

LineEditor::~LineEditor() {
  terminal_modes = nullptr;
  history_wend(state_->history);
  el_end(state_->edit);
  std::fclose(state_->quiet);
  uselocale(LC_GLOBAL_LOCALE);
  freelocale(state_->locale);
}

EditedLine LineEditor::Read(const std::string& prompt) {
  state_->prompt = ToWide(prompt);
  state_->interrupted = false;
  // The terminal may have another size than at the last line.
  el_resize(state_->edit);
  WriteToTerminal(kBracketsOn);
  // Otherwise libedit shows the prompt first, and keys that are typed at once mean what they mean outside of an editor.
  el_wset(state_->edit, EL_PREP_TERM, 1);
  int characters = 0;
  const wchar_t* const line = el_wgets(state_->edit, &characters);
  // What libedit makes of the modes between two lines is not what they were.
  tcsetattr(STDIN_FILENO, TCSADRAIN, &state_->modes);
  WriteToTerminal(kBracketsOff);
  if (state_->interrupted) {
    WriteToTerminal("^C\n");
    return {.end = LineEnd::kInterrupted};
  }
  if (line == nullptr || characters <= 0) {
    WriteToTerminal("\n");
    return {.end = LineEnd::kEnd};
  }
  std::wstring_view text(line, static_cast<size_t>(characters));
  if (text.ends_with(L'\n')) text.remove_suffix(1);
  return {.end = LineEnd::kLine, .text = ToUtf8(text)};
}

void LineEditor::Remember(const std::string& message) {
  HistEventW event;
  history_w(state_->history, &event, H_ENTER, ToWide(message).c_str());
}

void RestoreTerminal() {
  if (terminal_modes == nullptr) return;
  tcsetattr(STDIN_FILENO, TCSANOW, terminal_modes);
  WriteToTerminal(kBracketsOff);
}

}  // namespace baton::cli
