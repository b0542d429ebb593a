// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_NCCL_MOVER_HPP
#define BALLAST_TESTS_NCCL_MOVER_HPP

namespace ballast_test {

/// Who packs and unpacks what a rank exchanges: the host, or what is queued on its stream, or there
/// with a side stream for what stays on the rank.
enum class mover { of_host, queued, queued_beside };

}  // namespace ballast_test

#endif  // BALLAST_TESTS_NCCL_MOVER_HPP
