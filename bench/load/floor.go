package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The floor of a fan-out is what it costs a process to write the same bytes to
// as many TLS connections: one write for each event and connection, nothing
// else. This program measures it in a process of its own.

// floorOf returns the floor's processor time for each of creates.
func (b *bench) floorOf(ctx context.Context, connections, creates, size int) (time.Duration, error) {
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
	cpu, err := askFloor(in, bufio.NewReader(out), connections, creates, size)
	return cpu / time.Duration(creates), errors.Join(err, in.Close(), cmd.Wait())
}

func askFloor(in io.Writer, out *bufio.Reader, connections, creates, size int) (time.Duration, error) {
	if _, err := fmt.Fprintln(in, connections, creates, size); err != nil {
		return 0, err
	}
	address, err := out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	defer group.Wait()
	for range connections {
		conn, err := tls.Dial("tcp", strings.TrimSpace(address), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return 0, err
		}
		group.Go(func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn) // ends with the floor
		})
	}
	line, err := out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(strings.TrimSpace(line))
}

// serveFloor is the other process: it reads what to do, says where it listens,
// accepts, writes, and says what the writing cost.
func serveFloor() error {
	var connections, creates, size int
	if _, err := fmt.Scanln(&connections, &creates, &size); err != nil {
		return err
	}
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	defer listener.Close()
	fmt.Println(listener.Addr())
	conns := make([]net.Conn, connections)
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
	event := make([]byte, size)
	failed := make([]error, connections)
	var group sync.WaitGroup
	for i, conn := range conns {
		group.Go(func() {
			for range creates {
				if _, failed[i] = conn.Write(event); failed[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	end, err := ownCPU()
	if err := errors.Join(err, errors.Join(failed...)); err != nil {
		return err
	}
	fmt.Println(end - begin)
	return nil
}

func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
