// For tests of what SentencePiece learns: a build may be without it.
#pragma once

#include <gtest/gtest.h>

#ifdef LITHE_HAVE_SENTENCEPIECE
#define NEEDS_SENTENCEPIECE static_assert(true)
#else
#define NEEDS_SENTENCEPIECE GTEST_SKIP() << "built without SentencePiece"
#endif
