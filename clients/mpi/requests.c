/* MPI_Iallreduce, and the calls that wait for requests.
 *
 * A request is one of MPI's own generalized requests. It is completed from within the calls below, in the
 * program's thread: MPI need not have been started for several. A call that waits polls both sides.
 */
#include "internal.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct pending {
    struct job *job;
    pascaline_request request;
    MPI_Request outer;
    MPI_Comm comm;
    size_t bytes;
    struct outcome outcome;
    int code;
    struct pending *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *pending;
static atomic_int outstanding; /* that MPI has not freed yet */

/* The requests that a call of MPI waits for, with the errors of those that it has found to have one. MPI
 * would give them to the handler of MPI_COMM_WORLD, since it knows no communicator of such a request. */
struct watch {
    int count;
    int failed;
    struct watched {
        MPI_Request request;
        int code;
    } *of, few[8];
};

static _Thread_local struct watch *watch;

/* MPI calls it in the thread that waits. */
static int query(void *extra, MPI_Status *status)
{
    struct pending *one = extra;

    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    for (int at = 0; one->code != MPI_SUCCESS && watch && at < watch->count; at++)
        if (watch->of[at].request == one->outer) {
            watch->of[at].code = one->code;
            watch->failed = at + 1;
            return MPI_SUCCESS;
        }
    return one->code;
}

