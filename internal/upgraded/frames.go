package upgraded

import (
	"encoding/binary"
	"errors"
)

// A parser reads the headers of a client's frames, in pieces of any size.
type parser interface {
	// parse reads further bytes. It reports whether the client has sent a ping. Once it has
	// returned an error, because the bytes do not belong to the protocol, all calls return an
	// error.
	parse([]byte) (pings bool, err error)
	// begun reports whether the client has sent a complete header.
	begun() bool
	// clientBegins reports whether the client sends the first frame in this protocol.
	clientBegins() bool
}

// headers collects headers of frames and skips the payloads.
type headers struct {
	first bool // the client begins
	// size returns the length of the header that begins with these bytes; it may grow with them.
	// check returns the length of the payload.
	size  func(have []byte) int
	check func(header []byte) (payload uint64, ping bool, err error)

	have   []byte
	skip   uint64
	frames uint64
	err    error
}

func (h *headers) begun() bool        { return h.frames > 0 }
func (h *headers) clientBegins() bool { return h.first }

func (h *headers) parse(p []byte) (pings bool, err error) {
	for len(p) > 0 && h.err == nil {
		if h.skip > 0 {
			n := min(h.skip, uint64(len(p)))
			h.skip -= n
			p = p[n:]
			continue
		}
		n := min(h.size(h.have)-len(h.have), len(p))
		h.have = append(h.have, p[:n]...)
		p = p[n:]
		if len(h.have) < h.size(h.have) {
			continue
		}
		var ping bool
		h.skip, ping, h.err = h.check(h.have)
		pings = pings || ping
		h.have = h.have[:0]
		if h.err == nil {
			h.frames++
		}
	}
	return pings, h.err
}

// These are the control frames of SPDY/3
// (https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/).
const (
	spdyHeader    = 8
	spdySynStream = 1
	spdyPing      = 6
)

// spdyPayloads holds the minimum and maximum payload of each type of control frame, in bytes. Other
// types do not exist.
var spdyPayloads = map[uint16][2]uint32{
	spdySynStream: {10, 1<<24 - 1}, 2: {4, 1<<24 - 1}, 3: {8, 8}, 4: {4, 1<<24 - 1},
	spdyPing: {4, 4}, 7: {4, 8}, 8: {4, 1<<24 - 1}, 9: {8, 8},
}

func newSPDY() parser {
	opened := false // whether a stream is open
	return &headers{
		first: true,
		size:  func([]byte) int { return spdyHeader },
		check: func(h []byte) (uint64, bool, error) {
			payload := binary.BigEndian.Uint32(h[4:]) & (1<<24 - 1)
			if h[0]&0x80 == 0 {
				if !opened || binary.BigEndian.Uint32(h) == 0 {
					return 0, false, errors.New("SPDY: data without a stream")
				}
				return uint64(payload), false, nil
			}
			kind := binary.BigEndian.Uint16(h[2:])
			bounds, known := spdyPayloads[kind]
			if h[0] != 0x80 || h[1] != 3 || !known || payload < bounds[0] || payload > bounds[1] {
				return 0, false, errors.New("SPDY: not a frame")
			}
			opened = opened || kind == spdySynStream
			return uint64(payload), kind == spdyPing, nil
		},
	}
}

// newSPDYAnswers returns a parser that finds a server's answers to pings.
func newSPDYAnswers() parser {
	return &headers{
		size: func([]byte) int { return spdyHeader },
		check: func(h []byte) (uint64, bool, error) {
			control := h[0]&0x80 != 0
			return uint64(binary.BigEndian.Uint32(h[4:]) & (1<<24 - 1)), control && binary.BigEndian.Uint16(h[2:]) == spdyPing, nil
		},
	}
}

// These are bits and opcodes of WebSocket frames (RFC 6455, section 5.2).
const (
	webSocketFinal    = 0x80
	webSocketReserved = 0x30 // RSV1 is for compression
	webSocketMasked   = 0x80
	webSocketPing     = 9
	webSocketPong     = 10
	webSocketMask     = 4
)

func newWebSocket() parser {
	return &headers{
		size: func(have []byte) int { return webSocketSize(have) + webSocketMask },
		check: func(h []byte) (uint64, bool, error) {
			payload, opcode := webSocketPayload(h), h[0]&0xf
			control := opcode >= 8
			if h[0]&webSocketReserved != 0 || h[1]&webSocketMasked == 0 || payload>>63 != 0 || opcode > 10 || opcode > 2 && !control ||
				control && (payload > 125 || h[0]&webSocketFinal == 0) {
				return 0, false, errors.New("WebSocket: not a frame")
			}
			return payload, opcode == webSocketPing, nil
		},
	}
}

// newWebSocketAnswers returns a parser that finds a server's answers to pings. A server's frames
// have no mask.
func newWebSocketAnswers() parser {
	return &headers{
		size:  webSocketSize,
		check: func(h []byte) (uint64, bool, error) { return webSocketPayload(h), h[0]&0xf == webSocketPong, nil },
	}
}

// webSocketSize returns the length of a header without its mask.
func webSocketSize(have []byte) int {
	if len(have) < 2 {
		return 2
	}
	switch have[1] &^ webSocketMasked {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

func webSocketPayload(h []byte) uint64 {
	switch payload := uint64(h[1] &^ webSocketMasked); payload {
	case 126:
		return uint64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		return binary.BigEndian.Uint64(h[2:])
	default:
		return payload
	}
}
