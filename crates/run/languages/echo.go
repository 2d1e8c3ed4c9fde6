// An echo server as Go programs are written: one goroutine a connection. Its argument is its port.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
)

func serve(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 65536)
	for {
		got, err := connection.Read(buffer)
		// A read may bring bytes and an error together.
		if got > 0 {
			// Write goes on until all is sent. TCP_NODELAY is on unless a program turns it off.
			if _, err := connection.Write(buffer[:got]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: echo PORT")
	}
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%s", os.Args[1]))
	if err != nil {
		log.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(connection)
	}
}
