package upgraded

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestGuardConn: a server's own connection has the limits of a proxy's.
func TestGuardConn(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(server, client net.Conn)
		want time.Duration // from the beginning
	}{
		"nothing":          {func(net.Conn, net.Conn) {}, 10 * time.Minute},
		"the server alone": {func(server, client net.Conn) { time.Sleep(time.Minute); pass(server, client, []byte{0x82, 0}) }, 11 * time.Minute},
		"the client":       {func(server, client net.Conn) { pass(client, server, webSocketFrame(2, 5)) }, 4 * time.Hour},
		"pings": {func(server, client net.Conn) {
			for range 3 {
				pass(client, server, webSocketFrame(webSocketPing, 0))
				time.Sleep(5 * time.Second)
				pass(server, client, []byte{webSocketFinal | webSocketPong, 0})
			}
		}, 10*time.Second + time.Minute},
		"closed": {func(server, _ net.Conn) { server.Close() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, client := net.Pipe()
				begun, ended := time.Now(), make(chan time.Duration, 1)
				server := GuardConn(near, "websocket", Limits{}, func() { ended <- time.Since(begun) })
				c.use(server, client)
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				var got time.Duration
				select {
				case got = <-ended:
				default:
				}
				if got != c.want {
					t.Errorf("ended after %v, want %v", got, c.want)
				}
				server.Close()
				client.Close()
			})
		})
	}
}

// pass writes data to one end and reads them at the other.
func pass(from, to net.Conn, data []byte) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		from.Write(data)
	}()
	io.ReadFull(to, make([]byte, len(data)))
	<-written
}

// TestGuardConnGarbage: what is no frame is an error of the first Read.
func TestGuardConnGarbage(t *testing.T) {
	near, client := net.Pipe()
	server := GuardConn(near, "websocket", Limits{}, func() { t.Error("ended") })
	defer server.Close()
	defer client.Close()
	go client.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	if n, err := server.Read(make([]byte, 100)); err == nil || n != 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
