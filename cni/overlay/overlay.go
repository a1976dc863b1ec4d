//go:build linux

// Package overlay connects the pods of several hosts. Each host is a [Member] with an address in the
// network between the hosts, the underlay, and with ranges of pod addresses. An Overlay keeps the
// kernel of its host such that packets to the ranges of other members reach them.
//
//	o, err := overlay.New(overlay.Config{
//		Backend: overlay.VXLAN,
//		Local:   overlay.Member{Name: "a", Address: address, Subnets: subnets},
//		Members: source, Publish: publish,
//	})
//	go o.Run(ctx)
//	<-o.Ready() // and o.MTU() is that of the pods' interfaces
//
// # Backends
//
// [VXLAN] has a device that encapsulates frames in UDP. It learns nothing: for each other member there
// is one route with the flag onlink for each range, one permanent neighbour entry for each family, and
// one permanent FDB entry. With DirectRouting, members of the same L2 network get routes without
// encapsulation. [HostGW] has only routes by the members' addresses and refuses members that are not
// on a shared L2 network. [UDP] has a tun device whose packets this process forwards in UDP datagrams;
// it needs no feature of the kernel but is slow.
//
// # Reconciliation
//
// The overlay computes the devices, addresses, routes, neighbours and FDB entries that should exist,
// compares them with those of the kernel and applies the difference: after every change of members,
// after every notification of the kernel, and at intervals of Resync. What was deleted or changed by
// hand is repaired.
//
// Ours are the device and all that is on it, and the routes of the main table with the number
// Protocol. A route of another program is left alone, unless it has the destination and metric of a
// route that the overlay needs: then it is replaced.
//
// # Ownership
//
// Members are not trusted. A member is refused, by name and field, if its addresses, ranges or backend
// data are invalid, if it claims a range of an earlier or the local member, the hardware address of
// another one, or a range outside Network. See [Overlay.Refused].
//
// # Pods
//
// Pods are not trusted either: an nftables table of the host, see guard, keeps what a pod sends from
// counting as a packet of another member. The port of [VXLAN] and [UDP] takes packets of members alone,
// by the underlay's interface and the members' addresses, and no packet to the port of a member is
// forwarded. A packet from a member has a source in one of its ranges; with [HostGW] and DirectRouting, which
// machine of the underlay sent a packet is not known, only that no pod of this host did: only its hardware address
// would say, which is as easily forged and may be one of several of a bond. Whatever can send with the
// address of a member in the underlay is trusted as that member. The table is compared with what it
// should be at every reconciliation, of which its own changes cause none.
//
// # Restarts
//
// Neither the start nor the end of [Overlay.Run] removes anything that is still valid, so traffic
// goes on while no Run is active, except with UDP, whose packets are dropped meanwhile.
// [Overlay.Remove] removes everything.
//
// Not included: encryption, policies, masquerading, and the pods' own interfaces.
package overlay

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// The backends.
const (
	VXLAN  = "vxlan"
	HostGW = "host-gw"
	UDP    = "udp"
)

// Defaults of [Config].
const (
	DefaultVNI       = 1
	DefaultVXLANPort = 8472 // the Linux kernel's, and that of flannel
	DefaultUDPPort   = 8285 // that of flannel
	DefaultProtocol  = 112
	DefaultResync    = 4 * time.Second
)

// Config configures an [Overlay].
type Config struct {
	// Backend is VXLAN, HostGW or UDP. Empty means VXLAN.
	Backend string
	// Local is the member of this host. Name and Subnets are required. Missing addresses are taken
	// from the underlay's interface; Backend and Data are set by the overlay.
	Local Member
	// Underlay is the name of the interface to the other members. Empty means the interface that has
	// the address of Local.
	Underlay string
	// VNI is the VXLAN network identifier; zero means 1.
	VNI int
	// Port is the UDP port of VXLAN and UDP; zero means 8472 or 8285. UDP members must agree on it.
	Port int
	// MTU in bytes of the pods' interfaces. Zero means that of the underlay's interface less the
	// backend's overhead.
	MTU int
	// DirectRouting makes VXLAN use plain routes to members on the same L2 network.
	DirectRouting bool
	// Network contains all ranges of members. Empty means any range that is not special and does not
	// overlap the underlay's.
	Network []netip.Prefix
	// Device is the name of the device; empty means "pkvx.VNI" or "pktun0". The overlay owns it.
	Device string
	// Protocol is the number in the routing table by which the overlay knows its routes; zero means
	// 112. Two overlays of one host need two.
	Protocol int
	// Members reports the members.
	Members Source
	// Publish, if set, publishes the local member with its backend data. It is called until it
	// succeeds, and again whenever the member changes.
	Publish func(ctx context.Context, local Member) error
	// Resync is the interval of checks without a cause; zero means 4 s.
	Resync time.Duration
	// NetNS is the path of the network namespace to work in. Empty means that of the process.
	NetNS string
	// Log gets repairs, refusals and failures.
	Log logr.Logger
}

