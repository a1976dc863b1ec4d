//go:build linux

package overlaytest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens a TCP listener in the namespace.
func (n *Namespace) Listen(a netip.Addr, port int) (l net.Listener, err error) {
	err = n.Inside(func() error {
		l, err = net.Listen("tcp", netip.AddrPortFrom(a, uint16(port)).String())
		return err
	})
	return l, err
}

// ListenUDP opens a UDP socket in the namespace.
func (n *Namespace) ListenUDP(a netip.Addr, port int) (c *net.UDPConn, err error) {
	err = n.Inside(func() error {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, uint16(port))))
		return err
	})
	return c, err
}

// Dial connects from the namespace.
func (n *Namespace) Dial(ctx context.Context, network string, a netip.Addr, port int) (c net.Conn, err error) {
	err = n.Inside(func() error {
		var d net.Dialer
		// One address, one connection: the dialer's goroutines would be in another namespace.
		d.FallbackDelay = -1
		c, err = d.DialContext(ctx, network, netip.AddrPortFrom(a, uint16(port)).String())
		return err
	})
	return c, err
}

// Serve answers HTTP requests to a pod with its machine's name and the length of the request's body.
// It ends with the test.
func (m *Machine) Serve(l *Lab, a netip.Addr, port int) {
	l.Helper()
	listener, err := m.Pod.Listen(a, port)
	if err != nil {
		l.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d %s", m.Name, n, strings.Repeat("x", int(n)))
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // until it is closed
	}()
	l.Cleanup(func() {
		server.Close()
		<-done
	})
}

// Get sends an HTTP request with a body of size bytes from the pod and returns the answer, which must
// have as many.
func (m *Machine) Get(ctx context.Context, to netip.Addr, port, size int) (name string, err error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return m.Pod.Dial(ctx, network, to, port)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://pod/", strings.NewReader(strings.Repeat("y", size)))
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(body))
	if len(fields) < 2 || fields[1] != fmt.Sprint(size) || size > 0 && (len(fields) != 3 || len(fields[2]) != size) {
		return "", fmt.Errorf("%s answered with %d bytes for %d", to, len(body), size)
	}
	return fields[0], nil
}

// Patience is how long a test waits for what must come.
const Patience = time.Minute

// Eventually calls f until it succeeds, and fails the test with its last error after [Patience].
func (l *Lab) Eventually(what string, f func() error) {
	l.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Reachable waits until each machine's pod gets answers from each other one, for requests of size bytes.
func (l *Lab) Reachable(port, size int, address func(m *Machine) netip.Addr) {
	l.Helper()
	for _, from := range l.Machines {
		for _, to := range l.Machines {
			if from == to {
				continue
			}
			l.Eventually(fmt.Sprintf("%s to %s", from.Name, to.Name), func() error {
				name, err := from.Get(l.Context(), address(to), port, size)
				if err == nil && name != to.Name {
					err = fmt.Errorf("answer from %s", name)
				}
				return err
			})
		}
	}
}

// Pod4 and Pod6 return a machine's pod address of a family.
func Pod4(m *Machine) netip.Addr { return m.PodAddress }
func Pod6(m *Machine) netip.Addr { return m.PodAddress6 }

// SendWhole sends one UDP packet of size bytes, with its headers, from the pod, which no router may
// split. The error is EMSGSIZE if it is larger than the MTU of the pod's interface or of a path that is
// known.
func (m *Machine) SendWhole(ctx context.Context, to netip.Addr, port, size int) error {
	c, err := m.Pod.Dial(ctx, "udp", to, port)
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	level, option, value, headers := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, 28
	if to.Is6() {
		level, option, value, headers = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, 48
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, value) }); err != nil {
		return err
	}
	if set != nil {
		return set
	}
	_, err = c.Write(make([]byte, size-headers))
	return err
}
