package memruntime

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Command returns a command that needs no files: true, false, echo, cat, sleep, env or tty, by name
// or path, with the output of BusyBox. All other commands are nil.
func Command(c *runtimeapi.ContainerConfig, command []string) Program {
	if len(command) == 0 {
		return nil
	}
	name, args := command[0][strings.LastIndexByte(command[0], '/')+1:], command[1:]
	switch name {
	case "true":
		return exits(0)
	case "false":
		return exits(1)
	case "echo":
		return echo(args)
	case "cat":
		return cat(args)
	case "sleep":
		return sleep(args)
	case "env":
		return env(c)
	case "tty":
		return tty
	}
	return nil
}

// MainCommand returns the command of [Command] that is the main program of a container.
func MainCommand(c *runtimeapi.ContainerConfig) Program { return Command(c, commandOf(c)) }

func exits(code int32) Program {
	return func(context.Context, Streams) int32 { return code }
}

// printed returns the exit code of a program that has written its last output.
func printed(_ int, err error) int32 {
	if err != nil {
		return 1
	}
	return 0
}

func echo(args []string) Program {
	end := "\n"
	if len(args) > 0 && args[0] == "-n" {
		args, end = args[1:], ""
	}
	return func(_ context.Context, s Streams) int32 {
		return printed(io.WriteString(s.Stdout, strings.Join(args, " ")+end))
	}
}

// cat copies its input. There are no files.
func cat(args []string) Program {
	return func(_ context.Context, s Streams) int32 {
		var code int32
		if len(args) == 0 {
			args = []string{"-"}
		}
		for _, name := range args {
			if name == "-" {
				if _, err := io.Copy(s.Stdout, s.Stdin); err != nil {
					return 1
				}
				continue
			}
			fmt.Fprintf(s.Stderr, "cat: can't open '%s': No such file or directory\n", name)
			code = 1
		}
		return code
	}
}

func sleep(args []string) Program {
	return func(ctx context.Context, s Streams) int32 {
		var seconds float64
		for _, arg := range args {
			n, err := strconv.ParseFloat(strings.TrimSuffix(arg, "s"), 64)
			if arg == "infinity" {
				n, err = math.Inf(1), nil
			}
			if err != nil || !(n >= 0) {
				fmt.Fprintf(s.Stderr, "sleep: invalid number '%s'\n", arg)
				return 1
			}
			seconds += n
		}
		if len(args) == 0 {
			io.WriteString(s.Stderr, "BusyBox: sleep needs a number of seconds\n")
			return 1
		}
		timer := time.NewTimer(time.Duration(min(seconds, math.MaxInt64/float64(2*time.Second)) * float64(time.Second)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return 0
		case <-ctx.Done():
			return exitKilled
		}
	}
}

func env(c *runtimeapi.ContainerConfig) Program {
	return func(_ context.Context, s Streams) int32 {
		var out strings.Builder
		for _, v := range c.GetEnvs() {
			fmt.Fprintf(&out, "%s=%s\n", v.GetKey(), v.GetValue())
		}
		return printed(io.WriteString(s.Stdout, out.String()))
	}
}

func tty(_ context.Context, s Streams) int32 {
	if !s.TTY {
		io.WriteString(s.Stdout, "not a tty\n")
		return 1
	}
	return printed(io.WriteString(s.Stdout, "/dev/pts/0\n"))
}
