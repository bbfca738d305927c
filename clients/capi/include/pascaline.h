/* libpascaline: sums over the ranks of a job, made by a Pascaline appliance.
 * Generated from clients/capi/src: do not edit. */

#ifndef PASCALINE_H
#define PASCALINE_H

#include <stddef.h>
#include <stdint.h>

// What a call returns. `pascaline_strerror` has a text for each, `pascaline_last_error` more about the
// latest error of a handle.
typedef enum pascaline_status {
  // Done.
  PASCALINE_OK = 0,
  // A pointer is null that must not be, or a handle is.
  PASCALINE_ERR_NULL = 1,
  // The URL is not understood.
  PASCALINE_ERR_URL = 2,
  // The host's name has no address.
  PASCALINE_ERR_RESOLVE = 3,
  // Buffers overlap, there is no such root or layer, or the parts do not make up the tensor.
  PASCALINE_ERR_ARGUMENT = 4,
  // The elements do not fit into memory, or need too many packets; or not 1 to 64 streams.
  PASCALINE_ERR_COUNT = 5,
  // There is no such element type or operation, or the appliance does not have it.
  PASCALINE_ERR_UNSUPPORTED = 6,
  // Another thread is in a call on this handle.
  PASCALINE_ERR_BUSY = 7,
  // The handle has no such request, or too many.
  PASCALINE_ERR_REQUEST = 8,
  // The appliance does not answer.
  PASCALINE_ERR_UNREACHABLE = 9,
  // Not all ranks joined in time.
  PASCALINE_ERR_INCOMPLETE = 10,
  // The operation's deadline passed.
  PASCALINE_ERR_TIMEOUT = 11,
  // The appliance refuses this rank.
  PASCALINE_ERR_REJECTED = 12,
  // The ranks disagree: on the type, the count, the operation, the payload or the number of ranks.
  PASCALINE_ERR_MISMATCH = 13,
  // A rank has restarted. The handle stays usable. Nothing begins until every request that failed this way
  // has been waited for; the next operation is then the first one of all ranks.
  PASCALINE_ERR_GENERATION = 14,
  // Ranks have died, or have left before the operation.
  PASCALINE_ERR_RANKS_LOST = 15,
  // Packets of this payload do not fit into the path.
  PASCALINE_ERR_TOO_LONG = 16,
  // The handle can no longer be used: an earlier error, or it was made before a fork.
  PASCALINE_ERR_STATE = 17,
  // The operating system returned an error.
  PASCALINE_ERR_SYSTEM = 18,
  // A defect of the library: the handle can no longer be used.
  PASCALINE_ERR_INTERNAL = 19,
  // With `security=masked`: what arrived is not the sum of what the ranks sent.
  PASCALINE_ERR_INTEGRITY = 20,
} pascaline_status;

// The type of a buffer's elements.
typedef enum pascaline_dtype {
  // float
  PASCALINE_F32 = 1,
  // int32_t; sums saturate, which `pascaline_last_report` tells
  PASCALINE_I32 = 2,
  // IEEE 754 binary16, 2 bytes
  PASCALINE_F16 = 3,
  // bfloat16, 2 bytes
  PASCALINE_BF16 = 4,
  // double
  PASCALINE_F64 = 5,
  // 32 numbers of OCP MXFP8 (E4M3) behind their scale, 33 bytes; only added
  PASCALINE_MXFP8 = 6,
  // 32 numbers of OCP MXINT8 behind their scale, 33 bytes; only added
  PASCALINE_MXINT8 = 7,
  // uint32_t; sums wrap, as do those of int32_t given as this; no mean
  PASCALINE_U32 = 8,
} pascaline_dtype;

// What an operation makes of the elements of all ranks.
typedef enum pascaline_op {
  // Their sum.
  PASCALINE_SUM = 0,
  // The least of them.
  PASCALINE_MIN = 1,
  // The greatest of them.
  PASCALINE_MAX = 2,
  // Their sum divided by the number of ranks.
  PASCALINE_MEAN = 3,
} pascaline_op;

// One rank of a job.
typedef struct pascaline_handle pascaline_handle;

// An operation that runs meanwhile. 0 is none.
typedef uint64_t pascaline_request;

