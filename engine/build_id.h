// Which build of Baton this is, for parts that only fit together when they are of the same one.
#ifndef BATON_ENGINE_BUILD_ID_H_
#define BATON_ENGINE_BUILD_ID_H_

namespace baton::engine {

// Hexadecimal digits that follow from the headers which program and plug-ins share, and from what compiles them, and
// from nothing else: the same sources have the same id wherever and whenever they are built (cmake/build_id.cmake).
const char* BuildId();

}  // namespace baton::engine

#endif  // BATON_ENGINE_BUILD_ID_H_
