package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config configures a Machine. All fields but MayFail must be set.
type Config struct {
	// Name is the name of the host.
	Name string
	// Port is the name of the host's end of the machine's link, with at most 15 bytes.
	Port string
	// Dir is an absolute path of a directory for the machine's own files: its identity, and the log of its
	// program. It must not be below /run.
	Dir string
	// Network is up, and Address is one of its addresses.
	Network *Network
	Address netip.Addr
	// Program is the command line of the machine's program, with an absolute path. It inherits the
	// environment of this process.
	Program []string
}

// Machine is a machine in namespaces. Its methods are safe for concurrent use, but for Start, which must have
// returned before others are called.
type Machine struct {
	config Config

	mu      sync.Mutex
	init    *os.Process   // guarded by mu; nil while the machine is off
	line    *net.UnixConn // guarded by mu; the machine ends when it is closed
	ended   chan struct{} // guarded by mu; closed when the machine has ended, or has no owner any more
	failure error         // guarded by mu; why it has ended
}

// New returns a machine that is off.
func New(c Config) (*Machine, error) {
	switch {
	case c.Name == "" || c.Port == "" || c.Network == nil || len(c.Program) == 0:
		return nil, errors.New("guest: Name, Port, Network or Program is missing")
	case !filepath.IsAbs(c.Dir) || !filepath.IsAbs(c.Program[0]):
		return nil, fmt.Errorf("guest: Dir %q or Program %q is not an absolute path", c.Dir, c.Program[0])
	case c.Dir == "/run" || strings.HasPrefix(c.Dir, "/run/"):
		return nil, fmt.Errorf("guest: Dir %s is below /run, of which each machine has its own", c.Dir)
	case !c.Network.config.Prefix.Contains(c.Address):
		return nil, fmt.Errorf("guest: address %v of %s is not one of %v", c.Address, c.Name, c.Network.config.Prefix)
	}
	ended := make(chan struct{})
	close(ended)
	return &Machine{config: c, ended: ended}, nil
}

// Log returns the path of the log of the machine's program.
func (m *Machine) Log() string { return filepath.Join(m.config.Dir, "machine.log") }

// Boot returns the boot ID of the machine, which it also has in /proc/sys/kernel/random/boot_id; empty until the
// machine has one.
func (m *Machine) Boot() string {
	data, _ := os.ReadFile(filepath.Join(m.config.Dir, bootFile)) // missing
	return strings.TrimSpace(string(data))
}

// bootFile is the file in Dir with the boot ID.
const bootFile = "boot-id"

// pidFile is the file in Dir with the process ID of the machine's first process on the host.
const pidFile = "machine.pid"

// Start switches the machine on. It returns when the machine has what it needs to start its program.
func (m *Machine) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init != nil {
		return fmt.Errorf("machine %s is on", m.config.Name)
	}
	if err := m.start(); err != nil {
		return fmt.Errorf("start machine %s: %w", m.config.Name, err)
	}
	return nil
}

func (m *Machine) start() error {
	if err := os.MkdirAll(m.config.Dir, 0o700); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(m.config.Dir, bootFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	log, err := os.OpenFile(m.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	listener, line, err := newLine(m.config.Dir)
	if err != nil {
		return err
	}
	defer listener.Close()
	cmd := &exec.Cmd{
		Path: self, Args: []string{initName}, Env: os.Environ(), Stdout: log, Stderr: log, ExtraFiles: []*os.File{listener},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:     true, // signals of a terminal are for the host
			Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		},
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, line.Close())
	}
	ended := make(chan struct{})
	m.init, m.line, m.ended = cmd.Process, line, ended
	go func() { m.off(line, ended, cmd.Wait()) }() // ends with the machine
	if err := m.equip(); err != nil {
		return errors.Join(err, m.init.Kill())
	}
	return nil
}

// equip gives the machine its link, and tells its init what to do.
func (m *Machine) equip() error {
	pid := strconv.Itoa(m.init.Pid)
	if err := os.WriteFile(filepath.Join(m.config.Dir, pidFile), []byte(pid+"\n"), 0o600); err != nil {
		return err
	}
	if err := m.config.Network.plug(m.init.Pid, m.config.Port, m.config.Address); err != nil {
		return err
	}
	o := m.orders()
	if err := o.write(); err != nil {
		return err
	}
	return json.NewEncoder(m.line).Encode(o)
}

// orders returns what the machine's init has to do.
func (m *Machine) orders() orders {
	return orders{
		Name: m.config.Name, Dir: m.config.Dir, Program: m.config.Program, Env: os.Environ(),
		Address: netip.PrefixFrom(m.config.Address, m.config.Network.config.Prefix.Bits()), Gateway: m.config.Network.Gateway(),
	}
}

// off records that the machine that was called by line has ended.
func (m *Machine) off(line *net.UnixConn, ended chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	line.Close()
	if m.line != line { // it was left
		return
	}
	m.init, m.line, m.failure = nil, nil, err
	_ = os.Remove(filepath.Join(m.config.Dir, pidFile)) // it may not have been written
	close(ended)
}

// Ended is closed when the machine is off.
func (m *Machine) Ended() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// Failure returns why the machine has ended; nil if its program has ended with success.
func (m *Machine) Failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// Signal sends a signal to the machine's program. It does nothing if the machine is off.
func (m *Machine) Signal(signal os.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init == nil {
		return nil
	}
	if err := m.init.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stop asks the program to end, waits until the machine has ended, and kills it when ctx is done.
func (m *Machine) Stop(ctx context.Context) error {
	if err := m.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-m.Ended():
		return nil
	case <-ctx.Done():
		return m.Kill()
	}
}

// killTimeout bounds the wait for a machine that was killed.
const killTimeout = 20 * time.Second

// Kill cuts the machine's power: all of its processes end at once. It returns when they have.
func (m *Machine) Kill() error {
	if err := m.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-m.Ended():
	case <-time.After(killTimeout):
		return fmt.Errorf("machine %s was killed, but does not end", m.config.Name)
	}
	return unplug(m.config.Port)
}

// SetLink connects the machine to the network, or disconnects it.
func (m *Machine) SetLink(connected bool) error {
	return m.config.Network.SetLink(m.config.Port, connected)
}
