package podnetwork

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestClients: pods and the machine itself may ask, at addresses that it gets later too, and no one else.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addrs := []net.Addr{&net.IPNet{IP: net.ParseIP("192.0.2.1"), Mask: net.CIDRMask(24, 32)}}
		read := 0
		c := newClients(netip.MustParsePrefix("10.244.0.0/16"))
		c.local = func() ([]net.Addr, error) { read++; return addrs, nil }
		expect := func(client string, want bool) {
			t.Helper()
			if got := c.mayAsk(netip.MustParseAddr(client)); got != want {
				t.Errorf("mayAsk(%s) = %v, want %v", client, got, want)
			}
		}
		expect("10.244.7.3", true)
		expect("127.0.0.1", true)
		expect("192.0.2.1", true)
		for range 100 {
			expect("192.0.2.2", false)
		}
		if read != 1 {
			t.Errorf("the addresses of the machine were read %d times in a moment, want 1", read)
		}
		addrs = append(addrs, &net.IPNet{IP: net.ParseIP("192.0.2.2"), Mask: net.CIDRMask(24, 32)})
		time.Sleep(localPeriod)
		expect("192.0.2.2", true)
		expect("198.51.100.1", false)
	})
}
