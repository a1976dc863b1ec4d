package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program under measurement.
type process struct {
	*exec.Cmd
	log   string
	ended chan error
}

// launch starts a program, its output going to the file log.
func launch(log, program string, arguments ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{Cmd: exec.Command(program, arguments...), log: log, ended: make(chan error, 1)}
	p.Stdout, p.Stderr = file, file
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.Wait() }()
	return p, nil
}

// stop interrupts the program and waits for its end.
func (p *process) stop() error {
	_ = p.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
		return nil
	case <-time.After(30 * time.Second):
		_ = p.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not stop", p.Path)
	}
}

// resident is the memory of the program in MiB.
func (p *process) resident() (float64, error) {
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

// awaitLine waits until the program has written a line with prefix.
func (p *process) awaitLine(ctx context.Context, prefix string) (string, error) {
	var line string
	err := poll(ctx, func() (bool, error) {
		select {
		case err := <-p.ended:
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

// poll asks every 2 ms, for a minute at most.
func poll(ctx context.Context, done func() (bool, error)) error {
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

// freePort returns a loopback port that nobody listens on.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
