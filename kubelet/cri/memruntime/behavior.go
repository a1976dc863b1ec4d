package memruntime

import "time"

// Behavior is what a container does. The zero value runs until stopped and
// leaves with code 0 as soon as it is told to.
type Behavior struct {
	// For is how long it runs before it exits with ExitCode. Zero: until stopped.
	For time.Duration
	// ExitCode is what it exits with after For.
	ExitCode int32
	// Exits makes it exit at once when For is zero.
	Exits bool
	// TermCode is what it exits with when terminated; 143 for a process that
	// does not handle TERM.
	TermCode int32
	// IgnoresTerm makes it run on until killed: exit code 137.
	IgnoresTerm bool
	// StartError, when set, is why StartContainer fails. The container then is
	// exited with code 128 and reason StartError.
	StartError string
	// Output is what it says on its standard output, when it starts.
	Output string
	// CPU is how much it uses while it runs, in 1e-9 CPUs, and Memory its working set
	// in bytes.
	CPU, Memory uint64
}

const (
	// exitKilled is 128 and SIGKILL.
	exitKilled = 137
	// exitNotStarted is containerd's code for a container that could not start.
	exitNotStarted = 128
)
