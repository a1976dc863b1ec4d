package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// LeaveSignal asks the program of a machine to end and to leave what it has started.
const LeaveSignal = syscall.SIGUSR2

const (
	// lineName is the socket in Dir at which the owner of a machine calls its init. The machine ends with the
	// connection, unless its owner has left it.
	lineName = "machine.sock"
	// ordersFile is the file in Dir with the orders that the machine was started with, but for the environment.
	ordersFile = "machine.json"
)

// newLine makes the socket of a machine in dir, and calls it. The caller closes both.
func newLine(dir string) (listener *os.File, line *net.UnixConn, err error) {
	if err := os.Remove(filepath.Join(dir, lineName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	err = at(dir, func(address *net.UnixAddr) error {
		listens, err := net.ListenUnix("unix", address)
		if err != nil {
			return err
		}
		defer listens.Close()
		listens.SetUnlinkOnClose(false)
		if listener, err = listens.File(); err != nil {
			return err
		}
		line, err = net.DialUnix("unix", nil, address)
		return err
	})
	if err != nil && listener != nil {
		listener.Close()
	}
	return listener, line, err
}

// call calls the machine in dir. Without one, the error is [fs.ErrNotExist] or [syscall.ECONNREFUSED].
func call(dir string) (line *net.UnixConn, err error) {
	err = at(dir, func(address *net.UnixAddr) error {
		line, err = net.DialUnix("unix", nil, address)
		return err
	})
	return line, err
}

// at calls do with the address of the socket in dir, whose path may be longer than addresses can be (107 bytes, unix(7)).
func at(dir string, do func(*net.UnixAddr) error) error {
	open, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer open.Close()
	return do(&net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", open.Fd(), lineName)})
}

// write keeps what the next owner must want too.
func (o orders) write() error {
	data, err := o.kept()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.Dir, ordersFile), data, 0o600) // of a torn one, the machine ends
}

// kept returns what stays the same as long as the machine is on.
func (o orders) kept() ([]byte, error) {
	return json.Marshal(orders{Name: o.Name, Dir: o.Dir, Address: o.Address, Gateway: o.Gateway})
}

// Leave asks the program to end by [LeaveSignal], and leaves the machine on for its next owner, which calls [Machine.Adopt].
// The machine ends by itself if its directory is removed. When ctx is done, the program is killed. A machine that is off, or
// ends meanwhile, stays off.
func (m *Machine) Leave(ctx context.Context) error {
	m.mu.Lock()
	line, ended := m.line, m.ended
	m.line = nil
	m.mu.Unlock()
	if line == nil {
		return nil
	}
	err := json.NewEncoder(line).Encode(orders{Leave: true})
	if errors.Is(err, syscall.EPIPE) {
		err = nil // it has ended
	}
	stop := context.AfterFunc(ctx, func() { _ = line.CloseWrite() }) // it may have ended
	defer stop()
	_, _ = io.Copy(io.Discard, line) // until its init hangs up
	line.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.init = nil
	close(ended)
	return err
}

// Adopt takes over the machine that another process has left, and starts the program in it. It reports false if there is
// none, or if it was another one: with another name, address or network, which ends then.
func (m *Machine) Adopt() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init != nil {
		return false, fmt.Errorf("machine %s is on", m.config.Name)
	}
	process, line, err := find(m.config.Dir)
	if err != nil || process == nil {
		return false, err
	}
	o := m.orders()
	want, err := o.kept()
	if err != nil {
		return false, errors.Join(err, line.Close())
	}
	if is, err := os.ReadFile(filepath.Join(m.config.Dir, ordersFile)); err != nil || !bytes.Equal(is, want) {
		return false, end(process, line)
	}
	if err := json.NewEncoder(line).Encode(o); err != nil {
		return false, errors.Join(fmt.Errorf("adopt machine %s: %w", m.config.Name, err), line.Close())
	}
	ended := make(chan struct{})
	m.init, m.line, m.ended = process, line, ended
	go func() { // ends with the machine
		_, _ = io.Copy(io.Discard, line) // until its init hangs up
		m.off(line, ended, errors.New("its first process has ended"))
	}()
	return true, nil
}

// End ends the machine that another process has left in dir. It reports false if there is none.
func End(dir string) (bool, error) {
	process, line, err := find(dir)
	if err != nil || process == nil {
		return false, err
	}
	return true, end(process, line)
}

// end hangs up, and waits until the machine has ended.
func end(process *os.Process, line *net.UnixConn) error {
	err := errors.Join(line.CloseWrite(), process.Kill())
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_, _ = io.Copy(io.Discard, line) // until it has ended
	return errors.Join(err, line.Close())
}

// find returns the first process of the machine that waits in dir, and a call to it; nil if there is none.
func find(dir string) (*os.Process, *net.UnixConn, error) {
	line, err := call(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	process, err := firstProcess(dir)
	if err != nil {
		return nil, nil, errors.Join(err, line.Close())
	}
	return process, line, nil
}

// firstProcess returns the first process of the machine in dir.
func firstProcess(dir string) (*os.Process, error) {
	text, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, pidFile), err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return nil, err
	}
	// The process is held now, and no other can be meant by its number.
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || string(name) != initName+"\x00" {
		return nil, errors.Join(fmt.Errorf("process %d is not the first of a machine", pid), err)
	}
	return process, nil
}
