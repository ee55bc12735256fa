/* "key=value" lines of a file, from which a fake library answers. LINES and CONFIGURATION (the
 * variable that names the file) are the includer's. */
static struct { char key[400], value[400]; } lines[LINES];
static int count;

static void load(void) {
    char line[400], *equals;
    const char *path = getenv(CONFIGURATION);
    FILE *file = path ? fopen(path, "r") : NULL;
    count = 0;
    if (!file) return;
    while (count < LINES && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line == '#' || !(equals = strchr(line, '='))) continue;
        *equals = 0;
        snprintf(lines[count].key, sizeof lines[count].key, "%s", line);
        snprintf(lines[count].value, sizeof lines[count].value, "%s", equals + 1);
        count++;
    }
    fclose(file);
}

static const char *stated(const char *key) {
    for (int i = 0; i < count; i++) if (!strcmp(lines[i].key, key)) return lines[i].value;
    return NULL;
}
