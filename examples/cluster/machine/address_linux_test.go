package machine_test

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// TestHostAddress: neither the pods' range nor a bridge of another cluster, whose
// range is another one, is taken for the machine's address.
func TestHostAddress(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	pods := netip.MustParsePrefix("10.245.0.0/16")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the function
		namespace, err := netns.New()
		if err != nil {
			t.Error(err)
			return
		}
		defer namespace.Close()
		for _, l := range []struct{ name, address, want string }{
			{machine.Bridge("00000001", 1), "10.244.0.1/24", "127.0.0.1"},
			{"pods", "10.245.0.1/24", "127.0.0.1"},
			{"other", "192.0.2.7/24", "192.0.2.7"},
		} {
			link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: l.name}}
			address, err := netlink.ParseAddr(l.address)
			if err == nil {
				err = netlink.LinkAdd(link)
			}
			if err == nil {
				err = netlink.AddrAdd(link, address)
			}
			if err != nil {
				t.Error(err)
				return
			}
			if got := machine.HostAddress(pods).String(); got != l.want {
				t.Errorf("with %s on %s: %s, want %s", l.address, l.name, got, l.want)
			}
		}
	}()
	<-done
}