// An Overlay is the local part of the network of all members. Its methods are safe for concurrent use.
type Overlay struct {
	c     Config
	ready chan struct{}
	mtu   atomic.Int64
	// running is held by Run and Remove.
	running sync.Mutex

	mu      sync.Mutex
	refused map[string]error // guarded by mu
}

// New returns an overlay. It starts nothing. Errors name the field.
func New(c Config) (*Overlay, error) {
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	return &Overlay{c: c, ready: make(chan struct{})}, nil
}

// invalid returns an error that names a field.
func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...))
}

func (c *Config) complete() error {
	switch c.Backend {
	case "":
		c.Backend = VXLAN
	case VXLAN, HostGW, UDP:
	default:
		return invalid("Backend", "%q is not %s, %s or %s", c.Backend, VXLAN, HostGW, UDP)
	}
	if c.DirectRouting && c.Backend != VXLAN {
		return invalid("DirectRouting", "not with the backend %s", c.Backend)
	}
	if c.Members == nil {
		return invalid("Members", "missing")
	}
	if c.Log.GetSink() == nil {
		c.Log = logr.Discard()
	}
	if err := c.completeNumbers(); err != nil {
		return err
	}
	if c.Underlay == "" && !c.Local.Address.IsValid() && !c.Local.Address6.IsValid() {
		return invalid("Underlay", "no interface, and Local has no address")
	}
	for i, p := range c.Network {
		if p != p.Masked() || !p.IsValid() {
			return invalid(fmt.Sprintf("Network[%d]", i), "%v is no range", p)
		}
	}
	c.Local = c.Local.clone()
	if len(c.Local.Subnets) == 0 {
		return invalid("Local", "no subnets")
	}
	if err := c.checkMember(&c.Local); err != nil {
		return invalid("Local", "%v", err)
	}
	return c.completeDevice()
}

func (c *Config) completeNumbers() error {
	if c.VNI == 0 {
		c.VNI = DefaultVNI
	}
	if c.VNI < 0 || c.VNI > maxVNI {
		return invalid("VNI", "%d is not in 1-%d", c.VNI, maxVNI)
	}
	if c.Port == 0 {
		c.Port = DefaultVXLANPort
		if c.Backend == UDP {
			c.Port = DefaultUDPPort
		}
	}
	if c.Port < 0 || c.Port > maxPort {
		return invalid("Port", "%d is not in 1-%d", c.Port, maxPort)
	}
	if c.Protocol == 0 {
		c.Protocol = DefaultProtocol
	}
	// Numbers up to 4 are the kernel's and those of programs that set routes by hand or at boot.
	if c.Protocol <= 4 || c.Protocol > 255 {
		return invalid("Protocol", "%d is not in 5-255", c.Protocol)
	}
	if c.MTU != 0 && (c.MTU < minMTU || c.MTU > maxMTU) {
		return invalid("MTU", "%d is not in %d-%d", c.MTU, minMTU, maxMTU)
	}
	if c.Resync == 0 {
		c.Resync = DefaultResync
	}
	if c.Resync < 0 {
		return invalid("Resync", "%v is negative", c.Resync)
	}
	return nil
}

// MTUs of IPv4 and of the kernel's devices, in bytes.
const (
	minMTU  = 576
	minMTU6 = 1280
	maxMTU  = 65535
)

func (c *Config) completeDevice() error {
	if c.Device == "" {
		c.Device = fmt.Sprintf("pkvx.%d", c.VNI)
		if c.Backend == UDP {
			c.Device = "pktun0"
		}
	}
	// The kernel's rules; a name is also part of paths below /proc/sys.
	if len(c.Device) > 15 || strings.ContainsAny(c.Device, "/: \t\n%") || c.Device == "." || c.Device == ".." ||
		c.Device == "all" || c.Device == "default" {
		return invalid("Device", "%q is no name of an interface", c.Device)
	}
	return nil
}

// hasDevice reports whether the backend has a device of its own.
func (c *Config) hasDevice() bool { return c.Backend != HostGW }

// Ready is closed once the kernel has what the overlay needs for the first set of members, and the
// local member is published.
func (o *Overlay) Ready() <-chan struct{} { return o.ready }

// MTU returns the MTU of the pods' interfaces in bytes. It is zero until the overlay is ready. It
// follows the MTU of the underlay's interface; existing interfaces of pods are the caller's.
func (o *Overlay) MTU() int { return int(o.mtu.Load()) }

// Refused returns the members that are not reachable because they were refused, with the reasons.
func (o *Overlay) Refused() map[string]error {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]error, len(o.refused))
	for name, err := range o.refused {
		all[name] = err
	}
	return all
}

// Check returns the members that an overlay with the configuration would refuse, as far as that does
// not depend on its host: its underlay is taken to have the addresses of Local in one network with all
// members. It changes nothing.
func Check(c Config, members []Member) (map[string]error, error) {
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	u := &underlay{name: c.Underlay, address: c.Local.Address, address4: c.Local.Address, address6: c.Local.Address6, shared: true}
	if !u.address.IsValid() {
		u.address = u.address6
	}
	_, refused := c.admit(u, members)
	return refused, nil
}
