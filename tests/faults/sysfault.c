/* Runs a program and lets one of its system calls go wrong: the tests' way to kill mcx, or to fail its disk, at every
 * point, with no code for it in the product. Linux on x86-64.
 *
 *   sysfault ROOT SET WHAT N[+] LOG PROGRAM ARGUMENT...
 *
 *   ROOT  only calls on what is at or below this folder count
 *   SET   change: calls that change a file system; every: those of the program that look and read, too, but not such
 *         calls of what it starts
 *   WHAT  kill: the program and all it has started die before the call is made
 *         kill-first: only the program dies, what it has started runs to its end (as `systemctl` does)
 *         a number: the call is not made and fails with this errno
 *   N     which call, from 1, counted over all threads and children in one order; N+: this one and all after it;
 *         0: none, so that LOG says which there are
 *   LOG   one line for each call that counts: its number, its name, its path; of one that makes something, or sets a mode,
 *         a tab and the mode
 *
 * SYSFAULT_EXECS=FILE: one line for each program that is started, with its arguments and its environment.
 *
 * It ends as the program does, with 128 and the signal's number when a signal ended it; a program that has not ended
 * after two minutes is killed with all its children, and so is sysfault. SIGTERM is passed on.
 *
 * How: a seccomp filter stops the calls of SET, and only those, for the tracer (SECCOMP_RET_TRACE), which lets each go on,
 * replaces it by an error, or kills. The filter and the tracer hold for all that the program starts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "x86-64 only: registers and call numbers are its own"
#endif

enum { NONE = -1, TIME_LIMIT = 120, PATH_SIZE = 4096 };
enum kind { CHANGE, OPEN, LOOK };

/* A call: which argument is the folder or file descriptor, which the path (of two paths, the one that is changed). */
static const struct call {
    const char *name;
    int number, fd, path;
    enum kind kind;
} calls[] = {
    {"open", SYS_open, NONE, 0, OPEN},
    {"openat", SYS_openat, 0, 1, OPEN},
    {"openat2", SYS_openat2, 0, 1, OPEN},
    {"creat", SYS_creat, NONE, 0, CHANGE},
    {"write", SYS_write, 0, NONE, CHANGE},
    {"pwrite64", SYS_pwrite64, 0, NONE, CHANGE},
    {"writev", SYS_writev, 0, NONE, CHANGE},
    {"pwritev", SYS_pwritev, 0, NONE, CHANGE},
    {"sendfile", SYS_sendfile, 0, NONE, CHANGE},
    {"copy_file_range", SYS_copy_file_range, 2, NONE, CHANGE},
    {"truncate", SYS_truncate, NONE, 0, CHANGE},
    {"ftruncate", SYS_ftruncate, 0, NONE, CHANGE},
    {"fallocate", SYS_fallocate, 0, NONE, CHANGE},
    {"fsync", SYS_fsync, 0, NONE, CHANGE},
    {"fdatasync", SYS_fdatasync, 0, NONE, CHANGE},
    {"syncfs", SYS_syncfs, 0, NONE, CHANGE},
    {"rename", SYS_rename, NONE, 1, CHANGE},
    {"renameat", SYS_renameat, 2, 3, CHANGE},
    {"renameat2", SYS_renameat2, 2, 3, CHANGE},
    {"link", SYS_link, NONE, 1, CHANGE},
    {"linkat", SYS_linkat, 2, 3, CHANGE},
    {"symlink", SYS_symlink, NONE, 1, CHANGE},
    {"symlinkat", SYS_symlinkat, 1, 2, CHANGE},
    {"unlink", SYS_unlink, NONE, 0, CHANGE},
    {"unlinkat", SYS_unlinkat, 0, 1, CHANGE},
    {"rmdir", SYS_rmdir, NONE, 0, CHANGE},
    {"mkdir", SYS_mkdir, NONE, 0, CHANGE},
    {"mkdirat", SYS_mkdirat, 0, 1, CHANGE},
    {"mknod", SYS_mknod, NONE, 0, CHANGE},
    {"mknodat", SYS_mknodat, 0, 1, CHANGE},
    {"chmod", SYS_chmod, NONE, 0, CHANGE},
    {"fchmod", SYS_fchmod, 0, NONE, CHANGE},
    {"fchmodat", SYS_fchmodat, 0, 1, CHANGE},
    {"fchmodat2", 452, 0, 1, CHANGE},
    {"chown", SYS_chown, NONE, 0, CHANGE},
    {"lchown", SYS_lchown, NONE, 0, CHANGE},
    {"fchown", SYS_fchown, 0, NONE, CHANGE},
    {"fchownat", SYS_fchownat, 0, 1, CHANGE},
    {"utimensat", SYS_utimensat, 0, 1, CHANGE},
    {"setxattr", SYS_setxattr, NONE, 0, CHANGE},
    {"lsetxattr", SYS_lsetxattr, NONE, 0, CHANGE},
    {"fsetxattr", SYS_fsetxattr, 0, NONE, CHANGE},
    {"read", SYS_read, 0, NONE, LOOK},
    {"pread64", SYS_pread64, 0, NONE, LOOK},
    {"getdents64", SYS_getdents64, 0, NONE, LOOK},
    {"stat", SYS_stat, NONE, 0, LOOK},
    {"lstat", SYS_lstat, NONE, 0, LOOK},
    {"fstat", SYS_fstat, 0, NONE, LOOK},
    {"newfstatat", SYS_newfstatat, 0, 1, LOOK},
    {"statx", SYS_statx, 0, 1, LOOK},
    {"statfs", SYS_statfs, NONE, 0, LOOK},
    {"fstatfs", SYS_fstatfs, 0, NONE, LOOK},
    {"readlink", SYS_readlink, NONE, 0, LOOK},
    {"readlinkat", SYS_readlinkat, 0, 1, LOOK},
    {"access", SYS_access, NONE, 0, LOOK},
    {"faccessat", SYS_faccessat, 0, 1, LOOK},
    {"faccessat2", SYS_faccessat2, 0, 1, LOOK},
    {"flock", SYS_flock, 0, NONE, LOOK},
};
enum { CALLS = sizeof calls / sizeof *calls };

