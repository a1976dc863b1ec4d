package effects

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// A proxy stands before one address of a member.
type proxy struct {
	address, target string
	// peers means that the connections come from members, which name themselves in their first request.
	peers bool

	mu sync.Mutex // guards the fields below
	// cutOff holds the members that may not connect; the empty name refuses everybody.
	cutOff map[string]bool
	mute   bool // what target sends is dropped
	conns  map[net.Conn]string
}

func newProxy(t *testing.T, target string, peers bool) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String(), target: target, peers: peers, cutOff: map[string]bool{}, conns: map[net.Conn]string{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut("", true)
		all.Wait()
	})
	return p
}

// carry serves one connection.
func (p *proxy) carry(near net.Conn) {
	defer near.Close()
	var first []byte
	from := ""
	if p.peers {
		_ = near.SetReadDeadline(time.Now().Add(5 * time.Second))
		for !bytes.Contains(first, []byte("\r\n\r\n")) {
			piece := make([]byte, 4096)
			n, err := near.Read(piece)
			if err != nil {
				return
			}
			first = append(first, piece[:n]...)
		}
		_ = near.SetReadDeadline(time.Time{})
		if r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(first))); err == nil {
			from = r.Header.Get("X-Server-From")
		}
	}
	far, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !p.admit(near, far, from) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := far.Write(first); err == nil {
			_, _ = io.Copy(far, near)
		}
		_ = far.Close()
	})
	both.Go(func() { _, _ = io.Copy(muting{near, p}, far); _ = near.Close() })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, near)
	delete(p.conns, far)
}

func (p *proxy) admit(near, far net.Conn, from string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutOff[""] || p.cutOff[from] {
		return false
	}
	p.conns[near], p.conns[far] = from, from
	return true
}

type muting struct {
	net.Conn
	proxy *proxy
}

func (m muting) Write(data []byte) (int, error) {
	m.proxy.mu.Lock()
	mute := m.proxy.mute
	m.proxy.mu.Unlock()
	if mute {
		return len(data), nil
	}
	return m.Conn.Write(data)
}

// cut ends the connections of a member, all if from is empty, and refuses further ones if refuse is set.
func (p *proxy) cut(from string, refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = false
	p.cutOff[from] = refuse
	for conn, of := range p.conns {
		if from == "" || of == from {
			_ = conn.Close()
		}
	}
}

// heal admits connections again.
func (p *proxy) heal(from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cutOff, from)
}

func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}
