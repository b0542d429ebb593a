// SPDX-License-Identifier: Apache-2.0
// A program of its own: all files of a program are with ranges, or all are without.
#define BALLAST_NVTX_ENABLED
#include <ballast/gpu/streams.hpp>

#include "../../support/test.hpp"

namespace {

using ballast::nvtx_range;

// What Nsight Systems would draw.
std::vector<std::string> events;

int push(char const* name)
{
  events.push_back(std::string("push ") + name);
  return 0;
}

int pop()
{
  events.push_back("pop");
  return 0;
}

template <class F>
void attach(NvtxFunctionTable table, NvtxCallbackIdCore id, F* function)
{
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

int start_tool(NvtxGetExportTableFunc_t exports)
{
  auto const* const callbacks =
      static_cast<NvtxExportTableCallbacks const*>(exports(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) { return 0; }
  attach(table, NVTX_CBID_CORE_RangePushA, push);
  attach(table, NVTX_CBID_CORE_RangePop, pop);
  return 1;
}

static_assert(!std::is_copy_constructible_v<nvtx_range>);

TEST(NvtxRange, LastsAsLongAsItsObject)
{
  InitializeInjectionNvtx2_fnptr = start_tool;  // NVTX asks for it at the first call
  {
    nvtx_range const outer("ballast::route");
    nvtx_range const inner("ballast::pack_rows");
  }
  nvtx_range const next("ballast::costs_of");
  EXPECT_EQ(events, (std::vector<std::string>{"push ballast::route", "push ballast::pack_rows",
                                              "pop", "pop", "push ballast::costs_of"}));
}

}  // namespace
