// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ballast_test {

/// What a kernel over repeated_rows or summed_rows does, thread after thread.
template <class Rows>
void run_rows_on_host(Rows const& rows)
{
  constexpr std::size_t threads = 5;
  for (std::size_t thread = 0; thread < threads; ++thread) { rows.run(thread, threads); }
}

}  // namespace ballast_test
