package upgraded

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func spdyFrame(kind byte, payload int) []byte {
	f := []byte{0x80, 3, 0, kind, 0, byte(payload >> 16), byte(payload >> 8), byte(payload)}
	return append(f, make([]byte, payload)...)
}

func spdyData(payload int) []byte {
	f := []byte{0, 0, 0, 1, 0, byte(payload >> 16), byte(payload >> 8), byte(payload)}
	return append(f, make([]byte, payload)...)
}

func webSocketFrame(opcode byte, payload int) []byte {
	f := []byte{webSocketFinal | opcode}
	switch {
	case payload < 126:
		f = append(f, webSocketMasked|byte(payload))
	case payload < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, webSocketMasked|126), uint16(payload))
	default:
		f = binary.BigEndian.AppendUint64(append(f, webSocketMasked|127), uint64(payload))
	}
	return append(append(f, 1, 2, 3, 4), make([]byte, payload)...)
}

// guarded is a connection with a guard, and both its ends.
type guarded struct {
	t       *testing.T
	client  io.ReadWriteCloser // the side that a proxy copies to and from
	backend net.Conn
	begun   time.Time
	ended   atomic.Int64 // time at which the guard ended it, a time.Duration; 0: not yet
}

func guard(t *testing.T, protocol string) *guarded {
	near, far := net.Pipe()
	g := &guarded{t: t, backend: far, begun: time.Now()}
	answer := &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: http.Header{"Upgrade": {protocol}}, Body: near}
	Guard(answer, Limits{}, func() { g.ended.Store(int64(time.Since(g.begun))) })
	g.client = answer.Body.(io.ReadWriteCloser)
	return g
}

// send sends data as the client; answer sends data as the backend.
func (g *guarded) send(data []byte) {
	g.t.Helper()
	go io.ReadFull(g.backend, make([]byte, len(data)))
	if _, err := g.client.Write(data); err != nil {
		g.t.Error(err)
	}
	synctest.Wait()
}

func (g *guarded) answer(data ...byte) {
	if data == nil {
		data = []byte{0, 0, 0, 1, 0, 0, 0, 1, 'x'} // data of SPDY, or empty frames of WebSocket
	}
	go g.backend.Write(data)
	io.ReadFull(g.client, make([]byte, len(data)))
}

