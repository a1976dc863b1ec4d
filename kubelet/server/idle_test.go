package server

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleConn: what moves in either direction starts the time over; a connection
// on which nothing has moved for so long is ended, and one that is closed is not.
func TestIdleConn(t *testing.T) {
	const idle = time.Hour
	for name, move := range map[string]func(io.ReadWriter, net.Conn){
		"read":  func(c io.ReadWriter, other net.Conn) { go other.Write([]byte("x")); c.Read(make([]byte, 1)) },
		"write": func(c io.ReadWriter, other net.Conn) { go other.Read(make([]byte, 1)); c.Write([]byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, other := net.Pipe()
				defer other.Close()
				begin, ended := time.Now(), time.Duration(0)
				c := newIdleConn(near, idle, func() { ended = time.Since(begin) })
				for range 3 { // longer than the limit in all
					time.Sleep(idle - time.Second)
					move(c, other)
				}
				time.Sleep(2 * idle)
				synctest.Wait()
				if want := 3*(idle-time.Second) + idle; ended != want {
					t.Errorf("ended after %v, want %v", ended, want)
				}
				c.Close()
				closed := newIdleConn(near, idle, func() { t.Error("ended after it was closed") })
				closed.Close()
				time.Sleep(2 * idle)
			})
		})
	}
}
