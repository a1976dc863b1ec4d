package memruntime

import "time"

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
	// Output is written to its standard output when it starts.
	Output string
	// CPU is its CPU usage while it runs, in 1e-9 CPUs, and Memory its working set in bytes.
	CPU, Memory uint64
}

const (
	// exitKilled is 128 and SIGKILL.
	exitKilled = 137
	// exitNotStarted is containerd's code for a container that could not start.
	exitNotStarted = 128
)