static pid_t first;

static void die(const char *what) {
    perror(what);
    exit(125);
}

static void pass_on(int signal) {
    kill(first, signal);
}

static const struct call *find(int number) {
    for (int i = 0; i < CALLS; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

static unsigned long argument(const struct user_regs_struct *regs, int which) {
    const unsigned long all[] = {regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9};
    return all[which];
}

/* A string of the program's. It may end just before a page that is not there, so it is read byte by byte at worst. */
static void text_at(pid_t pid, unsigned long address, char *text) {
    struct iovec here = {text, PATH_SIZE - 1}, there = {(void *)address, PATH_SIZE - 1};
    memset(text, 0, PATH_SIZE);
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) > 0)
        return;
    for (int i = 0; i < PATH_SIZE - 1; i++) {
        errno = 0;
        long word = ptrace(PTRACE_PEEKDATA, pid, address + i, NULL);
        if (errno || !(text[i] = (char)word))
            return;
    }
}

/* What the call is on, as an absolute path; empty for what is no file. */
static void path_of(pid_t pid, const struct call *call, const struct user_regs_struct *regs, char *path) {
    char name[PATH_SIZE] = "", link[64];
    if (call->path != NONE)
        text_at(pid, argument(regs, call->path), name);
    if (name[0] == '/') {
        strcpy(path, name);
        return;
    }
    int fd = call->fd == NONE ? AT_FDCWD : (int)argument(regs, call->fd);
    if (fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", pid);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, fd);
    ssize_t size = readlink(link, path, PATH_SIZE - 1);
    path[size < 0 ? 0 : size] = 0;
    if (path[0] == '/' && name[0] && strlen(path) + strlen(name) + 2 < PATH_SIZE)
        strcat(strcat(path, "/"), name);
}

/* Whether an open can change anything. */
static int makes(pid_t pid, const struct user_regs_struct *regs) {
    unsigned long flags;
    if (regs->orig_rax == SYS_open)
        flags = regs->rsi;
    else if (regs->orig_rax == SYS_openat)
        flags = regs->rdx;
    else /* the first field of struct open_how */
        flags = (unsigned long)ptrace(PTRACE_PEEKDATA, pid, regs->rdx, NULL);
    return (flags & (O_CREAT | O_TRUNC)) != 0;
}

/* The mode that something gets, before the umask; NONE for other calls. */
static long mode_of(pid_t pid, const struct user_regs_struct *regs) {
    switch (regs->orig_rax) {
    case SYS_creat: case SYS_mkdir: case SYS_mknod: case SYS_chmod: case SYS_fchmod:
        return (long)(regs->rsi & 07777);
    case SYS_mkdirat: case SYS_mknodat: case SYS_fchmodat: case 452:
        return (long)(regs->rdx & 07777);
    case SYS_open:
        return regs->rsi & O_CREAT ? (long)(regs->rdx & 07777) : NONE;
    case SYS_openat:
        return regs->rdx & O_CREAT ? (long)(regs->r10 & 07777) : NONE;
    case SYS_openat2: /* the first two fields of struct open_how */
        return ptrace(PTRACE_PEEKDATA, pid, regs->rdx, NULL) & O_CREAT ? ptrace(PTRACE_PEEKDATA, pid, regs->rdx + 8, NULL) & 07777 : NONE;
    default:
        return NONE;
    }
}

/* What a program that has just been started was told. */
static void tell_exec(pid_t pid, FILE *execs) {
    const char *const names[] = {"cmdline", "environ"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/%s", pid, names[i]);
        FILE *from = fopen(path, "re");
        for (int byte; from && (byte = getc(from)) != EOF;)
            putc(byte && byte != '\n' ? byte : ' ', execs);
        if (from)
            fclose(from);
    }
    putc('\n', execs);
}

static int is_below(const char *path, const char *root) {
    size_t size = strcmp(root, "/") ? strlen(root) : 0;
    return !strncmp(path, root, size) && (path[size] == '/' || path[size] == 0);
}

/* Whether a thread is of the program itself. */
static int is_own(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", first, pid);
    return !access(path, F_OK);
}

/* The program's side: stopped until the tracer is ready, then filtered, then the program. */
static void start(char **program, int every) {
    struct sock_filter filter[CALLS + 3];
    unsigned short size = 0;
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    int wanted = 0;
    for (int i = 0; i < CALLS; i++)
        wanted += every || calls[i].kind != LOOK;
    for (int i = 0; i < CALLS; i++)
        if (every || calls[i].kind != LOOK) /* jumps over the rest and over "allow" */
            filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, wanted--, 0);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog all = {size, filter};
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        die("sysfault: ptrace");
    raise(SIGSTOP);
    if (geteuid() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        die("sysfault: no_new_privs");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        die("sysfault: seccomp");
    execvp(program[0], program);
    die(program[0]);
}

int main(int count, char **argv) {
    if (count < 7) {
        fprintf(stderr, "usage: sysfault ROOT change|every kill|kill-first|ERRNO N[+] LOG PROGRAM ARGUMENT...\n");
        return 125;
    }
    const char *root = argv[1], *what = argv[3];
    int every = !strcmp(argv[2], "every"), error = atoi(what);
    long at = atol(argv[4]), seen = 0;
    int onwards = strchr(argv[4], '+') != NULL;
    FILE *log = fopen(argv[5], "we");
    if (!log)
        die(argv[5]);
    setvbuf(log, NULL, _IOLBF, 0);
    FILE *execs = getenv("SYSFAULT_EXECS") ? fopen(getenv("SYSFAULT_EXECS"), "ae") : NULL;
    if (execs)
        setvbuf(execs, NULL, _IOLBF, 0);
    unsetenv("SYSFAULT_EXECS");

    first = fork();
    if (first < 0)
        die("sysfault: fork");
    if (!first)
        start(argv + 6, every);
    alarm(TIME_LIMIT);
    signal(SIGTERM, pass_on);
    int status, result = 125;
    waitpid(first, &status, 0);
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
                   PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, first, NULL, options))
        die("sysfault: ptrace options");
    ptrace(PTRACE_CONT, first, NULL, NULL);

    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return result; /* nobody is left */
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid != first)
                continue;
            result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            if (strcmp(what, "kill-first"))
                return result; /* what is left dies with its tracer */
            continue;
        }
        int event = status >> 16, signal = event ? 0 : WSTOPSIG(status);
        /* New threads and children begin with a stop of the tracer's making. */
        if (signal == SIGSTOP)
            signal = 0;
        if (event == PTRACE_EVENT_EXEC && execs)
            tell_exec(pid, execs);
        if (event == PTRACE_EVENT_SECCOMP) {
            struct user_regs_struct regs;
            char path[PATH_SIZE];
            ptrace(PTRACE_GETREGS, pid, NULL, &regs);
            const struct call *call = find((int)regs.orig_rax);
            path_of(pid, call, &regs, path);
            int changes = call->kind == CHANGE || (call->kind == OPEN && makes(pid, &regs));
            int counts = is_below(path, root) && (changes || (every && is_own(pid)));
            if (counts) {
                seen++;
                long mode = mode_of(pid, &regs);
                if (mode == NONE)
                    fprintf(log, "%ld %s %s\n", seen, call->name, path);
                else
                    fprintf(log, "%ld %s %s\t%lo\n", seen, call->name, path, mode);
                if (at && (seen == at || (onwards && seen > at))) {
                    if (!strncmp(what, "kill", 4)) {
                        kill(first, SIGKILL);
                    } else {
                        regs.orig_rax = -1; /* no call */
                        regs.rax = -error;
                        ptrace(PTRACE_SETREGS, pid, NULL, &regs);
                    }
                }
            }
            /* One that was just killed does not make the call; of its children only kill-first lets any go on. */
            if (counts && at && seen >= at && !strcmp(what, "kill"))
                continue;
        }
        ptrace(PTRACE_CONT, pid, NULL, signal);
    }
}