// What the latest operation was like.
typedef struct pascaline_report {
  // Length of the tensor in bytes.
  uint64_t bytes;
  // Packets that it took up.
  uint64_t packets;
  // From its start to the last result, in nanoseconds.
  uint64_t elapsed_ns;
  // From a packet to its result, in nanoseconds, smoothed; 0 if it is not known.
  uint64_t round_trip_ns;
  // Packets sent again.
  uint64_t retransmissions;
  // Packets of int32_t in which a sum has saturated.
  uint64_t overflows;
  // Ranks that the result lacks: only with `partial=1` in the URL.
  uint64_t missing_ranks;
} pascaline_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Joins a job, and waits until all of its ranks have.
//
// The URL is `pascaline://appliance:16420?job=1&rank=0&ranks=4`: a name, an IPv4 address, or an IPv6 address
// in brackets; the port may be left out. Further keys: `payload`, `in_flight`, `congestion`, `spread`,
// `udp_ports`, `dscp`, `bind`, `timeout` (`500ms`, `30`: of joining and of each operation), `join_timeout`,
// `linger`, `silence`, `partial=1` (take results that lack ranks), `wire` (as `pascaline_set_wire`: `f32`,
// `f16`, `bf16`, `mxfp8`, `mxint8`), `security` with `key` (a file): `masked` (the appliance cannot read
// what it adds), `mac` (packets prove their sender) or `encrypt` (and no host on the path can read them).
// See docs/clients.md.
//
// Unless it returns PASCALINE_ERR_NULL or PASCALINE_ERR_INTERNAL, `*handle` is then a handle:
// after an error, one that `pascaline_last_error` and `pascaline_finalize` take.
//
// # Safety
// `url` must be null or a string that ends with a 0, and `handle` null or a place for a pointer.
enum pascaline_status pascaline_init(const char *url,
                                     struct pascaline_handle **handle);

// Completes the operations in flight, leaves the job and frees the handle; `*handle` is null afterwards.
// Helps ranks that still need results, for a while (`linger`). A program that ends without it is to the
// others like one that has crashed.
//
// # Safety
// `handle` must be null or point to a handle or to null. No other thread may use the handle from now on.
enum pascaline_status pascaline_finalize(struct pascaline_handle **handle);

// Whether an operation has ended: `*done` is then 1, `*request` 0, and its status is returned. The request 0
// has ended.
//
// # Safety
// `handle` must be null or a handle, `request` and `done` null or places for what they are.
enum pascaline_status pascaline_test(struct pascaline_handle *handle,
                                     pascaline_request *request,
                                     int *done);

// Waits until an operation has ended, and returns its status; `*request` is then 0. The request 0 has ended.
//
// # Safety
// `handle` must be null or a handle, `request` null or a place for one.
enum pascaline_status pascaline_wait(struct pascaline_handle *handle,
                                     pascaline_request *request);

// What the latest operation of the handle was like that ended well.
//
// # Safety
// `handle` must be null or a handle, `report` null or a place for one.
enum pascaline_status pascaline_last_report(struct pascaline_handle *handle,
                                            struct pascaline_report *report);

// The text of the handle's latest error: which rank, which reason, what to do. Empty if there was
// none. Good until the next call on the handle.
//
// # Safety
// `handle` must be null or a handle.
const char *pascaline_last_error(const struct pascaline_handle *handle);

// The text of a status, of any number.
const char *pascaline_strerror(int status);

// The library's version, as in "0.1.0".
const char *pascaline_version(void);

// Replaces each of `count` elements at `output` by what `op` makes of those at `input` of all ranks. The
// same pointer twice works in place; otherwise the two must not overlap. All ranks must call it with the
// same count, `dtype` (a `pascaline_dtype`) and `op` (a `pascaline_op`). Ends with an error at the deadline
// at the latest; the output is then unspecified.
//
// # Safety
// `handle` must be null or a handle, and the buffers hold `count` elements.
enum pascaline_status pascaline_allreduce(struct pascaline_handle *handle,
                                          const void *input,
                                          void *output,
                                          size_t count,
                                          int dtype,
                                          int op);

// Begins an allreduce and returns at once. Neither buffer may be used until `pascaline_wait` or
// `pascaline_test` has said that the request is done. Operations of a handle are carried out in the order in
// which they are called.
//
// # Safety
// As for `pascaline_allreduce`, until the request is done; `request` must be null or a place for one.
enum pascaline_status pascaline_iallreduce(struct pascaline_handle *handle,
                                           const void *input,
                                           void *output,
                                           size_t count,
                                           int dtype,
                                           int op,
                                           pascaline_request *request);

// As `pascaline_allreduce`, but only the rank `root` gets the result: `output` of the others is not used,
// and may be null.
//
// # Safety
// As for `pascaline_allreduce`.
enum pascaline_status pascaline_reduce(struct pascaline_handle *handle,
                                       const void *input,
                                       void *output,
                                       size_t count,
                                       int dtype,
                                       int op,
                                       int root);