static int release(void *extra)
{
    free(extra);
    atomic_fetch_sub(&outstanding, 1);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static void wait_for(struct pending *one)
{
    pthread_mutex_lock(&one->job->calls);
    end_call(one->job, pascaline_wait(one->job->handle, &one->request), &one->outcome);
}

/* Whether an operation is known to have ended. Where another thread is in a call on its communicator, that
 * one or a later look will tell. */
static bool has_ended(struct pending *one)
{
    pascaline_status status;
    int done = 0;

    if (pthread_mutex_trylock(&one->job->calls))
        return false;
    status = pascaline_test(one->job->handle, &one->request, &done);
    end_call(one->job, status, &one->outcome);
    return done;
}

int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    size_t bytes = bytes_of(count, datatype, comm);
    int dtype, operation, code;
    struct job *job = NULL;
    const void *input = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    struct pending *one;
    pascaline_status status;

    if (large_enough(bytes) && known(IALLREDUCE, datatype, op, comm, &dtype, &operation)) {
        if (!input || !recvbuf)
            return no_buffer(comm);
        if (request && are_for_all(sendbuf, recvbuf, count))
            job = job_of(comm, IALLREDUCE, false);
    }
    if (!job) {
        count_theirs(IALLREDUCE);
        return PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
    }
    one = calloc(1, sizeof *one);
    if (!one)
        return no_memory(comm, IALLREDUCE);
    one->job = job, one->comm = comm, one->bytes = bytes;
    pthread_mutex_lock(&job->calls);
    status = pascaline_iallreduce(job->handle, input, recvbuf, (size_t)count, dtype, operation,
                                  &one->request);
    end_call(job, status, &one->outcome);
    if (one->outcome.status != PASCALINE_OK) {
        code = conclude(comm, IALLREDUCE, &one->outcome, 0);
        free(one);
        return code;
    }
    code = PMPI_Grequest_start(query, release, cancel, one, &one->outer);
    if (code != MPI_SUCCESS) {
        wait_for(one);
        free(one);
        return code;
    }
    atomic_fetch_add(&outstanding, 1);
    *request = one->outer;
    pthread_mutex_lock(&lock);
    one->next = pending;
    pending = one;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

/* Takes a request out of the list whose operation has ended; null if there is none. With a job, the first of
 * its requests, ended or not. */
static struct pending *take(struct job *job)
{
    struct pending *one, **place;

    pthread_mutex_lock(&lock);
    for (place = &pending; (one = *place); place = &one->next)
        if (job ? job == one->job : has_ended(one)) {
            *place = one->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return one;
}

/* Completes what has ended, or all of a job: not under the lock, since an error handler may be the program's
 * own. */
static void complete(struct job *job)
{
    struct pending *one;

    while ((one = take(job))) {
        if (job)
            wait_for(one);
        one->code = conclude(one->comm, IALLREDUCE, &one->outcome, one->bytes);
        PMPI_Grequest_complete(one->outer);
    }
}

void complete_those_of(struct job *job)
{
    complete(job);
}

static void watch_over(struct watch *mine, int count, const MPI_Request requests[])
{
    *mine = (struct watch){.count = requests && count > 0 ? count : 0, .of = mine->few};
    if (mine->count > (int)(sizeof mine->few / sizeof *mine->few))
        mine->of = malloc((size_t)mine->count * sizeof *mine->of);
    /* Without memory, errors take MPI's way. */
    if (!mine->of)
        mine->count = 0;
    for (int at = 0; at < mine->count; at++)
        mine->of[at] = (struct watched){requests[at], MPI_SUCCESS};
}

/* Makes a call of MPI, whose queries find the watch. */
#define WATCHED(mine, code, call)      \
    do {                               \
        struct watch *before_ = watch; \
        complete(NULL);                \
        (mine)->failed = 0;            \
        watch = (mine);                \
        (code) = (call);               \
        watch = before_;               \
    } while (0)

/* Polls both sides until MPI says that it is over. */
#define UNTIL(over, mine, code, call)           \
    do {                                        \
        WATCHED(mine, code, call);              \
        if ((code) != MPI_SUCCESS || (over))    \
            break;                              \
        sched_yield();                          \
    } while (1)

/* What a call returns that has completed one request at most. */
static int of_one(struct watch *mine, int code)
{
    if (mine->failed && code == MPI_SUCCESS)
        code = mine->of[mine->failed - 1].code;
    if (mine->of != mine->few)
        free(mine->of);
    return code;
}

/* The code of a call that has completed this many: all of them, or those of `indices`. */
static int of_several(struct watch *mine, int code, int completed, const int indices[], MPI_Status statuses[])
{
    for (int at = 0; mine->failed && statuses != MPI_STATUSES_IGNORE && at < completed; at++) {
        int failure = mine->of[indices ? indices[at] : at].code;

        /* Where MPI has found errors, too, it has set all. */
        if (failure != MPI_SUCCESS || code == MPI_SUCCESS)
            statuses[at].MPI_ERROR = failure;
    }
    if (mine->failed)
        code = MPI_ERR_IN_STATUS;
    if (mine->of != mine->few)
        free(mine->of);
    return code;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    struct watch mine;
    int flag = 0, code;

    if (!outstanding)
        return PMPI_Wait(request, status);
    watch_over(&mine, 1, request);
    UNTIL(flag, &mine, code, PMPI_Test(request, &flag, status));
    return of_one(&mine, code);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct watch mine;
    int flag = 0, code;

    if (!outstanding)
        return PMPI_Waitall(count, requests, statuses);
    watch_over(&mine, count, requests);
    UNTIL(flag, &mine, code, PMPI_Testall(count, requests, &flag, statuses));
    return of_several(&mine, code, mine.count, NULL, statuses);
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct watch mine;
    int flag = 0, code;

    if (!outstanding)
        return PMPI_Waitany(count, requests, index, status);
    watch_over(&mine, count, requests);
    UNTIL(flag, &mine, code, PMPI_Testany(count, requests, index, &flag, status));
    return of_one(&mine, code);
}

int MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
    struct watch mine;
    int code;

    if (!outstanding)
        return PMPI_Waitsome(count, requests, done, indices, statuses);
    watch_over(&mine, count, requests);
    UNTIL(*done != 0, &mine, code, PMPI_Testsome(count, requests, done, indices, statuses));
    return of_several(&mine, code, *done, indices, statuses);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct watch mine;
    int code;

    if (!outstanding)
        return PMPI_Test(request, flag, status);
    watch_over(&mine, 1, request);
    WATCHED(&mine, code, PMPI_Test(request, flag, status));
    return of_one(&mine, code);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct watch mine;
    int code;

    if (!outstanding)
        return PMPI_Testall(count, requests, flag, statuses);
    watch_over(&mine, count, requests);
    WATCHED(&mine, code, PMPI_Testall(count, requests, flag, statuses));
    if (code == MPI_SUCCESS && !*flag)
        /* Looked at, and there still. */
        mine.failed = 0;
    return of_several(&mine, code, mine.count, NULL, statuses);
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct watch mine;
    int code;

    if (!outstanding)
        return PMPI_Testany(count, requests, index, flag, status);
    watch_over(&mine, count, requests);
    WATCHED(&mine, code, PMPI_Testany(count, requests, index, flag, status));
    return of_one(&mine, code);
}

int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
    struct watch mine;
    int code;

    if (!outstanding)
        return PMPI_Testsome(count, requests, done, indices, statuses);
    watch_over(&mine, count, requests);
    WATCHED(&mine, code, PMPI_Testsome(count, requests, done, indices, statuses));
    return of_several(&mine, code, *done, indices, statuses);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    struct watch mine;
    int code;

    if (!outstanding)
        return PMPI_Request_get_status(request, flag, status);
    watch_over(&mine, 1, &request);
    WATCHED(&mine, code, PMPI_Request_get_status(request, flag, status));
    /* The call that completes the request returns its error. */
    if (mine.failed && status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = of_one(&mine, MPI_SUCCESS);
    return code;
}
