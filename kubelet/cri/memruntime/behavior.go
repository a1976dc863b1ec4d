package memruntime

import (
	"context"
	"net"
	"time"
)

// Behavior defines how a container behaves. The zero value runs until it is stopped, and then exits
// with code 0 at once.
type Behavior struct {
	// For is the time after which it exits with ExitCode. Zero means that it runs until stopped.
	For time.Duration
	// ExitCode is the exit code after For.
	ExitCode int32
	// Exits makes it exit at once when For is zero.
	Exits bool
	// TermCode is the exit code after TERM; 143 for a process that does not handle TERM.
	TermCode int32
	// IgnoresTerm makes it run until killed: exit code 137.
	IgnoresTerm bool
	// StartError, if set, is the error of StartContainer. The container then has exited with code
	// 128 and reason StartError.
	StartError string
	// Program is the main program of the container, which exits with its exit code. It makes For,
	// ExitCode and Exits meaningless. A stop ends the container as without a program; the context
	// of the program is done then. Nil means a program that neither reads nor writes.
	Program Program
	// Listen returns what serves a connection to a port of the container, or nil if nothing listens
	// there. It may be called from any goroutine. Serve must return soon after ctx is done or the
	// connection has failed. Nil means that nothing listens.
	Listen func(port uint16) (serve func(ctx context.Context, conn net.Conn))
	// Output is written to its standard output when it starts.
	Output string
	// CPU is its CPU usage while it runs, in 1e-9 CPUs, and Memory its working set in bytes.
	CPU, Memory uint64
}

const (
	// exitInterrupted is 128 and SIGINT.
	exitInterrupted = 130
	// exitKilled is 128 and SIGKILL.
	exitKilled = 137
	// exitNotStarted is containerd's code for a container that could not start.
	exitNotStarted = 128
)
