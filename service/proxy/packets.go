package proxy

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxPacket is the largest UDP packet.
	maxPacket = 64 << 10
	// maxFlows bounds the flows of a node port. Packets of further clients are dropped.
	maxFlows = 4096
)

// udpFlows are the clients of a UDP node port.
type udpFlows struct {
	mu sync.Mutex
	// byClient is guarded by mu.
	byClient map[string]*udpFlow
}

// udpFlow carries the packets of one client to one endpoint.
type udpFlow struct {
	net.Conn
	endpoint netip.AddrPort
}

// packets copies packets of clients to endpoints until the socket is closed.
func (l *Listeners) packets(socket net.PacketConn, open *listener) {
	f := &udpFlows{byClient: map[string]*udpFlow{}}
	defer f.close()
	buf := make([]byte, maxPacket)
	for {
		n, from, err := socket.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an error that a packet caused
		}
		if flow := l.flow(f, socket, from, open.get()); flow != nil {
			_, _ = flow.Write(buf[:n]) // packets may be lost
		}
	}
}

// flow returns the flow of a client, a new one if its endpoint no longer serves.
func (l *Listeners) flow(f *udpFlows, socket net.PacketConn, from net.Addr, t *target) *udpFlow {
	f.mu.Lock()
	defer f.mu.Unlock()
	flow := f.byClient[from.String()]
	if flow != nil && l.balancer.serves(t, flow.endpoint) {
		return flow
	}
	if flow != nil {
		flow.Close()
		delete(f.byClient, from.String())
	}
	endpoint, ok := l.balancer.choose(t, clientOf(from), true)
	if !ok || len(f.byClient) >= maxFlows {
		return nil
	}
	c, err := l.Dial(l.connections, "udp", endpoint.String())
	if err != nil {
		l.Log.V(1).Info("an endpoint cannot be reached", "endpoint", endpoint, "error", err.Error())
		return nil
	}
	flow = &udpFlow{c, endpoint}
	f.byClient[from.String()] = flow
	l.wg.Go(func() {
		l.answers(flow, socket, from)
		f.mu.Lock()
		if f.byClient[from.String()] == flow {
			delete(f.byClient, from.String())
		}
		f.mu.Unlock()
		flow.Close()
	})
	return flow
}

// answers copies packets of an endpoint to a client until none came for a while.
func (l *Listeners) answers(flow *udpFlow, socket net.PacketConn, to net.Addr) {
	buf := make([]byte, maxPacket)
	for {
		if err := flow.SetReadDeadline(time.Now().Add(l.Idle)); err != nil {
			return
		}
		n, err := flow.Read(buf)
		if err != nil {
			return
		}
		if _, err := socket.WriteTo(buf[:n], to); errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (f *udpFlows) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, flow := range f.byClient {
		flow.Close()
	}
}
