/* What compiled host code calls of its compiler's runtime to raise errors. */
#include <stdint.h>
#include <stdio.h>

__asm__(".ident \"Exported by cutegen\""); /* by which the next export knows its own library */

const char* cudaGetErrorName(int code);

typedef void (*SetError)(const char* kind, const char** parts, int32_t count);

void CuteDSLRT_TVMFFISetRaisedCudaError(SetError set_error, int32_t code) {
  char number[16];
  snprintf(number, sizeof number, "%d, ", (int)code);
  const char* parts[] = {"CUDA error ", number, cudaGetErrorName(code)};
  set_error("CUDADialectError", parts, 3);
}

void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(
    SetError set_error, int32_t grid_x, int32_t grid_y, int32_t grid_z, int32_t block_x, int32_t block_y,
    int32_t block_z, int32_t block_threads, int64_t dynamic_smem, int32_t device, int32_t max_threads,
    int32_t max_block_x, int32_t max_block_y, int32_t max_block_z, int32_t max_grid_x, int32_t max_grid_y,
    int32_t max_grid_z, int32_t max_smem, int32_t max_smem_optin, const char* violation, const char* source_file,
    int32_t source_line, int32_t source_col, int32_t source_end_col) {
  char launch[200];
  snprintf(launch, sizeof launch, ": a grid of %d x %d x %d blocks of %d x %d x %d threads and %lld bytes on device %d",
           (int)grid_x, (int)grid_y, (int)grid_z, (int)block_x, (int)block_y, (int)block_z, (long long)dynamic_smem,
           (int)device);
  const char* parts[] = {"no launch: ", violation, launch};
  set_error("CUDADialectError", parts, 3);
}
