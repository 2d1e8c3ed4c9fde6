import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/** An echo server of java.net: one thread a connection, blocking calls. Its argument is its port. */
public final class Echo {
    private static void serve(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            var input = socket.getInputStream();
            var output = socket.getOutputStream();
            var buffer = new byte[65536];
            for (int got; (got = input.read(buffer)) > 0; ) {
                // A write to a socket's stream goes on until all is sent.
                output.write(buffer, 0, got);
            }
        } catch (IOException gone) {
            // Whoever was there has closed the connection.
        }
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(arguments[0]);
        try (var listener = new ServerSocket(port, 128, InetAddress.getByName("127.0.0.1"))) {
            while (true) {
                var socket = listener.accept();
                var thread = new Thread(() -> serve(socket));
                thread.setDaemon(true);
                thread.start();
            }
        }
    }
}