// TestLimits: each kind of connection lasts exactly as long as its limit.
func TestLimits(t *testing.T) {
	open, ping := spdyFrame(spdySynStream, 10), spdyFrame(spdyPing, 4)
	for name, c := range map[string]struct {
		protocol string
		use      func(*guarded)
		want     time.Duration // from the beginning
	}{
		"SPDY, nothing":             {"SPDY/3.1", func(*guarded) {}, 30 * time.Second},
		"SPDY, half a header":       {"SPDY/3.1", func(g *guarded) { time.Sleep(20 * time.Second); g.send(open[:7]) }, 30 * time.Second},
		"SPDY, the backend alone":   {"SPDY/3.1", func(g *guarded) { time.Sleep(20 * time.Second); g.answer() }, 30 * time.Second},
		"SPDY, a stream":            {"SPDY/3.1", func(g *guarded) { time.Sleep(20 * time.Second); g.send(open) }, 20*time.Second + 4*time.Hour},
		"SPDY, the backend goes on": {"SPDY/3.1", func(g *guarded) { g.send(open); time.Sleep(3 * time.Hour); g.answer() }, 7 * time.Hour},
		"SPDY, pings": {"SPDY/3.1", func(g *guarded) {
			for range 10_000 { // 13.9 h
				time.Sleep(5 * time.Second)
				g.send(ping)
				g.answer(ping...)
			}
		}, 50_000*time.Second + time.Minute},
		"SPDY, pings that are not answered": {"SPDY/3.1", func(g *guarded) {
			g.send(ping)
			time.Sleep(5 * time.Second)
			g.send(ping)
		}, 5*time.Second + 4*time.Hour},
		"SPDY, pings that only output answers": {"SPDY/3.1", func(g *guarded) {
			for range 2 {
				g.send(ping)
				time.Sleep(5 * time.Second)
			}
			for range 100 {
				time.Sleep(time.Minute)
				g.answer()
			}
		}, 10*time.Second + 100*time.Minute + 4*time.Hour},
		"SPDY, rare pings": {"SPDY/3.1", func(g *guarded) {
			for range 3 {
				time.Sleep(25 * time.Second)
				g.send(ping)
				time.Sleep(time.Second)
				g.answer(ping...)
			}
		}, 77*time.Second + 78*time.Second},
		"WebSocket, nothing":           {"websocket", func(*guarded) {}, 10 * time.Minute},
		"WebSocket, the backend alone": {"websocket", func(g *guarded) { time.Sleep(time.Minute); g.answer() }, 11 * time.Minute},
		"WebSocket, the client":        {"WebSocket", func(g *guarded) { g.send(webSocketFrame(2, 5)) }, 4 * time.Hour},
		"WebSocket, pings": {"websocket", func(g *guarded) {
			for range 3 {
				g.send(webSocketFrame(webSocketPing, 0))
				time.Sleep(5 * time.Second)
				g.answer(webSocketFinal|webSocketPong, 0)
			}
		}, 10*time.Second + time.Minute},
		"another, nothing":    {"echo", func(*guarded) {}, 10 * time.Minute},
		"another, the client": {"echo", func(g *guarded) { g.send([]byte("anything")) }, 4 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, c.protocol)
				c.use(g)
				if ended := time.Duration(g.ended.Load()); ended != 0 {
					t.Errorf("ended after %v, while it was used", ended)
				}
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				if ended := time.Duration(g.ended.Load()); ended != c.want {
					t.Errorf("ended after %v, want %v", ended, c.want)
				}
				g.client.Close()
				g.backend.Close()
			})
		})
	}
}

// TestClosed: a closed connection is not ended again.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, "SPDY/3.1")
		g.client.Close()
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if ended := time.Duration(g.ended.Load()); ended != 0 {
			t.Errorf("ended after %v", ended)
		}
	})
}

// TestOthersAreUnchanged: an answer that does not switch protocols has no guard.
func TestOthersAreUnchanged(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	answer := &http.Response{StatusCode: http.StatusOK, Body: near}
	Guard(answer, Limits{}, func() { t.Error("ended") })
	if answer.Body != near {
		t.Error("it has a guard")
	}
}

func TestCounter(t *testing.T) {
	var c Counter
	var leave []func()
	for range 3 {
		out, ok := c.Enter("a", 3)
		if !ok {
			t.Fatal("refused")
		}
		leave = append(leave, out)
	}
	if _, ok := c.Enter("a", 3); ok {
		t.Error("a fourth was let in")
	}
	other, ok := c.Enter("b", 3)
	if !ok {
		t.Error("another was refused")
	}
	other()
	leave[0]()
	if _, ok := c.Enter("a", 3); !ok {
		t.Error("refused though one has left")
	}
	leave[1]()
	leave[2]()
	if len(c.open) != 1 {
		t.Errorf("%v is left", c.open)
	}
}

// sink is a backend that discards the client's bytes and sends none.
type sink struct{}

func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) Read([]byte) (int, error)    { return 0, io.EOF }
func (sink) Close() error                { return nil }

// BenchmarkWrite measures the cost of a guard for one write of a client: a frame of 4 KiB.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		protocol     string
		begin, frame []byte
	}{
		{"SPDY/3.1", spdyFrame(spdySynStream, 50), spdyData(4096)},
		{"websocket", nil, webSocketFrame(2, 4096)},
	} {
		b.Run("protocol="+c.protocol, func(b *testing.B) {
			b.ReportAllocs()
			answer := &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: http.Header{"Upgrade": {c.protocol}}, Body: sink{}}
			Guard(answer, Limits{}, func() {})
			defer answer.Body.Close()
			client := answer.Body.(io.Writer)
			if _, err := client.Write(c.begin); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := client.Write(c.frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
