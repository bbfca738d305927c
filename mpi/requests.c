/* MPI_Iallreduce, and the calls that wait for requests.
 *
 * A request is one of MPI's own generalized requests. It is completed from within the calls below, in the
 * program's thread: MPI need not have been started for several. A call that waits polls both sides.
 */
#include "internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct pending {
    struct job *job;
    pascaline_request request;
    MPI_Request outer;
    MPI_Comm comm;
    size_t bytes;
    int code;
    struct pending *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *pending;
static atomic_int outstanding;

static int query(void *extra, MPI_Status *status)
{
    struct pending *one = extra;

    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return one->code;
}

static int release(void *extra)
{
    free(extra);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    size_t bytes = bytes_of(count, datatype, comm);
    int dtype, operation, code;
    struct job *job = NULL;
    struct pending *one;
    pascaline_status status;

    if (large_enough(bytes) && known(IALLREDUCE, datatype, op, comm, &dtype, &operation))
        job = job_of(comm, IALLREDUCE, false);
    if (!job) {
        count_theirs(IALLREDUCE);
        return PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
    }
    one = calloc(1, sizeof *one);
    if (!one)
        return conclude(comm, job, IALLREDUCE, PASCALINE_ERR_SYSTEM, 0);
    *one = (struct pending){.job = job, .comm = comm, .bytes = bytes};
    status = pascaline_iallreduce(job->handle, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, recvbuf,
                                  (size_t)count, dtype, operation, &one->request);
    if (status != PASCALINE_OK) {
        free(one);
        return conclude(comm, job, IALLREDUCE, status, 0);
    }
    code = PMPI_Grequest_start(query, release, cancel, one, &one->outer);
    if (code != MPI_SUCCESS) {
        pascaline_wait(job->handle, &one->request);
        free(one);
        return code;
    }
    *request = one->outer;
    pthread_mutex_lock(&lock);
    one->next = pending;
    pending = one;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&outstanding, 1);
    return MPI_SUCCESS;
}

/* Takes a request out of the list whose operation has ended; null if there is none. With a job, only one of
 * its requests, for which it waits. */
static struct pending *ended(struct job *job, pascaline_status *status)
{
    struct pending *one, **place;
    int done = 0;

    pthread_mutex_lock(&lock);
    for (place = &pending; (one = *place); place = &one->next) {
        if (job && job != one->job)
            continue;
        if (job)
            *status = pascaline_wait(one->job->handle, &one->request);
        else
            *status = pascaline_test(one->job->handle, &one->request, &done);
        /* Otherwise it runs, or another thread is in a call on this communicator. */
        if (job || done) {
            *place = one->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return one;
}

/* Completes what has ended: not under the lock, since an error handler may be the program's own. */
static void complete(struct job *job)
{
    struct pending *one;
    pascaline_status status;

    while ((one = ended(job, &status))) {
        atomic_fetch_sub(&outstanding, 1);
        one->code = conclude(one->comm, one->job, IALLREDUCE, status, one->bytes);
        PMPI_Grequest_complete(one->outer);
    }
}

void complete_those_of(struct job *job)
{
    complete(job);
}

/* Polls both sides until MPI says that it is over. */
#define UNTIL(over, call)                     \
    do {                                      \
        int code_;                            \
        complete(NULL);                       \
        code_ = (call);                       \
        if (code_ != MPI_SUCCESS || (over))   \
            return code_;                     \
        sched_yield();                        \
    } while (1)

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    int flag = 0;

    if (!outstanding)
        return PMPI_Wait(request, status);
    UNTIL(flag, PMPI_Test(request, &flag, status));
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int flag = 0;

    if (!outstanding)
        return PMPI_Waitall(count, requests, statuses);
    UNTIL(flag, PMPI_Testall(count, requests, &flag, statuses));
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    int flag = 0;

    if (!outstanding)
        return PMPI_Waitany(count, requests, index, status);
    UNTIL(flag, PMPI_Testany(count, requests, index, &flag, status));
}

int MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
    if (!outstanding)
        return PMPI_Waitsome(count, requests, done, indices, statuses);
    UNTIL(*done != 0, PMPI_Testsome(count, requests, done, indices, statuses));
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    if (outstanding)
        complete(NULL);
    return PMPI_Test(request, flag, status);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    if (outstanding)
        complete(NULL);
    return PMPI_Testall(count, requests, flag, statuses);
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    if (outstanding)
        complete(NULL);
    return PMPI_Testany(count, requests, index, flag, status);
}

int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
    if (outstanding)
        complete(NULL);
    return PMPI_Testsome(count, requests, done, indices, statuses);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    if (outstanding)
        complete(NULL);
    return PMPI_Request_get_status(request, flag, status);
}
