// SPDX-License-Identifier: Apache-2.0
// The kernels of a layer, by the host's compiler.
#include "../../../examples/ballast/gpu/gpu_kernels.cu"
