// Package program is the program in the containers of package critest. The program of an image for
// that suite is:
//
//	func main() { os.Exit(program.Main(os.Args[1:])) }
//
// Its first argument says what it does:
//
//	run                prints "ready" and exits with 0 when it gets TERM
//	stubborn           prints "ready" and does not end before it is killed
//	exit CODE [TEXT]   prints TEXT, if there is one, and exits with CODE
//	say OUT ERR CODE   prints OUT and, as an error, ERR, and exits with CODE
//	hang               does not end, as a command in a container
//	flood BYTES        prints so many bytes
//	copy               prints its input
//	serve              listens on a port of the loopback address, prints "port N", and returns to
//	                   clients what they send
//
// [Command] runs those from say to copy in the caller's process, for runtimes without processes, and
// [Echo] serves a connection.
package program

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Ready is the line that run and stubborn print when a signal finds them prepared.
const Ready = "ready"

// misused is the exit code for arguments that mean nothing.
const misused = 64

// Main runs the program in this process and returns its exit code.
func Main(args []string) int {
	signals := make(chan os.Signal, 1)
	if len(args) == 1 && args[0] == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(Ready)
		sleep(context.Background())
	}
	if len(args) == 1 && args[0] == "run" {
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println(Ready)
		<-signals
		return 0
	}
	if len(args) == 1 && args[0] == "serve" {
		return serve()
	}
	return Command(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
}

// serve serves a port until the program is killed.
func serve() int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("port %d\n", l.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		go Echo(conn)
	}
}

// Echo returns to a client what it sends, and closes the connection.
func Echo(conn net.Conn) {
	defer conn.Close()
	io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // fails if the client has gone
}

// Command runs a command that needs no signals and returns its exit code. It ends when ctx is done or
// its input is at its end.
func Command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "copy":
		if _, err := io.Copy(stdout, stdin); err != nil {
			return 1
		}
		return 0
	case len(args) == 1 && args[0] == "hang":
		sleep(ctx)
		return 1
	case len(args) == 2 && args[0] == "flood":
		return flood(args[1], stdout)
	case len(args) >= 2 && args[0] == "exit":
		for _, text := range args[2:] {
			fmt.Fprintln(stdout, text)
		}
		return code(args[1])
	case len(args) == 4 && args[0] == "say":
		fmt.Fprint(stdout, args[1])
		fmt.Fprint(stderr, args[2])
		return code(args[3])
	}
	fmt.Fprintf(stderr, "unknown command %q\n", args)
	return misused
}

// sleep waits until ctx is done. Without a timer, a program with nothing else to do would end as a
// deadlock.
func sleep(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func code(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return misused
	}
	return n
}

// flood writes so many bytes to out.
func flood(size string, out io.Writer) int {
	const chunk = 64 << 10
	for rest := code(size); rest > 0; rest -= chunk {
		if _, err := out.Write(bytes.Repeat([]byte("x"), min(rest, chunk))); err != nil {
			return 1
		}
	}
	return 0
}
