package logind

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
)

const (
	fakeOwner = ":1.1" // logind's connection to the bus
	fakeSelf  = ":1.9" // that of a client
)

// fake is a bus with a logind and a systemd on it.
type fake struct {
	t        *testing.T
	listener *net.UnixListener
	address  string
	group    sync.WaitGroup

	mu    sync.Mutex
	conns []*fakeConn
	delay any // InhibitDelayMaxUSec; if it is a uint64, a hangup sets it to raised
	// raised holds the delay of the configuration. The first ignored questions are answered as if it was not
	// read yet.
	raised  uint64
	ignored int
	refuse  map[string]bool // methods that fail
	asked   map[string]int
	inhibit []any      // the arguments of the last lock
	locks   []*os.File // our ends of the locks: at their end of file, the lock is released
	changed chan struct{}
}

// fakeConn is one connection to the fake.
type fakeConn struct {
	conn   *net.UnixConn
	mu     sync.Mutex
	serial uint32
}

func newFake(t *testing.T, path string) *fake {
	t.Helper()
	if path == "" {
		dir, err := os.MkdirTemp("", "bus")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		path = filepath.Join(dir, "bus")
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, listener: listener, address: "unix:path=" + path, delay: uint64(5_000_000),
		refuse: map[string]bool{}, asked: map[string]int{}, changed: make(chan struct{}, 1)}
	f.group.Go(func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			c := &fakeConn{conn: conn}
			f.group.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(f.close)
	return f
}

// close ends the bus and all connections.
func (f *fake) close() {
	f.listener.Close()
	f.disconnect()
	f.group.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lock := range f.locks {
		lock.Close()
	}
	f.locks = nil
}

func (f *fake) disconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.conn.Close()
	}
	f.conns = nil
}

// serve authenticates a client and answers its calls.
func (f *fake) serve(c *fakeConn) {
	defer c.conn.Close()
	in := bufio.NewReader(c.conn)
	if zero, err := in.ReadByte(); err != nil || zero != 0 {
		return
	}
	for begun := false; !begun; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		answer := ""
		switch line = strings.TrimSpace(line); {
		case line == "AUTH":
			answer = "REJECTED EXTERNAL"
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			answer = "OK 0123456789abcdef0123456789abcdef"
		case line == "NEGOTIATE_UNIX_FD":
			answer = "AGREE_UNIX_FD"
		case line == "BEGIN":
			begun = true
			continue
		default:
			answer = "ERROR"
		}
		if _, err := fmt.Fprintf(c.conn, "%s\r\n", answer); err != nil {
			return
		}
	}
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		f.answer(c, m)
	}
}

// answer answers one call.
func (f *fake) answer(c *fakeConn, m *dbus.Message) {
	member := m.Headers[dbus.FieldMember].Value().(string)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[member]++
	select {
	case f.changed <- struct{}{}:
	default:
	}
	if f.refuse[member] {
		c.send(&dbus.Message{Type: dbus.TypeError, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(m.Serial()), dbus.FieldErrorName: dbus.MakeVariant("org.freedesktop.DBus.Error.AccessDenied"),
		}}, nil)
		return
	}
	var body []any
	var lock *os.File
	switch member {
	case "Hello":
		body = []any{fakeSelf}
	case "AddMatch":
		f.conns = append(f.conns, c) // from now on it gets signals
	case "GetNameOwner":
		body = []any{fakeOwner}
	case "Get":
		if f.raised > 0 {
			if f.ignored--; f.ignored < 0 {
				f.delay = f.raised
			}
		}
		body = []any{dbus.MakeVariant(f.delay)}
	case "KillUnit":
		if _, err := fmt.Sscanf(f.dropIn(), "[Login]\nInhibitDelayMaxSec=%d", &f.raised); err != nil {
			f.t.Errorf("%q: %v", f.dropIn(), err)
		}
		f.raised *= 1_000_000
	case "Inhibit":
		f.inhibit = m.Body
		ours, theirs, err := os.Pipe()
		if err != nil {
			f.t.Error(err)
			return
		}
		f.locks, lock = append(f.locks, ours), theirs
		defer theirs.Close()
		body = []any{dbus.UnixFDIndex(0)}
	}
	headers := map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(m.Serial()), dbus.FieldSender: dbus.MakeVariant("org.freedesktop.DBus")}
	if len(body) > 0 {
		headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	if lock != nil {
		headers[dbus.FieldUnixFDs] = dbus.MakeVariant(uint32(1))
	}
	c.send(&dbus.Message{Type: dbus.TypeMethodReply, Headers: headers, Body: body}, lock)
}

// send sends a message, with a file if it is not nil. A client that is gone gets nothing.
func (c *fakeConn) send(m *dbus.Message, file *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	var b bytes.Buffer
	if err := m.EncodeTo(&b, binary.LittleEndian); err != nil {
		panic(err)
	}
	binary.LittleEndian.PutUint32(b.Bytes()[8:], c.serial)
	var rights []byte
	if file != nil {
		rights = syscall.UnixRights(int(file.Fd()))
	}
	_, _, _ = c.conn.WriteMsgUnix(b.Bytes(), rights, nil)
}

// announce sends PrepareForShutdown, or another body, to all clients that have asked.
func (f *fake) announce(sender string, body ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.send(&dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath(object)), dbus.FieldInterface: dbus.MakeVariant(manager),
			dbus.FieldMember: dbus.MakeVariant(signal), dbus.FieldSender: dbus.MakeVariant(sender),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
		}}, nil)
	}
}

// await waits until the fake has been asked for something n times.
func (f *fake) await(member string, n int) {
	for {
		f.mu.Lock()
		asked := f.asked[member]
		f.mu.Unlock()
		if asked >= n {
			return
		}
		<-f.changed
	}
}

// newest returns our end of the lock that was given last.
func (f *fake) newest() *os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locks[len(f.locks)-1]
}

// released waits until a lock is released.
func released(t *testing.T, lock *os.File) {
	t.Helper()
	if n, err := lock.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the lock: %d bytes, %v", n, err)
	}
}

// dropIn returns what the configuration says besides its comment.
func (f *fake) dropIn() string {
	text, err := os.ReadFile(filepath.Join(f.dir(), dropIn))
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	return rest
}

func (f *fake) dir() string {
	return filepath.Join(filepath.Dir(strings.TrimPrefix(f.address, "unix:path=")), "conf.d")
}
