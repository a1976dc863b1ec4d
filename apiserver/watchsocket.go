package apiserver

import (
	"github.com/planekit/planekit/apiserver/internal/socket"
	"github.com/planekit/planekit/apiserver/internal/wire"
)

// socketEvents sends each event of a watch as a message of a WebSocket, as text if it is JSON.
type socketEvents struct {
	q     *request
	ended func() // is called when the client has gone
	conn  *socket.Conn
	err   error
}

// Begin answers the handshake. If it is wrong, that is answered too.
func (e *socketEvents) Begin(contentType string) {
	e.q.w.Header().Set("Content-Type", contentType)
	e.conn, e.err = socket.Accept(e.q.w, e.q.r, e.ended)
}

func (e *socketEvents) Add(frame []byte, err error) {
	if e.err != nil {
		return
	}
	if e.err = err; err != nil {
		return
	}
	media := e.q.out.Media
	if media == wire.Proto {
		frame = frame[protoLength:] // a message has a length of its own
	}
	e.err = e.conn.Send(frame, media == wire.JSON)
}

// protoLength is the number of bytes before a protobuf event which are its length.
const protoLength = 4

// Flush has nothing left to send.
func (e *socketEvents) Flush() error { return e.err }

func (e *socketEvents) close() {
	if e.conn != nil {
		e.conn.Close()
	}
}
