// SPDX-License-Identifier: Apache-2.0
// Parts of ballast::compiled include this after the headers of which other parts have the definitions,
// where BALLAST_COMPILED is defined. What they include from here on is compiled in them.
#undef BALLAST_COMPILED
#undef BALLAST_ONCE
#ifdef __clang__  // of a constructor that is [[gnu::used]] it keeps what those of bases call
#define BALLAST_ONCE [[gnu::weak]]
#else
#define BALLAST_ONCE [[gnu::used]] inline
#endif
