package upgraded

import "net"

// GuardConn guards client, the connection of a server that speaks protocol ("websocket" or
// "SPDY/3.1") itself. The response that switched protocols must have been written before. The limits
// and end are those of [Guard].
func GuardConn(client net.Conn, protocol string, limits Limits, end func()) net.Conn {
	return &accepted{Conn: client, life: newLife(protocol, limits, end)}
}

// accepted is the client's side of a connection: Read returns the bytes from the client.
type accepted struct {
	net.Conn
	life *life
}

func (a *accepted) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if n > 0 {
		if err := a.life.heard(p[:n]); err != nil {
			return 0, err
		}
	}
	return n, err
}

func (a *accepted) Write(p []byte) (int, error) {
	n, err := a.Conn.Write(p)
	if n > 0 {
		a.life.said(p[:n])
	}
	return n, err
}

func (a *accepted) Close() error {
	a.life.stop()
	return a.Conn.Close()
}
