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
	// Path is where executables are looked for, also by the plugin if it
	// delegates.
	Path []string
	// ContainerID, NetNS, IfName and Args are empty where Command has no use for
	// them.
	ContainerID, NetNS, IfName string
	Args                       Args
	// Stdin is the configuration.
	Stdin []byte
}

// An Executor makes a call and returns what the plugin wrote to its standard
// output. A failure which the plugin reported is an [*Error]. Exec must be
// safe for concurrent use and must not return before the plugin has ended.
type Executor interface {
	Exec(context.Context, Call) ([]byte, error)
}

// ExecutorFunc is a function that is an [Executor].
type ExecutorFunc func(context.Context, Call) ([]byte, error)

// Exec calls f.
func (f ExecutorFunc) Exec(ctx context.Context, c Call) ([]byte, error) { return f(ctx, c) }

// Processes runs plugins as processes, each in a process group of its own,
// which is killed when the context is done.
type Processes struct{}

// How much of a plugin's output is read, and for how long a killed plugin's
// pipes may stay open.
const (
	maxOutput = 1 << 20 // bytes
	maxStderr = 4 << 10 // bytes, quoted in errors
	pipeDelay = time.Second
)

// Exec implements [Executor].
func (Processes) Exec(ctx context.Context, c Call) ([]byte, error) {
	path, err := Find(c.Type, c.Path)
	if err != nil {
		return nil, err
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
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("killed: %w%s", context.Cause(ctx), stderr.quoted())
	case errors.Is(err, exec.ErrWaitDelay):
		// The plugin has ended, but left a child which holds its pipes. What it
		// wrote itself is complete.
		if err = kill(); errors.Is(err, syscall.ESRCH) {
			err = nil
		}
	}
	if err != nil {
		if e := parseError(stdout.buf.Bytes()); e != nil {
			return nil, e
		}
		return nil, fmt.Errorf("%w%s", err, stderr.quoted())
	}
	if stdout.cut {
		return nil, fmt.Errorf("output longer than %d bytes", maxOutput)
	}
	return stdout.buf.Bytes(), nil
}

// Find returns the executable of a plugin, looked up in the directories of
// path. ErrNoPlugin says that there is none.
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

// environ is that of this process, for plugins need PATH and the like, with
// the CNI variables replaced.
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

// limited is a buffer that forgets what comes after max bytes.
type limited struct {
	buf bytes.Buffer // not embedded: its ReadFrom knows no limit
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

// quoted returns what was written as the tail of an error message.
func (l *limited) quoted() string {
	text := bytes.TrimSpace(l.buf.Bytes())
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf(", stderr: %q", text)
}
