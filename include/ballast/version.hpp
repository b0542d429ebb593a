// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The release, as one number that `#if` can compare: major * 10000 + minor * 100 + patch.
///
/// The build reads the version from this line. A new minor release of 0.x, or a new major release
/// after that, also renames the inline namespace `v0`, so that two releases in one program never
/// share a symbol.
#define BALLAST_VERSION 100  // 0.1.0
