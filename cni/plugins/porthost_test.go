//go:build linux

package plugins_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ports is the capability of a pod with mapped ports, each as protocol, host
// port and container port, with the host's address after it if there is one.
func ports(list ...string) map[string]any {
	var all []map[string]any
	for _, text := range list {
		var protocol, hostIP string
		var from, to int
		n, _ := fmt.Sscan(text, &protocol, &from, &to, &hostIP)
		m := map[string]any{"protocol": protocol, "hostPort": from, "containerPort": to}
		if n == 4 {
			m["hostIP"] = hostIP
		}
		all = append(all, m)
	}
	return map[string]any{"portMappings": all}
}

// mapped is a list of bridge and portmap, for pods of both families.
func (h *host) mapped(options string) *cni.List { return h.mappedAs("1.1.0", options) }

func (h *host) mappedAs(version, options string) *cni.List {
	h.Helper()
	return h.list(fmt.Appendf(nil, `{"cniVersion":%[3]q,"name":"mapped","plugins":[
		{"type":"bridge","bridge":"map0","isDefaultGateway":true,"hairpinMode":true,"lockDir":%[1]q,
		 "ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/24"}],[{"subnet":"fd00:88::/64"}]],"dataDir":%[1]q}},
		{"type":"portmap","capabilities":{"portMappings":true}%[2]s}]}`, filepath.Join(h.bin, "..", "mapped"), options, version))
}

// mappedPod adds a pod with host ports.
func (h *host) mappedPod(i *cni.Invoker, l *cni.List, name string, list ...string) *pod {
	h.Helper()
	r := cni.RuntimeConfig{ContainerID: name, NetNS: h.namespace(), IfName: "eth0", Capabilities: ports(list...)}
	h.loopback(r)
	result, err := i.Add(h.Context(), l, r)
	if err != nil {
		h.Fatal(err)
	}
	return &pod{runtime: r, result: result, ip: result.IPs[0].Address.Addr().AsSlice()}
}

// outside makes a namespace that plays another machine, at 192.0.2.2 and
// 2001:db8::2. The host is at 192.0.2.1 and 2001:db8::1. It has no route to pods.
func (h *host) outside() string {
	h.Helper()
	path := h.namespace()
	h.run("ip", "link", "set", "lo", "up")
	h.run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", filepath.Base(path))
	h.run("ip", "address", "add", "192.0.2.1/24", "dev", "up0")
	h.run("ip", "address", "add", "2001:db8::1/64", "dev", "up0", "nodad")
	h.run("ip", "link", "set", "up0", "up")
	inside := []string{"--net=" + path, "ip"}
	h.run("nsenter", append(inside, "address", "add", "192.0.2.2/24", "dev", "eth0")...)
	h.run("nsenter", append(inside, "address", "add", "2001:db8::2/64", "dev", "eth0", "nodad")...)
	h.run("nsenter", append(inside, "link", "set", "eth0", "up")...)
	h.run("nsenter", append(inside, "link", "set", "lo", "up")...)
	return path
}

// here is the namespace of the host that the test plays.
func here() string { return fmt.Sprintf("/proc/self/task/%d/ns/net", thread()) }

// serveUDP makes a pod reply to each packet with its name and the packet.
func (h *host) serveUDP(p *pod, port string) {
	h.Helper()
	h.inside(p.runtime.NetNS, func() error {
		c, err := net.ListenPacket("udp", ":"+port)
		if err != nil {
			return err
		}
		done := make(chan struct{})
		h.Cleanup(func() {
			c.Close()
			<-done
		})
		go func() {
			defer close(done)
			data := make([]byte, 100)
			for {
				n, from, err := c.ReadFrom(data)
				if err != nil {
					return
				}
				_, _ = c.WriteTo(fmt.Appendf(nil, "%s %s", p.runtime.ContainerID, data[:n]), from) // a lost packet is sent again
			}
		}()
		return nil
	})
}

// flow is a UDP socket, which keeps its port.
type flow struct {
	conn net.Conn
	sent int
}

func (h *host) flow(path, to string) *flow {
	h.Helper()
	f := new(flow)
	h.inside(path, func() error {
		var err error
		f.conn, err = net.Dial("udp", to)
		return err
	})
	h.Cleanup(func() { f.conn.Close() })
	return f
}

// ask sends packets until one of them is answered, for no longer than wait, and
// returns who answers. Answers to packets of earlier calls may still come.
func (f *flow) ask(wait time.Duration) string {
	data, before := make([]byte, 100), f.sent
	for end := time.Now().Add(wait); time.Now().Before(end); {
		f.sent++
		_, _ = fmt.Fprint(f.conn, f.sent) // refused as long as no server listens, and sent again
		_ = f.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		for {
			n, err := f.conn.Read(data)
			if err != nil {
				break
			}
			var name string
			var answered int
			if _, err := fmt.Sscan(string(data[:n]), &name, &answered); err == nil && answered > before {
				return name
			}
		}
	}
	return ""
}

// hears checks what a server at an address sees of a connection from a namespace.
func (h *host) hears(path, address, see string) {
	h.Helper()
	to, port, _ := net.SplitHostPort(address)
	said, err := h.dial(path, net.ParseIP(to), port)
	if err != nil || said != see {
		h.Errorf("%s: the server sees %q, want %q; %v", address, said, see, err)
	}
}

// refused checks that nothing answers at an address.
func (h *host) refused(path, address string) {
	h.Helper()
	to, port, _ := net.SplitHostPort(address)
	if said, err := h.dial(path, net.ParseIP(to), port); !errors.Is(err, unix.ECONNREFUSED) {
		h.Errorf("%s: %q, %v, want a refusal", address, said, err)
	}
}

// tables returns the nftables tables of port mappings, with how many chains each has.
func (h *host) tables() map[string]int {
	h.Helper()
	found := map[string]int{}
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	r.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_INET})
	messages, err := r.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		h.Fatal(err)
	}
	for _, m := range messages {
		attributes, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
		if err != nil {
			h.Fatal(err)
		}
		for _, a := range attributes {
			if a.Attr.Type == unix.NFTA_CHAIN_TABLE {
				found[strings.TrimRight(string(a.Value), "\x00")]++
			}
		}
	}
	return found
}

func (h *host) routeLocalnet(link string) string {
	h.Helper()
	value, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + link + "/route_localnet")
	if err != nil {
		h.Error(err)
	}
	return strings.TrimSpace(string(value))
}
