// An echo server as Node programs are written: one event loop, callbacks. Its argument is its port.
import { createServer } from 'node:net';

const server = createServer({ noDelay: true }, (socket) => {
  socket.on('data', (data) => {
    // What the kernel does not take at once is queued; reading waits until it is gone.
    if (!socket.write(data)) {
      socket.pause();
      socket.once('drain', () => socket.resume());
    }
  });
  socket.on('error', () => socket.destroy());
});

server.listen(Number(process.argv[2]), '127.0.0.1');
