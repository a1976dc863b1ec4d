//go:build linux

package overlay_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/overlaytest"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(agentEnv); text != "" {
		fmt.Fprintln(os.Stderr, runAgent(text))
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// All pods listen on port.
const port = 8080

// cluster is a lab whose machines run overlays.
type cluster struct {
	*overlaytest.Lab
	set      *overlay.Set
	overlays []*overlay.Overlay
	stops    []func()
	config   func(c *overlay.Config)
}

func newCluster(t *testing.T, lc overlaytest.Config, config func(c *overlay.Config)) *cluster {
	t.Helper()
	c := &cluster{Lab: overlaytest.New(t, lc), set: overlay.NewSet(), config: config}
	for i, m := range c.Machines {
		c.overlays, c.stops = append(c.overlays, nil), append(c.stops, nil)
		c.start(i)
		m.Serve(c.Lab, m.PodAddress, port)
		m.Serve(c.Lab, m.PodAddress6, port)
	}
	return c
}

// start starts the overlay of machine i.
func (c *cluster) start(i int) {
	c.Helper()
	m := c.Machines[i]
	conf := overlay.Config{
		Local:    overlay.Member{Name: m.Name, Subnets: m.Subnets},
		Underlay: m.Underlay, NetNS: m.Path, Members: c.set, Publish: c.set.Put,
		Network: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("fd63:64::/32")},
		Log:     testr.New(c.TB.(*testing.T)),
	}
	c.config(&conf)
	o, err := overlay.New(conf)
	if err != nil {
		c.Fatal(err)
	}
	c.overlays[i] = o
	c.stops[i] = c.Start(m, o)
}

// backends lists the configurations that tests run with.
var backends = []struct {
	name   string
	lab    overlaytest.Config
	config func(c *overlay.Config)
	mtu    int
}{
	{"vxlan", overlaytest.Config{Machines: 3}, func(*overlay.Config) {}, 1450},
	{"vxlan-routed", overlaytest.Config{Machines: 3, Routed: true}, func(c *overlay.Config) { c.DirectRouting = true }, 1450},
	{"vxlan-direct", overlaytest.Config{Machines: 3}, func(c *overlay.Config) { c.DirectRouting = true }, 1450},
	{"vxlan-over-ipv6", overlaytest.Config{Machines: 2, Only6: true, MTU: 9000}, func(*overlay.Config) {}, 8930},
	{"host-gw", overlaytest.Config{Machines: 3}, func(c *overlay.Config) { c.Backend = overlay.HostGW }, 1500},
	{"udp", overlaytest.Config{Machines: 3}, func(c *overlay.Config) { c.Backend = overlay.UDP }, 1472},
}

// TestPairs checks that each pod reaches each other one over both families, with small and large bodies,
// and that packets of exactly the MTU pass whole.
func TestPairs(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, b.lab, b.config)
			for _, size := range []int{0, 200_000} {
				c.Reachable(port, size, overlaytest.Pod4)
				c.Reachable(port, size, overlaytest.Pod6)
			}
			for i, o := range c.overlays {
				if o.MTU() != b.mtu {
					t.Errorf("%s: MTU %d, want %d", c.Machines[i].Name, o.MTU(), b.mtu)
				}
				if refused := o.Refused(); len(refused) > 0 {
					t.Errorf("%s: refused %v", c.Machines[i].Name, refused)
				}
			}
			for _, address := range []func(*overlaytest.Machine) netip.Addr{overlaytest.Pod4, overlaytest.Pod6} {
				checkMTU(t, c, b.mtu, address)
			}
		})
	}
}

// checkMTU sends packets of the MTU, and of one byte more, from the first to the last machine.
func checkMTU(t *testing.T, c *cluster, mtu int, address func(*overlaytest.Machine) netip.Addr) {
	t.Helper()
	from, to := c.Machines[0], c.Machines[len(c.Machines)-1]
	conn, err := to.Pod.ListenUDP(address(to), port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	headers := 28
	if address(to).Is6() {
		headers = 48
	}
	c.Eventually("a packet of the MTU", func() error {
		if err := from.SendWhole(t.Context(), address(to), port, mtu); err != nil {
			return err
		}
		buffer := make([]byte, 10_000)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second)) // of an open socket
		n, err := conn.Read(buffer)
		if err == nil && n != mtu-headers {
			err = fmt.Errorf("a packet with %d bytes", n)
		}
		return err
	})
	if err := from.SendWhole(t.Context(), address(to), port, mtu+1); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a packet of %d bytes: %v", mtu+1, err)
	}
}

// routesOf returns the destinations of the overlay's routes in a machine.
func routesOf(t *testing.T, m *overlaytest.Machine) []string {
	t.Helper()
	routes, err := m.Handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: overlay.DefaultProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range routes {
		all = append(all, r.Dst.String())
	}
	slices.Sort(all)
	return all
}
