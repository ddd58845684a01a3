// Pieces of an answer with calls of tools, as tests compare them.
#ifndef BATON_GATEWAY_TESTING_ANSWER_PIECES_H_
#define BATON_GATEWAY_TESTING_ANSWER_PIECES_H_

#include <utility>

#include "gateway/tools/tool_call_parser.h"

namespace baton::gateway {

// Pieces that go on with each other become one; texts have no call of their own.
inline void AppendJoined(AnswerPieces more, AnswerPieces& pieces) {
  for (AnswerPiece& piece : more) {
    if (piece.kind == AnswerPiece::Kind::kText) piece.call = 0;
    const bool goes_on = !pieces.empty() && pieces.back().kind == piece.kind && piece.kind != AnswerPiece::Kind::kCall;
    if (goes_on) {
      pieces.back().text += piece.text;
    } else {
      pieces.push_back(std::move(piece));
    }
  }
}

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TESTING_ANSWER_PIECES_H_
