/* Which communicator goes through which job.
 *
 * MPI_COMM_WORLD has the job that PASCALINE_URL names, or the first of PASCALINE_JOBS. Of the others of that
 * range, the n-th process of the world has every n-th, to give to the communicators that it leads. So two
 * communicators that are made at the same time never get the same job, without anybody being asked.
 */
#include "internal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_JOBS = 65535, TEXT = WRONG };

static struct {
    char url[1024]; /* without the job, and with what comes before the next pair */
    int trees; /* of a job: each has the next number */
    int world_job;
    int first, last; /* jobs of other communicators */
    size_t min_bytes;
    char wrong[TEXT]; /* why nothing goes through an appliance; empty if something may */
    int key;
    int world_rank, world_size;
    bool used[MOST_JOBS + 1]; /* jobs of this process that are in use */
    bool off;                 /* the world goes through MPI, and so does everything else */
} settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `used`, and of what follows */
static struct job *jobs;
static struct job *leaving; /* whose communicators have been freed */

static bool number(const char *text, char **end, long most, long *value)
{
    *value = strtol(text, end, 10);
    return *end != text && *value >= 0 && *value <= most;
}

/* Takes the URL apart: the job is MPI's to add, and so are rank and ranks. */
static void read_url(const char *url)
{
    const char *query = strchr(url, '?');
    size_t length = query ? (size_t)(query - url) : strlen(url);
    char separator = '?', *end;
    long job;

    if (strlen(url) + 64 > sizeof settings.url) {
        snprintf(settings.wrong, TEXT, "PASCALINE_URL is too long");
        return;
    }
    memcpy(settings.url, url, length);
    for (size_t at = 0; at < length; at++)
        settings.trees += url[at] == ';';
    while (query && *query) {
        const char *pair = query + 1;
        size_t pair_length = strcspn(pair, "&");

        if (!strncmp(pair, "rank=", 5) || !strncmp(pair, "ranks=", 6)) {
            snprintf(settings.wrong, TEXT,
                     "PASCALINE_URL=%.200s names rank or ranks, which MPI knows: leave them out", url);
        } else if (pair_length == 9 && !strncmp(pair, "partial=1", 9)) {
            snprintf(settings.wrong, TEXT,
                     "PASCALINE_URL=%.200s: MPI could not tell what a sum lacks: leave partial out", url);
        } else if (!strncmp(pair, "job=", 4)) {
            if (settings.world_job >= 0)
                snprintf(settings.wrong, TEXT, "PASCALINE_URL=%.200s names the job twice", url);
            if (!number(pair + 4, &end, MOST_JOBS, &job) || end != pair + pair_length)
                snprintf(settings.wrong, TEXT, "PASCALINE_URL=%.200s: the job is no number up to 65535", url);
            settings.world_job = (int)job;
        } else if (pair_length) {
            settings.url[length++] = separator;
            separator = '&';
            memcpy(settings.url + length, pair, pair_length);
            length += pair_length;
        }
        query = pair[pair_length] ? pair + pair_length : NULL;
    }
    settings.url[length++] = separator;
    settings.url[length] = 0;
}

/* "1-8": the first for the world, unless the URL has one for it. */
static void read_jobs(const char *range)
{
    long first = 0, last = 0;
    char *end;

    if (!number(range, &end, MOST_JOBS, &first) || (*end && *end != '-') ||
        (*end == '-' && (!number(end + 1, &end, MOST_JOBS, &last) || *end))) {
        snprintf(settings.wrong, TEXT, "PASCALINE_JOBS=%.100s is no range such as 1-8", range);
        return;
    }
    if (!strchr(range, '-'))
        last = first;
    if (last < first) {
        snprintf(settings.wrong, TEXT, "PASCALINE_JOBS=%.100s ends before it begins", range);
        return;
    }
    settings.first = (int)first;
    settings.last = (int)last;
    if (settings.world_job < 0)
        settings.world_job = settings.first, settings.first += settings.trees;
}

static int forget(MPI_Comm comm, int key, void *attribute, void *extra);

