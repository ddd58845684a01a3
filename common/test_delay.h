// Delays that a test plants at a few points of the program, to see whether what is measured shows them where they
// belong: BATON_TEST_DELAYS=transfer=50,step=50, in milliseconds. Without that variable a point costs one comparison.
#ifndef BATON_COMMON_TEST_DELAY_H_
#define BATON_COMMON_TEST_DELAY_H_

#include <string_view>

namespace baton {

// Sleeps where the environment says so for `point`. The points are
//   read       a client's request is parsed          (router, client work)
//   start      a worker takes a call                 (worker, engine's loop)
//   step       a step of the engine has ended        (worker, engine's loop)
//   transfer   a prompt's KV is in place             (worker, transfer thread)
//   finish     a request's last message is written   (router, its loop)
void TestDelay(std::string_view point);

}  // namespace baton

#endif  // BATON_COMMON_TEST_DELAY_H_
