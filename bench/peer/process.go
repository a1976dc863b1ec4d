// Package peer starts the measured programs, planekit's and the stock ones, and reads their costs.
package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program under measurement.
type Process struct {
	*exec.Cmd
	log   string
	ended chan error
}

// Launch starts a program and writes its output to the file log.
func Launch(log, program string, arguments ...string) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &Process{Cmd: exec.Command(program, arguments...), log: log, ended: make(chan error, 1)}
	p.Stdout, p.Stderr = file, file
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.Wait() }()
	return p, nil
}

// Stop interrupts the program and waits for its end. A cluster takes up to the grace period of its pods: a program that is
// stopped before it has set up its signals is killed after 30 seconds.
func (p *Process) Stop() error {
	_ = p.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
		return nil
	case <-time.After(time.Minute):
		_ = p.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not stop", p.Path)
	}
}

// End kills the program and waits for its end.
func (p *Process) End() error {
	if err := p.Process.Kill(); err != nil {
		return err
	}
	<-p.ended
	p.ended <- errors.New("killed") // for Stop
	return nil
}

// Resident returns the memory of the program in MiB.
func (p *Process) Resident() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("no VmRSS")
}

// CPU returns the processor time of the program in the nanoseconds of the scheduler; the times in
// /proc have steps of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	// The clock of a process is its inverted id and the number of the clock: that of the scheduler
	// (clock_getcpuclockid of the C library).
	const schedulers = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^p.Process.Pid<<3|schedulers), &used); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", p.Path, err)
	}
	return time.Duration(used.Nano()), nil
}

// AwaitLine waits until the program has written a line with prefix.
func (p *Process) AwaitLine(ctx context.Context, prefix string) (string, error) {
	var line string
	err := Poll(ctx, func() (bool, error) {
		select {
		case err := <-p.ended:
			p.ended <- err // for Stop
			data, _ := os.ReadFile(p.log)
			return false, fmt.Errorf("%s ended: %w\n%s", p.Path, err, data)
		default:
		}
		file, err := os.Open(p.log)
		if err != nil {
			return false, err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				line = lines.Text()
				return true, nil
			}
		}
		return false, lines.Err()
	})
	return line, err
}

// Poll calls done every 2 ms, for at most a minute.
func Poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// FreePort returns a loopback port without a listener. It is outside the range from which the
// kernel chooses ports for connections, many of which are opened before a program listens.
func FreePort() (string, error) {
	const lowest, ports = 20_000, 12_000
	var err error
	for range 100 {
		var listener net.Listener
		if listener, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(lowest+rand.IntN(ports))); err != nil {
			continue
		}
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		return port, err
	}
	return "", err
}