static void start(void)
{
    const char *url = getenv("PASCALINE_URL"), *range = getenv("PASCALINE_JOBS");
    const char *least = getenv("PASCALINE_MIN_BYTES");
    MPI_Comm parent = MPI_COMM_NULL;
    char *end;
    long bytes = 0;

    settings.world_job = -1;
    settings.trees = 1;
    settings.last = -1;
    PMPI_Comm_rank(MPI_COMM_WORLD, &settings.world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &settings.world_size);
    if (!url || !*url)
        snprintf(settings.wrong, TEXT,
                 "PASCALINE_URL is not set; for example PASCALINE_URL=pascaline://10.77.0.254:16420");
    else
        read_url(url);
    if (range && *range)
        read_jobs(range);
    if (settings.world_job < 0)
        settings.world_job = 1;
    if (least && (!number(least, &end, INT32_MAX, &bytes) || *end))
        snprintf(settings.wrong, TEXT, "PASCALINE_MIN_BYTES=%.100s is no number of bytes", least);
    settings.min_bytes = (size_t)bytes;
    if (PMPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL)
        snprintf(settings.wrong, TEXT, "processes that others have spawned have no job of their own");
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &settings.key, NULL) != MPI_SUCCESS)
        PMPI_Abort(MPI_COMM_WORLD, 1);
}

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* A job for a communicator that this process leads; -1 if there is none left. */
static int take_job(MPI_Comm comm)
{
    int found = -1;

    if (comm == MPI_COMM_WORLD)
        return settings.world_job;
    pthread_mutex_lock(&lock);
    for (int job = settings.first + settings.world_rank * settings.trees;
         job + settings.trees - 1 <= settings.last; job += settings.world_size * settings.trees)
        if (!settings.used[job] && abs(job - settings.world_job) >= settings.trees) {
            settings.used[job] = true;
            found = job;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

static void give_back_job(int number)
{
    pthread_mutex_lock(&lock);
    settings.used[number] = false;
    pthread_mutex_unlock(&lock);
}

/* Lets all ranks of a communicator go the same way: returns whether none has anything against it. The lowest
 * rank that has, tells why. */
static bool agree(MPI_Comm comm, const char *against)
{
    struct {
        int against, rank;
    } mine = {*against != 0, 0}, worst;
    char text[TEXT];

    PMPI_Comm_rank(comm, &mine.rank);
    if (PMPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, comm) != MPI_SUCCESS)
        return false;
    if (!worst.against)
        return true;
    snprintf(text, TEXT, "%s", against);
    if (PMPI_Bcast(text, TEXT, MPI_CHAR, worst.rank, comm) == MPI_SUCCESS) {
        text[TEXT - 1] = 0;
        if (worst.rank)
            say_why(comm, "%s (rank %d)", text, worst.rank);
        else
            say_why(comm, "%s", text);
    }
    return false;
}

/* Joins, together with all ranks of the communicator. Returns null if no rank does. */
static pascaline_handle *join(MPI_Comm comm, int rank, int ranks, int *number)
{
    char url[sizeof settings.url + 64], against[TEXT];
    pascaline_handle *handle = NULL;
    pascaline_status status;
    bool all;

    snprintf(against, TEXT, "%s", settings.wrong);
    *number = -1;
    if (rank == 0 && !*against) {
        *number = take_job(comm);
        if (*number < 0 && settings.last < 0)
            snprintf(against, TEXT,
                     "PASCALINE_JOBS is not set, which has the jobs of communicators other than the world");
        else if (*number < 0)
            snprintf(against, TEXT,
                     "no job is left for a communicator that rank %d of the world leads: of PASCALINE_JOBS, "
                     "every %d-th is for those",
                     settings.world_rank, settings.world_size);
    }
    if (agree(comm, against) && PMPI_Bcast(number, 1, MPI_INT, 0, comm) == MPI_SUCCESS) {
        snprintf(url, sizeof url, "%sjob=%d&rank=%d&ranks=%d", settings.url, *number, rank, ranks);
        status = pascaline_init(url, &handle);
        if (status != PASCALINE_OK)
            snprintf(against, TEXT, "%s: %.400s", pascaline_strerror(status), pascaline_last_error(handle));
        all = agree(comm, against);
        if (all)
            return handle;
        pascaline_finalize(&handle);
    }
    if (rank == 0 && *number >= 0 && comm != MPI_COMM_WORLD)
        give_back_job(*number);
    return NULL;
}

/* Whether all processes of a communicator are in this one's world. What has been agreed on there, those of
 * another world, which others have spawned or connected to, know nothing of. */
static bool is_of_this_world(MPI_Comm comm)
{
    MPI_Group group, world, others;
    int count = -1;

    if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
        return false;
    if (PMPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
        if (PMPI_Group_difference(group, world, &others) == MPI_SUCCESS) {
            PMPI_Group_size(others, &count);
            /* An empty group may be MPI's own. */
            if (count)
                PMPI_Group_free(&others);
        }
        PMPI_Group_free(&world);
    }
    PMPI_Group_free(&group);
    return count == 0;
}

/* Keeps with a communicator how it goes: through a job that has this handle, or through MPI without one. */
static struct job *keep(MPI_Comm comm, pascaline_handle *handle, int number)
{
    struct job *job = malloc(sizeof *job);

    if (!job)
        /* The others would wait for this rank. */
        PMPI_Abort(comm, 1);
    *job = (struct job){.handle = handle, .number = number};
    pthread_mutex_init(&job->calls, NULL);
    pthread_mutex_lock(&lock);
    job->next = jobs;
    jobs = job;
    pthread_mutex_unlock(&lock);
    PMPI_Comm_set_attr(comm, settings.key, job);
    return handle ? job : NULL;
}

struct job *job_of(MPI_Comm comm, enum call call, bool may_join)
{
    struct job *job = NULL;
    pascaline_handle *handle;
    int found = 0, rank = 0, ranks = 0, number = -1;

    pthread_once(&started, start);
    if (settings.off || PMPI_Comm_get_attr(comm, settings.key, &job, &found) != MPI_SUCCESS)
        return NULL;
    if (found)
        return job->handle ? job : NULL;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    if (ranks < 2)
        return NULL;
    if (!is_of_this_world(comm)) {
        say_why(comm, "%s is on a communicator with processes of another world", call_names[call]);
        return keep(comm, NULL, -1);
    }
    if (!may_join) {
        say_why(comm, "%s is the communicator's first call: joining takes one that waits", call_names[call]);
        return NULL;
    }
    handle = join(comm, rank, ranks, &number);
    return keep(comm, handle, rank == 0 && comm != MPI_COMM_WORLD && handle ? number : -1);
}

static void free_job(struct job *job)
{
    pthread_mutex_destroy(&job->calls);
    free(job);
}

/* Leaves a job, which takes as long as another rank may need something; then its number may be used again. */
static void *leave(void *which)
{
    struct job *job = which;

    if (job->handle)
        pascaline_finalize(&job->handle);
    if (job->number >= 0)
        give_back_job(job->number);
    return NULL;
}

/* Called when a communicator is freed. */
static int forget(MPI_Comm comm, int key, void *attribute, void *extra)
{
    struct job *job = attribute, **place;

    (void)comm, (void)key, (void)extra;
    pthread_mutex_lock(&lock);
    for (place = &jobs; *place && *place != job; place = &(*place)->next)
        ;
    if (*place)
        *place = job->next;
    pthread_mutex_unlock(&lock);
    complete_those_of(job);
    /* Others may free it later, after a message that this rank has yet to send: nothing waits here. */
    if (job->handle && pthread_create(&job->leaving, NULL, leave, job) == 0) {
        pthread_mutex_lock(&lock);
        job->next = leaving;
        leaving = job;
        pthread_mutex_unlock(&lock);
    } else {
        leave(job);
        free_job(job);
    }
    return MPI_SUCCESS;
}

/* Waits for the threads that leave. */
static void wait_for_leaving(void)
{
    struct job *job;

    for (;;) {
        pthread_mutex_lock(&lock);
        job = leaving;
        if (job)
            leaving = job->next;
        pthread_mutex_unlock(&lock);
        if (!job)
            return;
        pthread_join(job->leaving, NULL);
        free_job(job);
    }
}

void start_with_world(void)
{
    long bytes;

    pthread_once(&started, start);
    bytes = (long)settings.min_bytes;
    if (settings.world_size > 1)
        meet(settings.world_rank, settings.world_size, &bytes, settings.wrong);
    settings.min_bytes = (size_t)bytes;
    /* All ranks see the same. */
    if (!job_of(MPI_COMM_WORLD, BARRIER, true))
        settings.off = true;
}

void leave_all(void)
{
    wait_for_leaving();
    for (struct job *job = jobs; job; job = job->next) {
        complete_those_of(job);
        if (job->handle)
            pascaline_finalize(&job->handle);
    }
}

bool large_enough(size_t bytes)
{
    pthread_once(&started, start);
    return bytes && bytes >= settings.min_bytes;
}
