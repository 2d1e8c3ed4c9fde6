/* An echo server as C programs are written: one thread a connection, blocking calls. Its argument is its port. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *argument)
{
    int connection = (int)(intptr_t)argument;
    char buffer[65536];
    for (;;) {
        ssize_t got = read(connection, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        for (ssize_t done = 0; done < got;) {
            ssize_t sent = write(connection, buffer + done, got - done);
            if (sent < 0 && errno != EINTR) {
                close(connection);
                return NULL;
            }
            done += sent > 0 ? sent : 0;
        }
    }
    close(connection);
    return NULL;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s PORT\n", arguments[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (listener < 0)
        fail("socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(arguments[1])),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0)
        fail("bind");
    if (listen(listener, 128) != 0)
        fail("listen");
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            continue;
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)connection) != 0)
            close(connection);
        else
            pthread_detach(thread);
    }
}