// Replaces the `bytes` bytes at `buffer` of every rank by those of the rank `root`, whose own are only read.
//
// # Safety
// `handle` must be null or a handle, and the buffer hold as many bytes.
enum pascaline_status pascaline_broadcast(struct pascaline_handle *handle,
                                          void *buffer,
                                          size_t bytes,
                                          int root);

// Returns once every rank has called it. One round trip.
//
// # Safety
// `handle` must be null or a handle.
enum pascaline_status pascaline_barrier(struct pascaline_handle *handle);

// Replaces this rank's part of the `count` elements at `tensor` by what `op` makes of that part of the
// tensors of all ranks; the rest stays as it is. The parts follow each other in the order of ranks: `counts`
// has the elements of each rank's, or is null for even ones. `pascaline_part` says where a part is.
//
// # Safety
// `handle` must be null or a handle, the buffer hold `count` elements, and `counts` be null or hold as many
// numbers as the job has ranks.
enum pascaline_status pascaline_reduce_scatter(struct pascaline_handle *handle,
                                               void *tensor,
                                               size_t count,
                                               const size_t *counts,
                                               int dtype,
                                               int op);

// Replaces every part of the `count` elements at `tensor` by that of the rank whose part it is. The parts
// are those of `pascaline_reduce_scatter`.
//
// # Safety
// As for `pascaline_reduce_scatter`.
enum pascaline_status pascaline_allgather(struct pascaline_handle *handle,
                                          void *tensor,
                                          size_t count,
                                          const size_t *counts,
                                          int dtype);

// Where this rank's part of `count` elements is: `*first` is its first element, `*length` how many it has.
//
// # Safety
// `handle` must be null or a handle, `counts` as for `pascaline_reduce_scatter`, and the others null or
// places for a number.
enum pascaline_status pascaline_part(struct pascaline_handle *handle,
                                     size_t count,
                                     const size_t *counts,
                                     size_t *first,
                                     size_t *length);

// What `float` elements travel as from now on in the handle's operations that add: as `dtype`, one of
// PASCALINE_F16, PASCALINE_BF16, PASCALINE_MXFP8 and PASCALINE_MXINT8, in half or a quarter of the bytes and
// rounded, or as they are with PASCALINE_F32, as in the beginning. All ranks must say the same. Sums and
// means are rounded so in pascaline_allreduce, pascaline_iallreduce, pascaline_reduce and
// pascaline_reduce_scatter, whose parts must be whole blocks of 32 for the MX types; nothing else changes.
//
// # Safety
// `handle` must be null or a handle.
enum pascaline_status pascaline_set_wire(struct pascaline_handle *handle,
                                         int dtype);

// Joins `count` streams of a job, 1 to 64, and waits until all ranks have. Each is a handle of its own, with
// every call of this header, and may be used by another thread: what is begun in one does not wait for what
// runs in another, so that a small operation overtakes a large one. Within a stream the order is that of
// the calls, which must be the same at all ranks.
//
// The URL is that of `pascaline_init`, and all ranks name as many streams. The appliance must have a job
// for each: stream s of job j is job j + s; with t trees, it has the numbers from j + s * t on.
//
// Unless it returns PASCALINE_ERR_NULL, PASCALINE_ERR_COUNT or PASCALINE_ERR_INTERNAL, all of
// `handles` are then handles. After an error none has joined, and `pascaline_last_error` of each says why.
// `pascaline_streams_finalize` is for all of them, `pascaline_finalize` for a single one.
//
// # Safety
// `url` must be null or a string that ends with a 0, and `handles` null or have places for `count` pointers.
enum pascaline_status pascaline_streams_init(const char *url,
                                             size_t count,
                                             struct pascaline_handle **handles);

// Completes the operations in flight in all streams, leaves their jobs and frees the handles, which are null
// afterwards. All leave at the same time: one after the other, ranks that do so in different orders would
// wait for each other. Of `handles` those that are null are passed over. If another thread is in a call on
// one of them, nothing happens.
//
// # Safety
// `handles` must be null or have `count` pointers, each null or a handle. No other thread may use them from
// now on.
enum pascaline_status pascaline_streams_finalize(struct pascaline_handle **handles,
                                                 size_t count);

// Which layer of a model the operations belong to that are called from now on, of `layers`, counted from 1
// for the layer next to the input, whose gradient is computed last and needed first; 0 and 0, the default,
// if unknown. Where operations contend for the appliance's memory, those of lower layers go first.
//
// # Safety
// `handle` must be null or a handle.
enum pascaline_status pascaline_set_layer(struct pascaline_handle *handle,
                                          int layer,
                                          int layers);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PASCALINE_H */
