// SPDX-License-Identifier: Apache-2.0
// Parts of ballast::compiled include this after the headers of which other parts have the definitions,
// where BALLAST_COMPILED is defined. What they include from here on is compiled in them.
#undef BALLAST_COMPILED
#undef BALLAST_ONCE
#define BALLAST_ONCE BALLAST_KEPT
