/* Stands in for a tree of processes, each with the command line of a real engine.
 *
 * TREE names a file with one process a line, children one deeper than their parent:
 *   depth <tab> how <tab> argument 0 <tab> argument 1 ...
 * `how` is "-" for a process as it is started, "title" for one that puts the first argument
 * in place of its command line, or "orphan" for one whose parent ends. "lib=PATH" before
 * the arguments maps a file. SELF is the path of this program. Each process writes its number and id to the descriptor READY
 * and then waits for a signal.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINES = 64, WORDS = 64 };
static char lines[LINES][2000];
static int depth_of[LINES], count;

static void load(void) {
    FILE *file = fopen(getenv("TREE"), "r");
    while (file && count < LINES && fgets(lines[count], sizeof lines[0], file)) {
        lines[count][strcspn(lines[count], "\n")] = 0;
        depth_of[count] = atoi(lines[count]);
        count++;
    }
    if (file) fclose(file);
}

static int split(char *line, char **words) {
    int found = 0;
    for (char *word = strtok(line, "\t"); word && found < WORDS - 1; word = strtok(NULL, "\t"))
        words[found++] = word;
    words[found] = NULL;
    return found;
}

static void become(int number) {
    char text[16], *words[WORDS];
    snprintf(text, sizeof text, "%d", number);
    setenv("NODE", text, 1);
    split(lines[number], words);
    int first = 2;
    while (words[first] && !strncmp(words[first], "lib=", 4)) first++;
    execv(getenv("SELF"), words + first);
    _exit(9);
}

static void map(const char *path) {
    int file = open(path, O_RDONLY);
    if (file < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED) _exit(8);
    close(file);
}

int main(int argc, char **argv) {
    char *words[WORDS], copy[2000], said[40];
    load();
    if (!getenv("NODE")) become(0);
    int node = atoi(getenv("NODE"));
    strcpy(copy, lines[node]);
    split(copy, words);
    for (int i = 2; words[i] && !strncmp(words[i], "lib=", 4); i++) map(words[i] + 4);
    for (int i = node + 1; i < count && depth_of[i] > depth_of[node]; i++) {
        if (depth_of[i] != depth_of[node] + 1) continue;
        int lost = strstr(lines[i], "\torphan\t") != NULL;
        if (fork() == 0) {
            if (!lost || fork() == 0) become(i);
            _exit(0);
        }
    }
    if (strcmp(words[1], "-")) {
        /* As setproctitle does it: the title, and nothing behind it. */
        char title[200];
        snprintf(title, sizeof title, "%s", argv[0]);
        char *end = argv[argc - 1] + strlen(argv[argc - 1]);
        memset(argv[0], 0, (size_t)(end - argv[0]));
        snprintf(argv[0], (size_t)(end - argv[0]) + 1, "%s", title);
    }
    snprintf(said, sizeof said, "%d %d\n", node, getpid());
    if (write(atoi(getenv("READY")), said, strlen(said)) < 0) return 1;
    for (;;) pause();
}
