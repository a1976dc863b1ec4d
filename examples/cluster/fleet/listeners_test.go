package fleet

import (
	"errors"
	"net"
	"testing"
)

// TestJoinListeners: connections to all listeners are accepted, and none after Close.
func TestJoinListeners(t *testing.T) {
	var all []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	joined := joinListeners(all[0], all[1:]...)
	if joined.Addr() != all[0].Addr() {
		t.Errorf("address %v", joined.Addr())
	}
	for _, one := range all {
		client, err := net.Dial("tcp", one.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := joined.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if accepted.RemoteAddr().String() != client.LocalAddr().String() {
			t.Errorf("accepted %v, not %v", accepted.RemoteAddr(), client.LocalAddr())
		}
		accepted.Close()
		client.Close()
	}
	if err := joined.Close(); err != nil {
		t.Error(err)
	}
	if err := joined.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := joined.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted after Close: %v", err)
	}
	for _, one := range all {
		if c, err := net.Dial("tcp", one.Addr().String()); err == nil {
			c.Close()
			t.Errorf("%v is open", one.Addr())
		}
	}
}
