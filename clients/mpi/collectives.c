/* The calls that wait, and the beginning and end of a program. */
#include "internal.h"

#include <stdlib.h>

int MPI_Init(int *argc, char ***argv)
{
    int code = PMPI_Init(argc, argv);

    if (code == MPI_SUCCESS)
        start_with_world();
    return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code = PMPI_Init_thread(argc, argv, required, provided);

    if (code == MPI_SUCCESS)
        start_with_world();
    return code;
}

int MPI_Finalize(void)
{
    leave_all();
    print_statistics();
    return PMPI_Finalize();
}

/* Fortran's, which go to MPI's profiled functions and past the ones above. `ierror` may be absent in f08. */
#define FORTRAN(call)          \
    int code = (call);         \
    if (ierror)                \
        *ierror = (MPI_Fint)code

#define EXPORTED __attribute__((visibility("default")))

#define FORTRAN_CALLS(name)                                                                     \
    EXPORTED void mpi_init##name(MPI_Fint *ierror);                                        \
    EXPORTED void mpi_finalize##name(MPI_Fint *ierror);                                    \
    EXPORTED void mpi_init_thread##name(MPI_Fint *, MPI_Fint *, MPI_Fint *);               \
    void mpi_init##name(MPI_Fint *ierror) { FORTRAN(MPI_Init(NULL, NULL)); }                    \
    void mpi_finalize##name(MPI_Fint *ierror) { FORTRAN(MPI_Finalize()); }                      \
    void mpi_init_thread##name(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)        \
    {                                                                                           \
        int given = 0;                                                                          \
        FORTRAN(MPI_Init_thread(NULL, NULL, (int)*required, &given));                           \
        *provided = (MPI_Fint)given;                                                            \
    }

FORTRAN_CALLS(_)
FORTRAN_CALLS(_f08_)

static bool is_rank(int root, MPI_Comm comm)
{
    int ranks = 0;

    return PMPI_Comm_size(comm, &ranks) == MPI_SUCCESS && root >= 0 && root < ranks;
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm)
{
    int dtype, operation;
    size_t bytes = bytes_of(count, datatype, comm);
    const void *input = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    struct job *job = NULL;
    struct outcome outcome;
    pascaline_status status;

    if (large_enough(bytes) && known(ALLREDUCE, datatype, op, comm, &dtype, &operation)) {
        if (!input || !recvbuf)
            return no_buffer(comm);
        if (are_for_all(sendbuf, recvbuf, count))
            job = job_of(comm, ALLREDUCE, true);
    }
    if (!job) {
        count_theirs(ALLREDUCE);
        return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    }
    pthread_mutex_lock(&job->calls);
    status = pascaline_allreduce(job->handle, input, recvbuf, (size_t)count, dtype, operation);
    end_call(job, status, &outcome);
    return conclude(comm, ALLREDUCE, &outcome, bytes);
}

int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
               MPI_Comm comm)
{
    int dtype, operation, rank = -1;
    size_t bytes = bytes_of(count, datatype, comm);
    const void *input = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    struct job *job = NULL;
    struct outcome outcome;
    pascaline_status status;

    if (large_enough(bytes) && known(REDUCE, datatype, op, comm, &dtype, &operation) && is_rank(root, comm)) {
        PMPI_Comm_rank(comm, &rank);
        if (!input || (rank == root && !recvbuf))
            return no_buffer(comm);
        if (rank == root ? recvbuf != MPI_IN_PLACE && sendbuf != recvbuf : sendbuf != MPI_IN_PLACE)
            job = job_of(comm, REDUCE, true);
    }
    if (!job) {
        count_theirs(REDUCE);
        return PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
    }
    pthread_mutex_lock(&job->calls);
    status = pascaline_reduce(job->handle, input, recvbuf, (size_t)count, dtype, operation, root);
    end_call(job, status, &outcome);
    return conclude(comm, REDUCE, &outcome, bytes);
}

static int broadcast(struct job *job, void *buffer, size_t bytes, int root, MPI_Comm comm)
{
    struct outcome outcome;

    pthread_mutex_lock(&job->calls);
    end_call(job, pascaline_broadcast(job->handle, buffer, bytes, root), &outcome);
    return conclude(comm, BCAST, &outcome, bytes);
}

/* Of elements that are not side by side, as bytes that are. */
static int broadcast_packed(struct job *job, void *buffer, int count, MPI_Datatype datatype, int root,
                            MPI_Comm comm, size_t bytes)
{
    char *packed = malloc(bytes);
    int rank, at = 0, code = MPI_SUCCESS;

    if (!packed)
        return no_memory(comm, BCAST);
    PMPI_Comm_rank(comm, &rank);
    if (rank == root)
        code = PMPI_Pack(buffer, count, datatype, packed, (int)bytes, &at, comm);
    if (code == MPI_SUCCESS)
        code = broadcast(job, packed, bytes, root, comm);
    at = 0;
    if (code == MPI_SUCCESS && rank != root)
        code = PMPI_Unpack(packed, (int)bytes, &at, buffer, count, datatype, comm);
    free(packed);
    return code;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    /* The ranks need not name the same type, but as many bytes: nothing else may decide. */
    size_t bytes = bytes_of(count, datatype, comm);
    struct job *job = NULL;
    bool plain = false;

    if (large_enough(bytes) && bytes <= INT32_MAX && buffer != MPI_IN_PLACE && is_rank(root, comm)) {
        plain = is_plain(datatype);
        /* Other types may have addresses in them. */
        if (!buffer && plain)
            return no_buffer(comm);
        job = job_of(comm, BCAST, true);
    }
    if (!job) {
        count_theirs(BCAST);
        return PMPI_Bcast(buffer, count, datatype, root, comm);
    }
    return plain ? broadcast(job, buffer, bytes, root, comm)
                 : broadcast_packed(job, buffer, count, datatype, root, comm, bytes);
}

int MPI_Barrier(MPI_Comm comm)
{
    int between = 1;
    struct job *job = NULL;
    struct outcome outcome;

    if (comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &between) == MPI_SUCCESS && !between)
        job = job_of(comm, BARRIER, true);
    if (!job) {
        count_theirs(BARRIER);
        return PMPI_Barrier(comm);
    }
    pthread_mutex_lock(&job->calls);
    end_call(job, pascaline_barrier(job->handle), &outcome);
    return conclude(comm, BARRIER, &outcome, 0);
}
