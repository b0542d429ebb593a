// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ballast_test {

/// Who packs and unpacks what a rank exchanges: the host, or what is queued on its stream, or there
/// with a side stream for what stays on the rank.
enum class mover { of_host, queued, queued_beside };

inline constexpr mover all_movers[]{mover::of_host, mover::queued, mover::queued_beside};

}  // namespace ballast_test
