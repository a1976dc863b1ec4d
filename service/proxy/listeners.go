package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// ListenersConfig describes [Listeners].
type ListenersConfig struct {
	// Services and EndpointSlices are required.
	Services       localcache.Subscriber[*corev1.Service]
	EndpointSlices localcache.Subscriber[*discoveryv1.EndpointSlice]
	// Node and Zone are those of the node that listens.
	Node, Zone string
	// Addresses are where node ports are opened. At least one is required, and unlike in rules of the
	// kernel it may be a loopback address.
	Addresses []netip.Addr
	// Grace is how long connections may go on after the context of Run has ended. 0 ends them at once.
	Grace time.Duration
	// Idle is after how long without packets a UDP flow ends; 0 means a minute.
	Idle time.Duration
	// Dial makes connections to endpoints; nil means those of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Events receives an event for a node port that cannot be opened. Nil drops them.
	Events Recorder
	Log    logr.Logger
}

// Listeners serve node ports without rules of the kernel: TCP connections and UDP flows are copied.
// Endpoints see the address of the listener's host.
type Listeners struct {
	ListenersConfig
	balancer *balancer
	wg       sync.WaitGroup
	// open belongs to the goroutine of Run.
	open map[nodePort]*listener
	// connections ends when those that are left are cut.
	connections context.Context
	cut         context.CancelFunc
}

type nodePort struct {
	address  netip.AddrPort
	protocol ruleset.Protocol
}

// listener is an open node port.
type listener struct {
	io.Closer
	mu sync.Mutex
	// target holds the port that connections lead to now. Guarded by mu.
	target *target
}

func (l *listener) get() *target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

func (l *listener) set(t *target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = t
}

// NewListeners checks a configuration and returns Listeners that open nothing yet.
func NewListeners(c ListenersConfig) (*Listeners, error) {
	if c.Services == nil || c.EndpointSlices == nil {
		return nil, errors.New("proxy: Services and EndpointSlices are required")
	}
	if len(c.Addresses) == 0 {
		return nil, errors.New("proxy: Addresses: at least one is required")
	}
	if c.Grace < 0 || c.Idle < 0 {
		return nil, fmt.Errorf("proxy: Grace, Idle: %v, %v: negative", c.Grace, c.Idle)
	}
	if c.Idle == 0 {
		c.Idle = time.Minute
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	l := &Listeners{ListenersConfig: c, open: map[nodePort]*listener{}}
	l.balancer = newBalancer(c.Services, c.EndpointSlices, Site{Node: c.Node, Zone: c.Zone})
	l.connections, l.cut = context.WithCancel(context.Background())
	return l, nil
}

// Ready is closed once the ports of all services are open.
func (l *Listeners) Ready() <-chan struct{} { return l.balancer.ready }

// Run serves node ports until ctx ends, closes them, waits for their connections up to Grace, and
// returns nil. It must be called once.
func (l *Listeners) Run(ctx context.Context) error {
	err := l.balancer.run(ctx, l.sync)
	for _, open := range l.open {
		open.Close()
	}
	end := time.AfterFunc(l.Grace, l.cut)
	defer end.Stop()
	l.wg.Wait()
	l.cut()
	return err
}

// sync opens and closes ports.
func (l *Listeners) sync() {
	wanted := map[nodePort]*target{}
	l.balancer.mu.Lock()
	for _, known := range l.balancer.known {
		for _, t := range known.targets {
			for _, a := range l.Addresses {
				if t.NodePort != 0 && ruleset.FamilyOf(a) == t.Family {
					wanted[nodePort{netip.AddrPortFrom(a, t.NodePort), t.Protocol}] = t
				}
			}
		}
	}
	l.balancer.mu.Unlock()
	for at, open := range l.open {
		if wanted[at] == nil {
			open.Close() // its connections go on
			delete(l.open, at)
		}
	}
	for at, t := range wanted {
		if open := l.open[at]; open != nil {
			open.set(t)
		} else if open := l.listen(at, t); open != nil {
			l.open[at] = open
		}
	}
}

func (l *Listeners) listen(at nodePort, t *target) *listener {
	opened := &listener{target: t}
	var err error
	switch at.protocol {
	case ruleset.TCP:
		var tcp net.Listener
		if tcp, err = net.Listen("tcp", at.address.String()); err == nil {
			opened.Closer = tcp
			l.wg.Go(func() { l.accept(tcp, opened) })
		}
	case ruleset.UDP:
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", at.address.String()); err == nil {
			opened.Closer = udp
			l.wg.Go(func() { l.packets(udp, opened) })
		}
	default:
		err = fmt.Errorf("protocol %s needs rules of the kernel", at.protocol)
	}
	if err == nil {
		return opened
	}
	l.Log.Error(err, "could not open a node port", "service", t.Namespace+"/"+t.Service, "port", t.NodePort)
	l.balancer.mu.Lock()
	known := l.balancer.known[localcache.Key(t.Namespace, t.Service)]
	l.balancer.mu.Unlock()
	if l.Events != nil && known != nil {
		l.Events.Event(known.service, corev1.EventTypeWarning, "FailedToOpenNodePort", "node port "+strconv.Itoa(int(t.NodePort))+": "+err.Error())
	}
	return nil
}

func (l *Listeners) accept(from net.Listener, open *listener) {
	for {
		c, err := from.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.Log.Error(err, "could not accept a connection to a node port")
			select { // such as too many open files, which take time to close
			case <-time.After(10 * time.Millisecond):
				continue
			case <-l.connections.Done():
				return
			}
		}
		l.wg.Go(func() { l.connect(c, open.get()) })
	}
}

// connect copies a connection in both directions until both sides have ended theirs.
func (l *Listeners) connect(c net.Conn, t *target) {
	defer c.Close()
	endpoint, ok := l.balancer.choose(t, clientOf(c.RemoteAddr()), true)
	if !ok {
		reset(c)
		return
	}
	e, err := l.Dial(l.connections, "tcp", endpoint.String())
	if err != nil {
		l.Log.V(1).Info("an endpoint does not answer", "endpoint", endpoint, "error", err.Error())
		reset(c)
		return
	}
	defer e.Close()
	defer context.AfterFunc(l.connections, func() { c.Close(); e.Close() })()
	var wg sync.WaitGroup
	wg.Go(func() { pipe(e, c) })
	pipe(c, e)
	wg.Wait()
}

// pipe copies until the source ends, and passes its end on.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		if half.CloseWrite() == nil {
			return
		}
	}
	to.Close()
	from.Close()
}

// reset makes the client see an error instead of an end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the connection is closed in any case
	}
}

func clientOf(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
