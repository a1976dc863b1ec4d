package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The commands of the specification.
const (
	CmdAdd     = "ADD"
	CmdDel     = "DEL"
	CmdCheck   = "CHECK"
	CmdGC      = "GC"
	CmdStatus  = "STATUS"
	CmdVersion = "VERSION"
)

// Call is one call of one plugin.
type Call struct {
	// Command is one of the constants.
	Command string
	// Type is the name of the plugin's executable.
	Type string
	// Path lists the directories of executables, also for delegation by the plugin.
	Path []string
	// ContainerID, NetNS, IfName and Args are empty if Command does not use them.
	ContainerID, NetNS, IfName string
	Args                       Args
	// Stdin is the configuration.
	Stdin []byte
}

// An Executor makes a call and returns the plugin's standard output. An error reported by the
// plugin is an [*Error]. Exec must be safe for concurrent use and must not return before the plugin
// has ended.
type Executor interface {
	Exec(context.Context, Call) ([]byte, error)
}

// ExecutorFunc adapts a function to an [Executor].
type ExecutorFunc func(context.Context, Call) ([]byte, error)

// Exec calls f.
func (f ExecutorFunc) Exec(ctx context.Context, c Call) ([]byte, error) { return f(ctx, c) }

// Processes runs plugins as processes, each in a process group of its own, which is killed when the
// context is done.
type Processes struct{}

// Limits on the output of a plugin, and on how long the pipes of a killed plugin may stay open.
const (
	maxOutput = 1 << 20 // bytes
	maxStderr = 4 << 10 // bytes, kept in errors
	pipeDelay = time.Second
)

// Exec implements [Executor]. Its errors are of type [*CallError].
func (Processes) Exec(ctx context.Context, c Call) ([]byte, error) {
	path, err := Find(c.Type, c.Path)
	if err != nil {
		return nil, callError(c.Command, c.Type, err)
	}
	stdout, stderr := &limited{max: maxOutput}, &limited{max: maxStderr}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = c.environ(os.Environ())
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = pipeDelay
	failed := func(err error) error {
		return &CallError{Plugin: c.Type, Command: c.Command, Stderr: strings.TrimSpace(stderr.buf.String()), Err: err}
	}
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, failed(fmt.Errorf("killed: %w", context.Cause(ctx)))
	case errors.Is(err, exec.ErrWaitDelay):
		// The plugin has ended, but a child of it holds its pipes. Its own output is complete.
		if err = kill(); errors.Is(err, syscall.ESRCH) {
			err = nil
		}
	}
	if err != nil {
		if e := parseError(stdout.buf.Bytes()); e != nil {
			return nil, failed(e)
		}
		return nil, failed(err)
	}
	if stdout.cut {
		return nil, failed(fmt.Errorf("output longer than %d bytes", maxOutput))
	}
	return stdout.buf.Bytes(), nil
}

// Find returns the executable of a plugin in the directories of path. It fails with ErrNoPlugin if
// there is none.
func Find(typ string, path []string) (string, error) {
	if err := CheckType(typ); err != nil {
		return "", err
	}
	for _, dir := range path {
		name := filepath.Join(dir, typ)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", fmt.Errorf("%q in %q: %w", typ, path, ErrNoPlugin)
}

// environ returns the environment of this process, which includes PATH, with the CNI variables
// replaced.
func (c Call) environ(base []string) []string {
	var env []string
	for _, v := range base {
		if !strings.HasPrefix(v, "CNI_") {
			env = append(env, v)
		}
	}
	return append(env,
		"CNI_COMMAND="+c.Command,
		"CNI_CONTAINERID="+c.ContainerID,
		"CNI_NETNS="+c.NetNS,
		"CNI_IFNAME="+c.IfName,
		"CNI_ARGS="+c.Args.String(),
		"CNI_PATH="+strings.Join(c.Path, string(os.PathListSeparator)),
	)
}

// limited is a buffer that discards everything after max bytes.
type limited struct {
	buf bytes.Buffer // not embedded: its ReadFrom has no limit
	max int
	cut bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := len(p)
	if room := l.max - l.buf.Len(); n > room {
		p, l.cut = p[:room], true
	}
	l.buf.Write(p)
	return n, nil
}
