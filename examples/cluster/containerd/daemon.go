package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 10 * time.Second
	// pollEvery is how often a process or a socket is looked at while waiting for
	// it; there is nothing to be notified by across a fork.
	pollEvery = 5 * time.Millisecond
)

// Daemon is one containerd.
type Daemon struct {
	config Config
	// running is the process that Start found or made.
	running process
}

// process is a containerd process.
type process struct {
	pid int
	// exited is closed when it ends; nil where it is not a child of this process.
	exited <-chan struct{}
}

// New checks config and starts nothing.
func New(config Config) (*Daemon, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	return &Daemon{config: config}, nil
}

// Available says why containerd cannot be run on this machine, or nil.
func Available() error {
	if runtime.GOOS != "linux" {
		return errors.New("it needs Linux")
	}
	if os.Geteuid() != 0 {
		return errors.New("not running as root")
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed", program)
		}
	}
	return nil
}

// Socket is the path of the CRI socket.
func (d *Daemon) Socket() string { return filepath.Join(d.config.state(), "containerd.sock") }

// Start brings the daemon up and returns when its socket answers. A daemon of
// the same root that is running already is kept.
func (d *Daemon) Start(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	return nil
}

func (d *Daemon) start(ctx context.Context) error {
	if err := d.writeConfig(); err != nil {
		return err
	}
	if pid := d.pid(); pid != 0 {
		d.config.Log.Info("found containerd running", "pid", pid, "socket", d.Socket())
		d.running = process{pid: pid}
		return d.awaitSocket(ctx, pid, nil)
	}
	// Nothing is made while there is no daemon: what is there now is an earlier
	// daemon's, which may have ended in the middle of making it.
	before := d.leftovers(ctx)
	if err := d.removeHalfRemoved(); err != nil {
		d.config.Log.Error(err, "half-removed bundles of an earlier containerd are left")
	}
	if err := d.removeOrphanSnapshots(); err != nil {
		d.config.Log.Error(err, "snapshots of an earlier containerd are left")
	}
	if err := d.removeTornResults(); err != nil {
		d.config.Log.Error(err, "torn results of network plugins are left")
	}
	pid, exited, err := d.spawn()
	if err != nil {
		return err
	}
	d.running = process{pid: pid, exited: exited}
	d.config.Log.V(1).Info("started containerd", "pid", pid, "socket", d.Socket())
	if err := d.awaitSocket(ctx, pid, exited); err != nil {
		return err
	}
	// A daemon that ends while it is asked what it knows is started again at once.
	running, cancel := whileRunning(ctx, exited)
	defer cancel()
	if err := d.removeUnknown(running, before); err != nil {
		d.config.Log.Error(err, "something of an earlier containerd is left")
	}
	return nil
}

// whileRunning returns a context that ends when a process has exited.
func whileRunning(ctx context.Context, exited <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-exited:
			cancel(errors.New("containerd ended"))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// spawn starts the process in a session of its own, so that no signal meant
// for us reaches it. The channel tells when it ends while we live.
func (d *Daemon) spawn() (pid int, exited <-chan struct{}, err error) {
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	cmd := exec.Command("containerd", "--config", d.configFile())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	done := make(chan struct{})
	// Ends with the daemon: Wait reaps it, or it lives on after us.
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	return cmd.Process.Pid, done, nil
}

func (d *Daemon) awaitSocket(ctx context.Context, pid int, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		connection, err := net.Dial("unix", d.Socket())
		if err == nil {
			return connection.Close()
		}
		select {
		case <-exited:
			return fmt.Errorf("containerd (pid %d) ended at once; its log %s ends with: %s", pid, d.logFile(), d.lastLog())
		case <-ctx.Done():
			return fmt.Errorf("containerd (pid %d) does not answer on %s: %w", pid, d.Socket(), err)
		case <-time.After(pollEvery):
		}
	}
}

// Stop ends the daemon, the shims it left, and unmounts what is under its
// directories. It does nothing where there is nothing.
func (d *Daemon) Stop(ctx context.Context) error { return d.remove(ctx, end) }

// Kill is Stop that asks no process to end: nothing has to answer for it.
func (d *Daemon) Kill(ctx context.Context) error { return d.remove(ctx, kill) }

func (d *Daemon) remove(ctx context.Context, end func(context.Context, int) error) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var failed error
	if pid := d.pid(); pid != 0 {
		failed = end(ctx, pid)
	}
	shims := d.shims()
	errs := make([]error, len(shims))
	var group sync.WaitGroup
	for i, shim := range shims {
		group.Go(func() { errs[i] = errors.Join(end(ctx, shim.pid), removeResults(shim.id)) })
	}
	group.Wait()
	failed = errors.Join(append(errs, failed, unmountUnder(d.config.Root), unmountUnder(d.config.state()))...)
	if failed != nil {
		return fmt.Errorf("stop containerd: %w", failed)
	}
	return os.RemoveAll(d.config.state())
}

// pid returns the process of this root's daemon, or 0. Every look is at the
// process table: a file with a number in it may be older than the boot.
func (d *Daemon) pid() int {
	for pid, arguments := range processes() {
		if filepath.Base(arguments[0]) == "containerd" && has(arguments, "--config", d.configFile()) {
			return pid
		}
	}
	return 0
}

// shim is the process that stands between the daemon and one sandbox.
type shim struct {
	pid int
	// id is the sandbox's, in a namespace of containerd.
	id, namespace string
}

// shims returns the processes of this daemon's containers.
func (d *Daemon) shims() []shim {
	var all []shim
	for pid, arguments := range processes() {
		if strings.HasPrefix(filepath.Base(arguments[0]), "containerd-shim") && has(arguments, "-address", d.Socket()) {
			all = append(all, shim{pid: pid, id: value(arguments, "-id"), namespace: value(arguments, "-namespace")})
		}
	}
	return all
}

// lastLog returns the end of the daemon's log.
func (d *Daemon) lastLog() string {
	data, err := os.ReadFile(d.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}
