package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

// The floor of a fan-out is the cost of writing the same bytes to as many TLS connections at the
// same pace: one write for each event and connection, and nothing else. This program measures it in
// a process of its own.

// floorOf returns the floor's processor time for each creation.
func (b *bench) floorOf(ctx context.Context, load fanLoad, size int) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, "-floor")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	cpu, err := askFloor(in, bufio.NewReader(out), load, size)
	return cpu / time.Duration(load.creates), errors.Join(err, in.Close(), cmd.Wait())
}

func askFloor(in io.Writer, out *bufio.Reader, load fanLoad, size int) (time.Duration, error) {
	if _, err := fmt.Fprintln(in, load.watchers, load.creates, load.perSecond, size); err != nil {
		return 0, err
	}
	address, err := out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	defer group.Wait()
	for range load.watchers {
		conn, err := tls.Dial("tcp", strings.TrimSpace(address), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return 0, err
		}
		group.Go(func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn) // until the floor closes it
		})
	}
	line, err := out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(strings.TrimSpace(line))
}

// serveFloor runs in the other process: it reads the load, reports its address, accepts, writes,
// and reports the cost of the writes.
func serveFloor() error {
	var load fanLoad
	var size int
	if _, err := fmt.Scanln(&load.watchers, &load.creates, &load.perSecond, &size); err != nil {
		return err
	}
	certificate, err := peer.Certificate()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	defer listener.Close()
	fmt.Println(listener.Addr())
	conns := make([]net.Conn, load.watchers)
	for i := range conns {
		if conns[i], err = listener.Accept(); err != nil {
			return err
		}
		defer conns[i].Close()
		if err := conns[i].(*tls.Conn).Handshake(); err != nil {
			return err
		}
	}
	begin, err := ownCPU()
	if err != nil {
		return err
	}
	err = load.write(conns, make([]byte, size))
	end, failed := ownCPU()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	fmt.Println(end - begin)
	return nil
}

// write writes the event to every connection as often and as fast as the load requires.
func (l fanLoad) write(conns []net.Conn, event []byte) error {
	failed := make([]error, len(conns))
	if l.perSecond > 0 {
		begin := time.Now()
		for n := range l.creates {
			pause(context.Background(), time.Until(begin.Add(time.Duration(n)*time.Second/time.Duration(l.perSecond))))
			for i, conn := range conns {
				_, failed[i] = conn.Write(event)
			}
			if err := errors.Join(failed...); err != nil {
				return err
			}
		}
		return nil
	}
	var group sync.WaitGroup
	for i, conn := range conns {
		group.Go(func() {
			for range l.creates {
				if _, failed[i] = conn.Write(event); failed[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}
