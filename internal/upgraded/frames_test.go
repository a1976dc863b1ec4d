package upgraded

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

var parsers = map[string]func() parser{"SPDY": newSPDY, "WebSocket": newWebSocket}

// TestFrames: valid frames pass, in pieces of any size.
func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		protocol string
		frames   [][]byte
		pings    int
	}{
		"kubectl exec": {"SPDY", [][]byte{
			spdyFrame(4, 12), spdyFrame(spdySynStream, 50), spdyFrame(spdySynStream, 60), spdyFrame(spdyPing, 4), spdyData(0), spdyData(70_000), spdyFrame(9, 8),
			spdyFrame(3, 8), spdyFrame(spdyPing, 4), spdyFrame(7, 8),
		}, 2},
		"a browser": {"WebSocket", [][]byte{
			webSocketFrame(2, 0), webSocketFrame(1, 125), webSocketFrame(2, 126), webSocketFrame(2, 70_000), webSocketFrame(webSocketPing, 0), webSocketFrame(10, 125), webSocketFrame(8, 2),
		}, 1},
	} {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		for range 200 {
			p, rest, pings := parsers[c.protocol](), bytes.Join(c.frames, nil), 0
			for len(rest) > 0 {
				n := min(1+random.IntN(1<<random.IntN(18)), len(rest))
				pinged, err := p.parse(rest[:n])
				if err != nil {
					t.Fatalf("%s, seed %d: %v", name, seed, err)
				}
				if pinged {
					pings++
				}
				rest = rest[n:]
			}
			if pings == 0 || pings > c.pings || !p.begun() {
				t.Errorf("%s, seed %d: %d pings", name, seed, pings)
			}
		}
	}
}

// TestGarbage: invalid bytes are found at the first header.
func TestGarbage(t *testing.T) {
	unmasked := webSocketFrame(1, 5)
	unmasked[1] &^= webSocketMasked
	for name, c := range map[string]struct {
		protocol string
		data     []byte
	}{
		"HTTP to SPDY":             {"SPDY", []byte("GET / HTTP/1.1\r\n\r\n")},
		"zeros to SPDY":            {"SPDY", make([]byte, 64)},
		"ones to SPDY":             {"SPDY", bytes.Repeat([]byte{0xff}, 64)},
		"data before a stream":     {"SPDY", spdyData(4)},
		"SPDY/2":                   {"SPDY", []byte{0x80, 2, 0, 1, 0, 0, 0, 10}},
		"no such frame":            {"SPDY", spdyFrame(200, 0)},
		"a ping that is too long":  {"SPDY", spdyFrame(spdyPing, 5)},
		"HTTP to WebSocket":        {"WebSocket", []byte("GET / HTTP/1.1\r\n\r\n")},
		"SPDY to WebSocket":        {"WebSocket", spdyFrame(spdySynStream, 10)},
		"a frame without a mask":   {"WebSocket", unmasked},
		"no such opcode":           {"WebSocket", webSocketFrame(5, 0)},
		"a ping in pieces":         {"WebSocket", []byte{webSocketPing, webSocketMasked, 0, 0, 0, 0}},
		"a ping of 126":            {"WebSocket", webSocketFrame(webSocketPing, 126)},
		"more than can be counted": {"WebSocket", append([]byte{0x82, 0xff, 0x80}, make([]byte, 16)...)},
	} {
		p := parsers[c.protocol]()
		if _, err := p.parse(c.data); err == nil {
			t.Errorf("%s: taken", name)
		}
		if _, err := p.parse(spdyFrame(spdySynStream, 10)); err == nil {
			t.Errorf("%s: forgiven", name)
		}
	}
}

// TestAnswers: answers to pings are found among other frames.
func TestAnswers(t *testing.T) {
	unmasked := func(opcode byte, payload int) []byte {
		f := webSocketFrame(opcode, payload)
		mask := len(f) - payload - webSocketMask
		f[1] &^= webSocketMasked
		return append(f[:mask], f[mask+webSocketMask:]...)
	}
	for name, c := range map[string]struct {
		parser       parser
		data, answer []byte
	}{
		"SPDY":      {newSPDYAnswers(), append(spdyData(70_000), spdyFrame(2, 10)...), spdyFrame(spdyPing, 4)},
		"WebSocket": {newWebSocketAnswers(), bytes.Join([][]byte{unmasked(2, 1), unmasked(2, 200), unmasked(1, 70_000)}, nil), unmasked(webSocketPong, 3)},
	} {
		for i, data := range [][]byte{c.data, c.answer, c.data, c.answer} {
			if found, err := c.parser.parse(data); found != (i%2 == 1) || err != nil {
				t.Errorf("%s: call %d of parse = %v, %v, want %v, nil", name, i, found, err, i%2 == 1)
			}
		}
	}
}

// FuzzFrames: the result does not depend on the pieces, and no bytes cost memory.
func FuzzFrames(f *testing.F) {
	f.Add(append(spdyFrame(spdySynStream, 10), spdyData(3)...), uint8(3))
	f.Add(append(webSocketFrame(2, 200), webSocketFrame(webSocketPing, 1)...), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		for name, make := range map[string]func() parser{
			"SPDY": newSPDY, "WebSocket": newWebSocket, "SPDY's answers": newSPDYAnswers, "WebSocket's answers": newWebSocketAnswers,
		} {
			whole, pieces := make(), make()
			ping, err := whole.parse(data)
			var pinged bool
			var failed error
			for rest := data; len(rest) > 0 && failed == nil; {
				n := min(int(size)+1, len(rest))
				var one bool
				one, failed = pieces.parse(rest[:n])
				pinged, rest = pinged || one, rest[n:]
			}
			if (err == nil) != (failed == nil) || ping != pinged || whole.begun() != pieces.begun() {
				t.Errorf("%s: %v %v %v at once, %v %v %v in pieces", name, ping, err, whole.begun(), pinged, failed, pieces.begun())
			}
			if kept := cap(pieces.(*headers).have); kept > 64 {
				t.Errorf("%s: %d bytes are kept", name, kept)
			}
		}
	})
}
